"""The jobs of a pass as frames, which are all that Spark Connect knows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from flink_autoscaler.pipeline.spark.task import PartitionPlan, PassTask

REQUESTS: Final = pa.schema(
    [
        pa.field("position", pa.int32(), False),
        pa.field("cluster", pa.int32(), False),
        pa.field("request", pa.binary(), False),
    ]
)
"""The columns of a ``RequestRow``."""

OUTCOMES: Final = pa.schema(
    [("position", pa.int32()), ("outcome", pa.binary()), ("problem", pa.string()), ("seconds", pa.float64())]
)
"""The columns of an ``OutcomeRow``."""


@dataclass(frozen=True)
class FrameTask:
    """Turns frames of ``REQUESTS`` into frames of ``OUTCOMES``: the function of ``mapInArrow``."""

    task: PassTask

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Evaluate all jobs of a partition concurrently."""
        rows = [row for batch in batches for row in zip(*(column.to_pylist() for column in batch.columns), strict=True)]
        if rows:
            yield _batch(self.task.of_rows(rows), OUTCOMES)


def table(plan: PartitionPlan) -> pa.Table:
    """Return the rows of a plan as ``REQUESTS``, one chunk per task."""
    return pa.Table.from_batches([_batch(piece, REQUESTS) for piece in plan.pieces], REQUESTS)


def _batch(rows: Iterable[Sequence[object]], schema: pa.Schema) -> pa.RecordBatch:
    columns = zip(*rows, strict=True)
    return pa.RecordBatch.from_arrays(list(map(pa.array, columns, schema.types)), schema=schema)
