"""How the jobs of a pass are dealt out to Spark's tasks."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import pyarrow as pa

from flink_autoscaler.core.model.job import Endpoint
from flink_autoscaler.core.model.reading import ClusterReading
from flink_autoscaler.pipeline.spark.codec import Encoded, encode
from flink_autoscaler.pipeline.spark.task import REQUESTS

JOBS_PER_TASK: Final = 16
"""Fewer jobs are not worth another task."""

Row = tuple[int, int, Encoded]
"""As in ``REQUESTS``: place in the pass, place of the cluster, encoded request."""


@dataclass(frozen=True)
class PartitionPlan:
    """The jobs of a pass, cut into one piece per task. A cluster with few jobs is not cut.

    Attributes:
        endpoints: Of the clusters, by place.
        pieces: Rows per task; no piece is empty.
    """

    endpoints: tuple[Endpoint, ...]
    pieces: tuple[tuple[Row, ...], ...]

    @classmethod
    def of(cls, clusters: Mapping[Endpoint, Sequence[tuple[int, Encoded]]], most_tasks: int) -> PartitionPlan:
        """Deal out encoded requests.

        Args:
            clusters: Per endpoint, the jobs' places in the pass and their requests; not empty.
            most_tasks: Pieces at most, at least 1.
        """
        rows = [(place, index, data) for index, jobs in enumerate(clusters.values()) for place, data in jobs]
        tasks = min(most_tasks, math.ceil(len(rows) / JOBS_PER_TASK))
        size = math.ceil(len(rows) / tasks)
        pieces = tuple(tuple(rows[start : start + size]) for start in range(0, len(rows), size))
        return cls(tuple(clusters), pieces)

    def divided(self) -> list[Endpoint]:
        """Return the clusters whose jobs are dealt out to several tasks."""
        return [self.endpoints[index] for index, tasks in self._tasks().items() if tasks > 1]

    def clusters(self, readings: Mapping[Endpoint, ClusterReading]) -> Encoded:
        """Return ``PassTask.clusters``: tasks that share a cluster share its connections.

        Raises:
            CodecError: A reading holds something that cannot be pickled.
        """
        tasks = self._tasks()
        return encode(
            tuple(
                (_share(endpoint, tasks[index]), readings.get(endpoint))
                for index, endpoint in enumerate(self.endpoints)
            )
        )

    def table(self) -> pa.Table:
        """Return the rows of ``REQUESTS``, one chunk per task."""
        return pa.Table.from_batches([_batch(piece) for piece in self.pieces], REQUESTS)

    def _tasks(self) -> Counter[int]:
        return Counter(index for piece in self.pieces for index in {cluster for _, cluster, _ in piece})


def _share(endpoint: Endpoint, tasks: int) -> Endpoint:
    return endpoint if tasks == 1 else replace(endpoint, max_connections=max(1, endpoint.max_connections // tasks))


def _batch(piece: Sequence[Row]) -> pa.RecordBatch:
    columns = zip(*piece, strict=True)
    arrays = [pa.array(column, kind) for column, kind in zip(columns, REQUESTS.types, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=REQUESTS)
