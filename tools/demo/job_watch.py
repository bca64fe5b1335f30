"""Looks at the running job through Flink's REST API, independent of the daemon."""

from __future__ import annotations

import time
from collections.abc import Mapping

from demo.plan import SLOTS
from demo.story import Look
from testkit.clusters.flink.job import SOURCE_VERTEX
from testkit.clusters.flink.rest import FlinkRest, Json

_LAG = "Source__orders.pendingRecords"
_OFFSETS = tuple(
    f"Source__orders.KafkaSourceReader.topic.orders.partition.{split}.currentOffset" for split in range(SLOTS)
)


class JobPoller:
    """Gives one look after the other. A request that fails leaves its part of the look unknown."""

    def __init__(self, rest: FlinkRest, job_id: str) -> None:
        self._rest = rest
        self._job = f"/jobs/{job_id}"
        self.vertices: Mapping[str, str] = {vertex["id"]: name for name, vertex in rest.vertices(job_id).items()}
        """Vertex name by vertex id; the same for the life of the job."""
        self._source = next(vertex_id for vertex_id, name in self.vertices.items() if name == SOURCE_VERTEX)

    def poll(self) -> Look:
        """Look once: two requests."""
        job = self._rest.reachable(self._job)
        names = ",".join((_LAG, *_OFFSETS))
        rows = self._rest.reachable(f"{self._job}/vertices/{self._source}/subtasks/metrics?get={names}")
        lag, taken = source_progress(rows or [])
        return Look(time.time(), None if job is None else running_parallelism(job), lag, taken)


def running_parallelism(job: Json) -> dict[str, int] | None:
    """Return the parallelism by vertex name from job details; None unless every subtask runs."""
    vertices = job["vertices"]
    all_run = all(vertex["tasks"]["RUNNING"] == vertex["parallelism"] for vertex in vertices)
    if job["state"] != "RUNNING" or not all_run:
        return None
    return {str(vertex["name"]): int(vertex["parallelism"]) for vertex in vertices}


def source_progress(rows: Json) -> tuple[float | None, float | None]:
    """Return the records that wait and the records that were taken, from aggregated metrics of the source.

    The offset of a partition is the greatest of all subtasks: Flink keeps what a subtask last reported about a
    partition that another one has now.
    """
    metrics = {row["id"]: row for row in rows}
    offsets = [float(metrics[name]["max"]) + 1 for name in _OFFSETS if name in metrics]
    lag = float(metrics[_LAG]["sum"]) if _LAG in metrics else None
    return lag, sum(offsets) if len(offsets) == len(_OFFSETS) else None
