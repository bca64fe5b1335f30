"""Makes the archives of classes, from a cluster that runs the job once."""

from __future__ import annotations

from pathlib import Path

from testkit.clusters.flink import archive, job
from testkit.clusters.flink.cache import make_once, say
from testkit.clusters.flink.cluster import FlinkCluster

_DUMP_TIMEOUT = 300.0
"""Seconds that a JVM may take to end: it writes its archive by then, for 2 s on a quiet machine."""


class _RecordingCluster(FlinkCluster):
    """A cluster whose processes write what they have loaded when they end."""

    into: Path

    def shared_classes(self, role: str) -> list[str]:
        """Return the option that writes instead of reading."""
        return [f"-XX:ArchiveClassesAtExit={archive.archive(self.into, role)}"]


def record(version: str) -> Path:
    """Make the archives of a Flink version on first use; return their folder. It takes some 15 s, once per machine."""
    return make_once(archive.folder(version), lambda into: _record(version, into))


def _record(version: str, into: Path) -> None:
    say(f"archiving the classes of Flink {version}, once")
    cluster = _RecordingCluster(version, slots=2)
    cluster.into = into
    with cluster:
        cluster.cancel(job.submit(cluster, job.ScalingJob(parallelism_work=2)))
        for process in (*cluster.taskmanagers, cluster.jobmanager):
            process.stop(_DUMP_TIMEOUT)
