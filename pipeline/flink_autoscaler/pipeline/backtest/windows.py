"""The recorded windows of the vertices of a job, from the rows of the metric history."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from flink_autoscaler.core.model.metrics import VertexId
from flink_autoscaler.pipeline.backtest.arrivals import SKEW
from flink_autoscaler.pipeline.backtest.subject import UnfitError
from flink_autoscaler.pipeline.simulator.model import JobModel

MICROS: Final = 1e6


@dataclass(frozen=True)
class Windows:
    """The recorded windows of all vertices.

    Attributes:
        newest: The rows of the latest pass: what the job is now.
        of: Rows by vertex, oldest first.
        busy: Busy share by vertex and instant, where it is known.
    """

    newest: Sequence[Mapping[str, Any]]
    of: Mapping[VertexId, Sequence[Mapping[str, Any]]]
    busy: Mapping[tuple[VertexId, int], float]

    def sizes_at(self, instant: float, model: JobModel) -> dict[VertexId, int] | None:
        """Return the first recorded parallelism since an instant; None where that of a vertex is not known."""
        since = int(instant * MICROS)
        sizes = {
            v.vertex_id: next(
                (row["parallelism"] for row in self.of[v.vertex_id] if row["ts"] >= since and row["parallelism"]), None
            )
            for v in model.vertices
        }
        known = {vertex_id: size for vertex_id, size in sizes.items() if size is not None}
        most = {v.vertex_id: v.max_parallelism for v in model.vertices}
        return {v: min(size, most[v]) for v, size in known.items()} if len(known) == len(sizes) else None


def windows_of(vertices: pa.Table, now: float) -> Windows:
    """Sort the rows of a job by vertex.

    Args:
        vertices: Rows with the columns that fitting needs.
        now: Epoch seconds; what is later was written by a clock that is wrong.

    Raises:
        UnfitError: There is none.
    """
    recorded = [row for row in numbered_rows(vertices) if row["vertex_id"] is not None]
    rows = [row for row in recorded if row["ts"] <= (now + SKEW) * MICROS]
    if not recorded:
        raise UnfitError("its vertices were never recorded")
    if not rows:
        raise UnfitError("all of it is later than now: the clock of the daemon or of this machine is wrong")
    rows.sort(key=lambda row: int(row["ts"]))
    newest = [row for row in rows if row["ts"] == rows[-1]["ts"]]
    of: dict[VertexId, list[Mapping[str, Any]]] = {row["vertex_id"]: [] for row in newest}
    for row in rows:
        if row["vertex_id"] in of:
            of[row["vertex_id"]].append(row)
    busy = {(row["vertex_id"], row["ts"]): row["busy"] for row in rows if row["busy"] is not None}
    return Windows(newest, of, busy)


def numbered_rows(table: pa.Table) -> Iterator[dict[str, Any]]:
    """Yield rows with instants as microseconds since the epoch, and numbers that cannot be as None.

    No number of a history can be negative, infinite or not a number. Rows without an instant say nothing.
    """
    position = table.schema.get_field_index("ts")
    numbered = table.set_column(position, "ts", table.column("ts").cast(pa.timestamp("us", "UTC")).cast(pa.int64()))
    for batch in numbered.to_batches(max_chunksize=10_000):
        yield from (_possible(row) for row in batch.to_pylist() if row["ts"] is not None)


def _possible(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value if name == "ts" else _known(value) for name, value in row.items()}


def _known(value: Any) -> Any:
    """Return a value; None in place of a number that cannot be, and lists of rows with the same done to them."""
    if isinstance(value, list):
        return [_possible(each) for each in value if each is not None]
    if isinstance(value, int | float) and not (math.isfinite(value) and value >= 0):
        return None
    return value
