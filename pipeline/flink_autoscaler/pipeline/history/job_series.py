"""How one job went over days, read from the history in this process within bounds of memory and time."""

from __future__ import annotations

import operator
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any, Final

import pyarrow as pa
import pyarrow.dataset as ds

from flink_autoscaler.pipeline.history.catalog import find, require
from flink_autoscaler.pipeline.history.files import FileEntry, HistoryError, LocalFiles
from flink_autoscaler.pipeline.history.layout import Selection
from flink_autoscaler.pipeline.history.schema import RESCALES, SAMPLES, VERTICES, HistoryTable, instant

MOST_ROWS: Final = 400_000
MOST_SECONDS: Final = 10.0
_BATCH: Final = 16_384
_NO_RATE: Final = 1e-9
"""Records/s below which nothing arrives."""

_SAMPLES: Final = ("ts", "source_id", "arrival_rate", "lag")
_VERTICES: Final = (
    "ts", "vertex_id", "vertex_name", "parallelism", "slot_sharing_group", "true_rate", "target_rate",
)  # fmt: skip
_RESCALES: Final = ("ts", "decided_at", "origin", "stage", "outage", "reverted", "before", "target")


class TooMuchError(HistoryError):
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


@dataclass(frozen=True, slots=True)
class SeriesPoint:
    """What a job was like in one step; None is not known.

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
    """The parallelism of a vertex at the end of steps, by their beginning: those in which it changed, and the last."""

    vertex_id: str
    name: str
    parallelism: tuple[tuple[int, int], ...]


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
class JobSeries:
    """How a job went; everything is in the order of time.

    Attributes:
        damaged: What is wrong with files that were left out.
    """

    points: tuple[SeriesPoint, ...]
    vertices: tuple[VertexSeries, ...]
    rescales: tuple[RecordedRescale, ...]
    damaged: tuple[str, ...] = ()


def job_series(path: str, job: tuple[str, str], span: Span, clock: Callable[[], float] = time.monotonic) -> JobSeries:
    """Read how a job went.

    Args:
        path: Of a history on this machine.
        job: Its cluster and its key.
        span: Which time; a step is what a point stands for.
        clock: Seconds, never going back.

    Raises:
        MissingHistoryError: There is no such history.
        TooMuchError: There is too much of it.
        HistoryError: It cannot be listed.
    """
    files = LocalFiles(path)
    require(files)
    reader = _Reader(files, job[1], Selection(span.since_ms, span.until_ms, frozenset({job[0]})), clock)
    rates = _by_instant(reader.rows(SAMPLES, _SAMPLES), "source_id")
    sizes = _by_instant(reader.rows(VERTICES, _VERTICES), "vertex_id")
    rescales = {row["decided_at"]: row for row in sorted(reader.rows(RESCALES, _RESCALES), key=lambda row: row["ts"])}
    return JobSeries(
        tuple(_points(span, rates, sizes)),
        tuple(_parallelism(span, sizes)),
        tuple(_rescale(row) for at, row in sorted(rescales.items()) if at is not None),
        tuple(reader.damaged),
    )


Row = Mapping[str, Any]


class _Reader:
    """Reads rows of one job, file by file, and gives up where there are too many."""

    def __init__(self, files: LocalFiles, job_key: str, selection: Selection, clock: Callable[[], float]) -> None:
        self._files = files
        self._selection = selection
        self._wanted = ds.field("job_key") == job_key
        for at_ms, is_wanted in ((selection.since_ms, operator.ge), (selection.until_ms, operator.lt)):
            if at_ms is not None:
                self._wanted &= is_wanted(ds.field("ts"), instant(at_ms))
        self._clock = clock
        self._until = clock() + MOST_SECONDS
        self._left = MOST_ROWS
        self.damaged: list[str] = []

    def rows(self, table: HistoryTable, columns: Sequence[str]) -> Iterator[Row]:
        """Yield rows with instants in epoch milliseconds."""
        for folder in find(self._files, table, self._selection):
            for entry in folder.entries:
                try:
                    yield from list(self._of_file(entry, table, columns))
                except (OSError, pa.ArrowException) as error:
                    self.damaged.append(f"{entry.path}: {' '.join(str(error).split())}")

    def _of_file(self, entry: FileEntry, table: HistoryTable, columns: Sequence[str]) -> Iterator[Row]:
        # Compacted files are sorted by job: the parts of a file that cannot hold it are not read.
        file = ds.dataset(self._files.path(entry.path), schema=table.schema, format="parquet")
        batches = file.to_batches(
            columns=list(columns), filter=self._wanted, batch_size=_BATCH, batch_readahead=1, use_threads=False
        )
        for batch in batches:
            self._left -= batch.num_rows
            if self._left < 0 or self._clock() > self._until:
                raise TooMuchError("that is more than one question may read: ask for a shorter time")
            yield from map(_plain, batch.to_pylist())


def _plain(row: Row) -> Row:
    return {
        name: round(value.timestamp() * 1000) if hasattr(value, "timestamp") else value for name, value in row.items()
    }


def _by_instant(rows: Iterable[Row], identity: str) -> dict[int, dict[str, Row]]:
    """Put rows together by instant, and within by source or vertex; one that was written twice counts once."""
    found: dict[int, dict[str, Row]] = defaultdict(dict)
    for row in rows:
        if row[identity] is not None:
            found[row["ts"]][row[identity]] = row
    return dict(sorted(found.items()))


@dataclass(frozen=True, slots=True)
class _Instant:
    load: float | None
    share: float | None
    lag: float | None
    lag_seconds: float | None
    slots: int | None


def _points(
    span: Span, rates: Mapping[int, Mapping[str, Row]], sizes: Mapping[int, Mapping[str, Row]]
) -> Iterator[SeriesPoint]:
    steps: dict[int, list[_Instant]] = defaultdict(list)
    for at_ms in sorted(rates.keys() | sizes.keys()):
        steps[span.begin(at_ms)].append(_instant(rates.get(at_ms, {}), sizes.get(at_ms, {})))
    for begin, instants in steps.items():
        capacities = (each.load * each.share for each in instants if each.load is not None and each.share is not None)
        yield SeriesPoint(
            begin,
            load=_mean(each.load for each in instants),
            capacity=_mean(capacities),
            lag=max((each.lag for each in instants if each.lag is not None), default=None),
            lag_seconds=max((each.lag_seconds for each in instants if each.lag_seconds is not None), default=None),
            slots=next((each.slots for each in reversed(instants) if each.slots is not None), None),
        )


def _instant(rates: Mapping[str, Row], sizes: Mapping[str, Row]) -> _Instant:
    arrivals, lags = ([row[name] for row in rates.values()] for name in ("arrival_rate", "lag"))
    ages = [_age(row["lag"], row["arrival_rate"]) for row in rates.values()]
    shares = [
        row["true_rate"] / row["target_rate"]
        for row in sizes.values()
        if row["true_rate"] is not None and (row["target_rate"] or 0.0) > _NO_RATE
    ]
    return _Instant(_sum(arrivals), min(shares, default=None), _sum(lags), _greatest(ages), _slots(sizes.values()))


def _age(lag: float | None, rate: float | None) -> float | None:
    if lag == 0:
        return 0.0
    return None if lag is None or rate is None or rate <= _NO_RATE else lag / rate


def _sum(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known and len(known) == len(values) else None


def _greatest(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return max(known) if known and len(known) == len(values) else None


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return fmean(known) if known else None


def _slots(rows: Iterable[Row]) -> int | None:
    """Return of every slot sharing group the widest vertex, summed."""
    widest: dict[str, int] = {}
    for row in rows:
        if row["parallelism"] is not None:
            group = row["slot_sharing_group"] or "default"
            widest[group] = max(widest.get(group, 0), row["parallelism"])
    return sum(widest.values()) if widest else None


def _parallelism(span: Span, sizes: Mapping[int, Mapping[str, Row]]) -> Iterator[VertexSeries]:
    names: dict[str, str] = {}
    found: dict[str, dict[int, int]] = defaultdict(dict)
    for at_ms, rows in sizes.items():
        for vertex_id, row in rows.items():
            names[vertex_id] = row["vertex_name"] or vertex_id
            if row["parallelism"] is not None:
                found[vertex_id][span.begin(at_ms)] = row["parallelism"]
    for vertex_id, steps in found.items():
        yield VertexSeries(vertex_id, names[vertex_id], tuple(_changes(list(steps.items()))))


def _changes(sizes: Sequence[tuple[int, int]]) -> Iterator[tuple[int, int]]:
    """Yield the sizes that differ from the one before, the first, and the last: so kept, a month takes little."""
    return (
        (at_ms, size)
        for number, (at_ms, size) in enumerate(sizes)
        if number in (0, len(sizes) - 1) or size != sizes[number - 1][1]
    )


def _rescale(row: Row) -> RecordedRescale:
    return RecordedRescale(
        row["decided_at"],
        row["origin"] or "",
        row["stage"] or "",
        None if row["outage"] is None else round(1000 * row["outage"]),
        bool(row["reverted"]),
        _vector(row["before"]),
        _vector(row["target"]),
    )


def _vector(entries: Sequence[Row] | None) -> dict[str, int]:
    known = [each for each in entries or () if each["vertex_id"] is not None and each["parallelism"] is not None]
    return {each["vertex_id"]: each["parallelism"] for each in known}
