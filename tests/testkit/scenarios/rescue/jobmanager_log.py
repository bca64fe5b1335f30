"""What the JobManager wrote down: when things happened, independently of the REST API and the product."""

from __future__ import annotations

import re

from testkit.clusters.flink import FlinkCluster


def logged(cluster: FlinkCluster, pattern: str) -> list[float]:
    """Return when the JobManager logged lines that match, seconds of the day, oldest first."""
    line = re.compile(rf"^(\d\d):(\d\d):(\d\d)\.(\d{{3}}) .*(?:{pattern})")
    found = (line.match(each) for each in cluster.jobmanager.log_file.read_text(errors="replace").splitlines())
    return [
        int(hit[1]) * 3600.0 + int(hit[2]) * 60 + int(hit[3]) + int(hit[4]) / 1000 for hit in found if hit is not None
    ]
