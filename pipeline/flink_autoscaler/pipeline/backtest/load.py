"""A load from anybody's monitoring, as CSV or as Prometheus answers a range query, and the job that it is tried on."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from flink_autoscaler.core.errors import ConfigError
from flink_autoscaler.pipeline.backtest.arrivals import LONGEST_SPAN, Sample, UnfitError, arrivals_of, past_of
from flink_autoscaler.pipeline.backtest.subject import MOST_SUBTASKS, FittedHistory, LeftOut, Subject, chain
from flink_autoscaler.pipeline.simulator.workloads import DAY, HOUR, MINUTE

TIMESTAMP: Final = "timestamp"
VALUE: Final = "value"
LARGEST_JSON: Final = 1 << 29
"""Bytes; a CSV file may be larger, since it is not read into objects."""

_SOURCE: Final = "source"
_MOST_DAYS: Final = 366.0
_MILLISECONDS: Final = 1e11
"""Epoch instants from here on are milliseconds: in seconds they would be after the year 5000."""

_FORMS: Final = "epoch seconds, epoch milliseconds or ISO 8601, such as 2026-03-01T12:00:00Z"


@dataclass(frozen=True, slots=True)
class LoadTerms:
    """Terms on which a load becomes a job; one of the first two is set.

    Attributes:
        peak_slots: Slots that are just enough for the highest minute.
        capacity: Records/s that a subtask of the narrowest vertex takes.
        since_ms: Epoch milliseconds; what arrived before is not simulated, but forecasts know it. None takes all.
        until_ms: Epoch milliseconds; what comes later is left out.
        with_past: Whether profiles are going to be made.
    """

    peak_slots: int | None = None
    capacity: float | None = None
    since_ms: int | None = None
    until_ms: int | None = None
    with_past: bool = False


def load_fleet(file: Path, terms: LoadTerms) -> FittedHistory:
    """Return the one job under a load; left out where too little is known.

    Raises:
        ConfigError: The file cannot be read, or is something else.
    """
    notes: list[str] = []
    table = _seen(_read_json(file, notes) if _is_json(file) else _read_csv(file), terms.until_ms, notes)
    try:
        return FittedHistory((_subject(file.name, _samples(table, notes), terms, notes),))
    except UnfitError as error:
        return FittedHistory((), (LeftOut(file.name, str(error)),))


def _subject(name: str, samples: list[Sample], terms: LoadTerms, notes: list[str]) -> Subject:
    # The newest instant stands for the present: nobody knows the clock that the file was written by.
    now = max((sample.at for sample in samples), default=0.0)
    wanted = [sample for sample in samples if terms.since_ms is None or sample.at * 1000 > terms.since_ms]
    arrivals = arrivals_of(name, {_SOURCE: wanted}, now)
    peak = max(rate for (rate,) in arrivals.workload.rows)
    if peak <= 0:
        raise UnfitError("nothing ever arrives")
    job = chain(arrivals.workload, peak / terms.peak_slots if terms.peak_slots else terms.capacity)
    if peak > MOST_SUBTASKS * job.vertices[1].rate:
        raise UnfitError(f"its peak of {peak:g} records/s takes more than {MOST_SUBTASKS} subtasks")
    past = past_of({job.sources[0]: samples}, now) if terms.with_past else {}
    start_ms = round(arrivals.start * 1000)
    return Subject(name, job, arrivals.workload, start_ms=start_ms, past=past, notes=(*notes, *arrivals.notes))


def _is_json(file: Path) -> bool:
    try:
        with file.open("rb") as stream:
            return stream.read(4096).lstrip(b"\xef\xbb\xbf \t\r\n")[:1] in (b"{", b"[")
    except OSError as error:
        raise ConfigError(f"--load {file}: {error.strerror or 'cannot be read'}") from error


def _read_csv(file: Path) -> pa.Table:
    """Read the two columns; a value that is empty, or says that there is none, is null."""
    options = csv.ConvertOptions(include_columns=[TIMESTAMP, VALUE], column_types={VALUE: pa.float64()})
    try:
        return csv.read_csv(file, convert_options=options)
    except (pa.ArrowKeyError, KeyError) as error:
        with csv.open_csv(file) as reader:
            found = ", ".join(reader.schema.names)
        wanted = f"columns {TIMESTAMP} and {VALUE} (records/s) in the first line"
        raise ConfigError(f"--load {file}: expected {wanted}, found {found[:200]}") from error
    except (pa.ArrowInvalid, OSError) as error:
        raise ConfigError(f"--load {file}: no CSV file with {TIMESTAMP} and {VALUE}: {str(error)[:300]}") from error


def _read_json(file: Path, notes: list[str]) -> pa.Table:
    """Read what Prometheus answers to a range query; several series are added up."""
    if file.stat().st_size > LARGEST_JSON:
        raise ConfigError(f"--load {file}: larger than {LARGEST_JSON >> 20} MiB; a CSV file may be")
    try:
        answer: Any = json.loads(file.read_text("utf-8-sig"))
        series = answer["data"]["result"]
        rows = [(float(at), float(value)) for each in series for at, value in each["values"]]
    except (ValueError, TypeError, LookupError, RecursionError) as error:
        wanted = "the JSON of a range query of Prometheus: data.result, each with values of [timestamp, value]"
        raise ConfigError(f"--load {file}: expected {wanted}") from error
    table = pa.table({TIMESTAMP: [at for at, _ in rows], VALUE: [value for _, value in rows]})
    if len(series) > 1:
        notes.append(f"{len(series)} series are added up.")
        table = table.group_by(TIMESTAMP).aggregate([(VALUE, "sum")]).rename_columns([TIMESTAMP, VALUE])
    return table


def _seen(table: pa.Table, until_ms: int | None, notes: list[str]) -> pa.Table:
    """Return instants as epoch seconds, ascending, with what can be a rate; of the last year at most."""
    table = pa.table({TIMESTAMP: _seconds(table[TIMESTAMP]), VALUE: table[VALUE].cast(pa.float64())})
    is_rate = pc.and_(pc.is_finite(table[VALUE]), pc.greater_equal(table[VALUE], 0.0))
    kept = table.filter(pc.and_(is_rate, pc.is_finite(table[TIMESTAMP])))
    if len(kept) < len(table):
        notes.append(f"{len(table) - len(kept)} of {len(table)} rows have no instant, or no rate of 0 or more.")
    last = pc.max(kept[TIMESTAMP]).as_py() if len(kept) else 0.0
    last = last if until_ms is None else min(last, until_ms / 1000)
    begin = last - _MOST_DAYS * DAY
    if len(kept) and pc.min(kept[TIMESTAMP]).as_py() < begin:
        notes.append(f"What is more than {_MOST_DAYS:g} days before the end was left out.")
    within = pc.and_(pc.greater_equal(kept[TIMESTAMP], begin), pc.less_equal(kept[TIMESTAMP], last))
    return kept.filter(within).sort_by(TIMESTAMP)


def _seconds(instants: pa.ChunkedArray) -> pa.ChunkedArray:
    kind = instants.type
    if pa.types.is_timestamp(kind):
        return pc.divide(instants.cast(pa.timestamp("us")).cast(pa.int64()).cast(pa.float64()), 1e6)
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_null(kind)):
        raise ConfigError(f"--load: {TIMESTAMP}: expected {_FORMS}")
    numbers = instants.cast(pa.float64())
    return pc.if_else(pc.greater_equal(numbers, _MILLISECONDS), pc.divide(numbers, 1e3), numbers)


def _samples(table: pa.Table, notes: list[str]) -> list[Sample]:
    """Return one sample per minute, each for the time since the one before as the file usually has it."""
    instants = table[TIMESTAMP]
    once = pc.count_distinct(instants).as_py()
    if once < len(table):
        notes.append(f"{len(table) - once} rows have the instant of another one: their mean counts.")
    steps = pc.pairwise_diff(pc.unique(instants)) if once > 1 else None
    usual = MINUTE if steps is None else max(MINUTE, pc.quantile(steps, 0.5)[0].as_py())
    if usual > LONGEST_SPAN:
        raise UnfitError(f"its rates are {usual / HOUR:g} h apart, and a backtest needs one every hour or more often")
    minutes = pc.ceil(pc.divide(instants, MINUTE))
    means = pa.table({TIMESTAMP: minutes, VALUE: table[VALUE]}).group_by(TIMESTAMP).aggregate([(VALUE, "mean")])
    return [
        Sample(minute * MINUTE, usual, rate)
        for minute, rate in zip(means[TIMESTAMP].to_pylist(), means[f"{VALUE}_mean"].to_pylist(), strict=True)
    ]
