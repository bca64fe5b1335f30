"""The streaming job that tests scale: its jar, and its arguments."""

from __future__ import annotations

import hashlib
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING

from testkit.clusters.flink.cache import cache_directory, make_once, say
from testkit.clusters.flink.distribution import distribution
from testkit.clusters.flink.errors import HarnessError
from testkit.clusters.flink.java import tool

if TYPE_CHECKING:  # the jar is made before what the cluster needs is installed
    from testkit.clusters.flink.cluster import FlinkCluster

ENTRY_CLASS = "flinkcluster.ScalingJob"
ALERTS_CLASS = "flinkcluster.AlertsJob"
"""Two sources and two works instead of one, whose rare alerts go to one sink."""
SOURCE_VERTEX = "Source: orders"
WORK_VERTEX = "work"
SINK_VERTEX = "sink: Writer"


@dataclass(frozen=True, kw_only=True)
class ScalingJob:
    """One run of the job; a field is the option of the same name.

    Attributes:
        curve: Records/s that arrive, as ``seconds:rate`` points; see :mod:`testkit.clusters.flink.curve`.
        start_ms: Epoch of the curve's second 0; the past means a backlog.
        splits: Partitions of the source: more source subtasks than that idle.
        keys: Different keys, uniformly used.
        payload_bytes: Size of a record without its key.
        lag_metric: Whether the source reports its pending records.
        partition_metrics: Whether the source reports offsets as the Kafka reader does.
        cost_micros: Busy time of the work vertex per record: a subtask sustains
            1e6 / ``cost_micros`` records/s.
        cost: ``"sleep"`` or ``"cpu"``.
        chain_sink: Whether sink and work are one vertex.
        ballast_megabytes: Heap that each work subtask holds.
        alert_every: Records of a work subtask per alert, in the job of alerts.
        alert_cost_millis: What the sink of alerts takes for one.
        checkpoint_interval_ms: 0 makes no checkpoints.
    """

    name: str = "scaling-job"
    curve: str = "0:100"
    start_ms: int | None = None
    splits: int = 8
    keys: int = 10_000
    payload_bytes: int = 200
    topic: str = "orders"
    partition_metrics: bool = False
    lag_metric: bool = True
    cost_micros: int = 1000
    cost: str = "sleep"
    parallelism_source: int = 1
    parallelism_work: int = 1
    parallelism_sink: int = 1
    chain_sink: bool = False
    ballast_megabytes: int = 0
    alert_every: int = 1000
    alert_cost_millis: int = 20
    max_parallelism: int = 128
    checkpoint_interval_ms: int = 2000

    def arguments(self) -> list[str]:
        """Return the program arguments; without a start the curve starts now."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        values["start_ms"] = int(time.time() * 1000) if self.start_ms is None else self.start_ms
        texts = {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in values.items()}
        return [text for name, value in texts.items() for text in (f"--{name.replace('_', '-')}", value)]


def submit(
    cluster: FlinkCluster,
    job: ScalingJob,
    *,
    config: Mapping[str, str] | None = None,
    entry_class: str = ENTRY_CLASS,
) -> str:
    """Run the job on a session cluster; return its id when all its subtasks run.

    Args:
        cluster: A running session cluster.
        job: What to run.
        config: Flink options of this job; ``/jobs/:id/jobmanager/config`` does not show them.
        entry_class: The usual job, or that of alerts.
    """
    jar = build(cluster.version)
    job_id = cluster.upload_and_run(jar, entry_class=entry_class, args=job.arguments(), config=config)
    cluster.wait_for_running(job_id)
    return job_id


def build(version: str) -> Path:
    """Return the job's jar for a Flink version, compiling it if its source has changed.

    Raises:
        HarnessError: There is no JDK, or the source does not compile.
    """
    sources = sorted(Path(__file__).parent.glob("*.java"))
    digest = hashlib.sha256(b"\0".join(source.read_bytes() for source in sources)).hexdigest()[:16]
    flink = distribution(version)
    target = cache_directory() / f"scaling-job-{flink.release}-{digest}"
    return make_once(target, lambda into: _compile(sources, flink.class_path, into)) / "scaling-job.jar"


def _compile(sources: list[Path], class_path: str, into: Path) -> None:
    say(f"compiling {ENTRY_CLASS}")
    classes = into / "classes"
    paths = [str(source) for source in sources]
    # Release 11 is what Flink 1.20 still runs on.
    _run([str(tool("javac")), "--release", "11", "-nowarn", "-cp", class_path, "-d", str(classes), *paths])
    _run([str(tool("jar")), "--create", "--file", str(into / "scaling-job.jar"), "-C", str(classes), "."])


def _run(command: list[str]) -> None:
    result = subprocess.run(command, check=False, capture_output=True, text=True)
    if result.returncode:
        raise HarnessError(f"{Path(command[0]).name} failed:\n{result.stderr[-4000:]}")
