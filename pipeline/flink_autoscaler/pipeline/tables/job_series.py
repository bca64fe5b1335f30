"""Series of one job over days, read from the history in this process within bounds of memory and time."""

from __future__ import annotations

import re
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from flink_autoscaler.pipeline.tables.files import HistoryError, LocalFiles
from flink_autoscaler.pipeline.tables.schema import RESCALES, SAMPLES, VERTICES, HistoryTable
from flink_autoscaler.pipeline.tables.store import HistoryFilter, distinct_rows, retry_until_consistent, scan

MAX_ROWS: Final = 400_000
MAX_SECONDS: Final = 10.0
_NO_RATE: Final = 1e-9
"""Records/s below which nothing arrives."""

_STRICT: Final = pc.ScalarAggregateOptions(skip_nulls=False)
"""What one source does not tell is not known of the job."""

_COLUMNS: Final = {
    SAMPLES.name: ("arrival_rate", "lag"),
    VERTICES.name: ("vertex_name", "parallelism", "slot_sharing_group", "busy", "true_rate", "target_rate"),
    RESCALES.name: ("origin", "stage", "outage", "reverted", "before", "target"),
}
"""What is needed of each table beside its key."""


class QueryTooLargeError(HistoryError):
    """More would have to be read than one question may."""


@dataclass(frozen=True, slots=True)
class Span:
    """A time in equal steps. Epoch milliseconds; ``until_ms`` is the instant after the last."""

    since_ms: int
    until_ms: int
    step_ms: int

    def begin(self, at_ms: int) -> int:
        """Return the beginning of the step of an instant."""
        return self.since_ms + (at_ms - self.since_ms) // self.step_ms * self.step_ms

    def steps(self, instants: pa.ChunkedArray) -> pa.ChunkedArray:
        """Return the beginnings of the steps of instants within the time."""
        passed = pc.subtract(_milliseconds(instants), self.since_ms)
        return pc.add(pc.multiply(pc.divide(passed, self.step_ms), self.step_ms), self.since_ms)


@dataclass(frozen=True, slots=True)
class SeriesPoint:
    """State of a job in one step; None is not known.

    Attributes:
        at_ms: Its beginning.
        load: Mean of the records/s that arrived at all sources.
        capacity: Mean of what could have until the first vertex was busy all the time.
        lag: Most records that waited.
        lag_seconds: Greatest age of the oldest of them.
        slots: That were held at its end.
    """

    at_ms: int
    load: float | None
    capacity: float | None
    lag: float | None
    lag_seconds: float | None
    slots: int | None


@dataclass(frozen=True, slots=True)
class VertexSeries:
    """The parallelism of a vertex at the end of steps, and how busy it was in them, by their beginning."""

    vertex_id: str
    name: str
    parallelism: tuple[tuple[int, int], ...]
    busy: tuple[tuple[int, float | None], ...] = ()


@dataclass(frozen=True, slots=True)
class RecordedRescale:
    """A rescale as the history has it."""

    decided_ms: int
    origin: str
    stage: str
    outage_ms: int | None
    is_reverted: bool
    before: Mapping[str, int]
    target: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class JobHistorySeries:
    """Series of a job; everything is in the order of time.

    Attributes:
        damaged: What is wrong with files that were left out.
    """

    points: tuple[SeriesPoint, ...]
    vertices: tuple[VertexSeries, ...]
    rescales: tuple[RecordedRescale, ...]
    damaged: tuple[str, ...] = ()


def read_job_series(
    path: str, job: tuple[str, str], span: Span, clock: Callable[[], float] = time.monotonic
) -> JobHistorySeries:
    """Read how a job went.

    Args:
        path: Of a history on this machine.
        job: Its cluster and its key.
        span: Which time; a step is what a point stands for.
        clock: Seconds, never going back.

    Raises:
        MissingHistoryError: There is no such history.
        QueryTooLargeError: There is too much of it.
        HistoryError: It cannot be listed.
    """
    return retry_until_consistent(lambda: _read(LocalFiles(path), job, span, clock))


def _read(files: LocalFiles, job: tuple[str, str], span: Span, clock: Callable[[], float]) -> JobHistorySeries:
    selection = HistoryFilter(span.since_ms, span.until_ms, frozenset({job[0]}), f"^{re.escape(job[1])}$")
    damaged: list[str] = []
    until, left = clock() + MAX_SECONDS, MAX_ROWS

    def rows(table: HistoryTable) -> pa.Table:
        """Return rows, each once, in the order of time; give up where there are too many."""
        nonlocal left
        columns = list(dict.fromkeys((*table.key, "ts", *_COLUMNS[table.name])))
        pieces = [table.schema.empty_table().select(columns)]
        for piece in scan(files, table, selection, damaged, columns):
            left -= len(piece)
            if left < 0 or clock() > until:
                raise QueryTooLargeError("that is more than one question may read: ask for a shorter time")
            pieces.append(piece)
        known = pa.concat_tables(pieces).filter(pc.field(table.key[1]).is_valid())
        return distinct_rows(table, known).sort_by([("ts", "ascending"), (table.key[1], "ascending")])

    sizes = rows(VERTICES)
    return JobHistorySeries(
        tuple(_points(span, rows(SAMPLES), sizes)),
        tuple(_parallelism(span, sizes)),
        tuple(map(_rescale, rows(RESCALES).sort_by("decided_at").to_pylist())),
        tuple(damaged),
    )


def _milliseconds(instants: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.divide(instants.cast(pa.int64()), 1000)


def _ratio(numerator: pa.ChunkedArray, denominator: pa.ChunkedArray) -> pa.ChunkedArray:
    """Divide rates; what nothing arrives at has no ratio."""
    return pc.divide(numerator, pc.if_else(pc.greater(denominator, _NO_RATE), denominator, None))


def _points(span: Span, rates: pa.Table, sizes: pa.Table) -> Iterator[SeriesPoint]:
    """Put sources, and vertices, together by instant, and instants by step."""
    age = pc.if_else(pc.equal(rates["lag"], 0.0), 0.0, _ratio(rates["lag"], rates["arrival_rate"]))
    of_sources = (
        rates.append_column("age", age)
        .group_by("ts")
        .aggregate([("arrival_rate", "sum", _STRICT), ("lag", "sum", _STRICT), ("age", "max", _STRICT)])
    )
    shares = sizes.append_column("share", _ratio(sizes["true_rate"], sizes["target_rate"]))
    # A slot sharing group takes as many slots as its widest vertex.
    of_groups = shares.group_by(["ts", "slot_sharing_group"]).aggregate([("parallelism", "max"), ("share", "min")])
    of_vertices = of_groups.group_by("ts").aggregate([("parallelism_max", "sum"), ("share_min", "min")])
    instants = of_sources.join(of_vertices, "ts", join_type="full outer").sort_by("ts")
    capacity = pc.multiply(instants["arrival_rate_sum"], instants["share_min_min"])
    steps = instants.append_column("capacity", capacity).append_column("step", span.steps(instants["ts"]))
    found = steps.group_by("step", use_threads=False).aggregate(
        [
            ("arrival_rate_sum", "mean"),
            ("capacity", "mean"),
            ("lag_sum", "max"),
            ("age_max", "max"),
            ("parallelism_max_sum", "last"),
        ]
    )
    for row in found.to_pylist():
        yield SeriesPoint(
            row["step"],
            load=row["arrival_rate_sum_mean"],
            capacity=row["capacity_mean"],
            lag=row["lag_sum_max"],
            lag_seconds=row["age_max_max"],
            slots=row["parallelism_max_sum_last"],
        )


def _parallelism(span: Span, sizes: pa.Table) -> Iterator[VertexSeries]:
    known = sizes.append_column("step", span.steps(sizes["ts"])).filter(pc.field("parallelism").is_valid())
    by_step = known.group_by(["vertex_id", "step"], use_threads=False)
    found: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    of_steps = by_step.aggregate([("parallelism", "last"), ("vertex_name", "last"), ("busy", "mean")])
    for row in of_steps.to_pylist():
        found[row["vertex_id"]].append(row)
    for vertex_id, rows in found.items():
        name = rows[-1]["vertex_name_last"] or vertex_id
        sizes = tuple((row["step"], row["parallelism_last"]) for row in rows)
        yield VertexSeries(vertex_id, name, sizes, tuple((row["step"], row["busy_mean"]) for row in rows))


def _rescale(row: Mapping[str, Any]) -> RecordedRescale:
    return RecordedRescale(
        round(row["decided_at"].timestamp() * 1000),
        row["origin"] or "",
        row["stage"] or "",
        None if row["outage"] is None else round(1000 * row["outage"]),
        bool(row["reverted"]),
        _vector(row["before"]),
        _vector(row["target"]),
    )


def _vector(entries: Sequence[Mapping[str, Any]] | None) -> dict[str, int]:
    known = [each for each in entries or () if each["vertex_id"] is not None and each["parallelism"] is not None]
    return {each["vertex_id"]: each["parallelism"] for each in known}
