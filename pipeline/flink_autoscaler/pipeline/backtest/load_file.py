"""A load of one's own: what arrived by time, as CSV or as Prometheus answers a query over a range."""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any, Final, TextIO

from flink_autoscaler.core.errors import ConfigError
from flink_autoscaler.pipeline.backtest.arrivals import LONGEST_SPAN, STEP, Sample, UnfitError, arrivals_of, past_of
from flink_autoscaler.pipeline.backtest.subject import Subject, chain
from flink_autoscaler.pipeline.simulator.run import MONDAY_MS
from flink_autoscaler.pipeline.simulator.workloads import HOUR

TIMESTAMP, VALUE = "timestamp", "value"

_MILLISECONDS: Final = 1e11
"""Instants above are milliseconds."""
_RELATIVE: Final = 1e8
"""Instants below are seconds since the beginning of the load: in 1973 nobody exported any."""
_SNIFFED: Final = 4096


def load_subject(
    path: Path, *, peak_slots: float | None = None, capacity: float | None = None, with_past: bool = False
) -> Subject:
    """Make the job that workloads are compared on, under the load of a file.

    Args:
        path: Of CSV with the columns ``timestamp`` (epoch seconds or milliseconds, seconds since any beginning, or ISO
            8601) and ``value`` (records/s), or of the JSON of a Prometheus query over a range, whose series are added.
        peak_slots: Slots that the greatest minute keeps busy.
        capacity: Records/s that a subtask can do, instead of these.
        with_past: Whether profiles are going to be made of it.

    Raises:
        ConfigError: The file cannot be read, has no load in it, or it is not clear what a slot can do.
    """
    if (peak_slots is None) == (capacity is None):
        raise ConfigError("--load: give --peak-slots or --capacity-per-subtask, one of them, to say what a slot can do")
    notes: list[str] = []
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            head = file.read(_SNIFFED)
            file.seek(0)
            is_json = head.lstrip()[:1] in {"{", "["}
            rates = _by_minute(_prometheus(json.load(file)) if is_json else _csv(file, head), notes)
        samples = {"load": list(_samples(rates))}
        arrivals = arrivals_of(path.stem, samples, math.inf)
    except UnfitError as error:
        raise ConfigError(f"--load {path}: {error}") from error
    except (OSError, ValueError, csv.Error) as error:
        raise ConfigError(f"--load {path} cannot be read: {error}") from error
    peak = max(rate for (rate,) in arrivals.workload.rows)
    if peak <= 0.0:
        raise ConfigError(f"--load {path}: nothing arrives in it")
    job = chain(arrivals.workload, capacity or peak / (peak_slots or 1.0))
    past = dict(zip(job.sources, past_of(samples, math.inf).values(), strict=True)) if with_past else {}
    start_ms, all_notes = round(arrivals.start * 1000), (*notes, *arrivals.notes)
    return Subject(path.name, job, arrivals.workload, start_ms=start_ms, past=past, notes=all_notes)


def _csv(file: TextIO, head: str) -> Iterator[tuple[str, str]]:
    """Yield instants and values of the rows below a header; a row without one of them gives an empty text."""
    first = head.partition("\n")[0]
    delimiter = max(",;\t", key=first.count)
    reader = csv.reader(file, delimiter=delimiter)
    names = [name.strip().lower() for name in next(reader, [])]
    if missing := [name for name in (TIMESTAMP, VALUE) if name not in names]:
        raise ValueError(f"there is no column {' and no column '.join(missing)}; it has {', '.join(names) or 'none'}")
    at, value = names.index(TIMESTAMP), names.index(VALUE)
    for row in reader:
        if row:
            yield (row[at], row[value]) if len(row) > max(at, value) else ("", "")


def _prometheus(document: Any) -> Iterator[tuple[Any, Any]]:
    """Yield instants and values of all series added."""
    try:
        result = document["data"]["result"] if isinstance(document, Mapping) else document
        series = [each["values"] for each in result]
    except (TypeError, LookupError):
        raise ValueError("it is no answer of Prometheus to a query over a range (data.result[].values)") from None
    if len(series) == 1:
        yield from ((at, value) for at, value in series[0])
        return
    sums = dict[float, float]()
    for at, value in (pair for values in series for pair in values):
        rate = _number(value)
        if rate is not None:
            sums[float(at)] = sums.get(float(at), 0.0) + rate
    yield from sums.items()


def _by_minute(rows: Iterable[tuple[Any, Any]], notes: list[str]) -> dict[int, float]:
    """Return the mean rate of every minute that is known, by minutes since the epoch."""
    sums, unknown, count = dict[int, tuple[float, int]](), 0, 0
    for count, (at, value) in enumerate(rows, start=1):  # noqa: B007 - how many there were
        instant, rate = _instant(at), _number(value)
        if instant is None or rate is None:
            unknown += 1
            continue
        minute = math.ceil(instant / STEP)
        total, seen = sums.get(minute, (0.0, 0))
        sums[minute] = (total + rate, seen + 1)
    if unknown:
        notes.append(f"{unknown} of {count} rows have no instant or no rate of 0 or more, and were left out.")
    if not sums:
        raise UnfitError("it has no row with an instant and a rate")
    shift = round(MONDAY_MS / 1000 / STEP) if max(sums) * STEP < _RELATIVE else 0
    return {minute + shift: total / seen for minute, (total, seen) in sorted(sums.items())}


def _samples(rates: Mapping[int, float]) -> Iterator[Sample]:
    """Yield what arrived up to the end of each minute; one of every five minutes stands for these five.

    Raises:
        UnfitError: They are too far apart.
    """
    minutes = list(rates)
    gaps = [after - before for before, after in pairwise(minutes)]
    span = STEP * median(gaps or [1])
    if span > LONGEST_SPAN:
        raise UnfitError(f"a row every {span / HOUR:.3g} h says nothing of minutes: one an hour is needed at least")
    yield from (Sample(minute * STEP, span, rate) for minute, rate in rates.items())


def _number(value: Any) -> float | None:
    try:
        rate = float(value)
    except (TypeError, ValueError):
        return None
    return rate if 0.0 <= rate < math.inf else None


def _instant(value: Any) -> float | None:
    """Return an instant in seconds; None for anything else."""
    instant = _number(value)
    if instant is not None:
        return instant / 1000.0 if instant > _MILLISECONDS else instant
    try:
        moment = datetime.fromisoformat(str(value).strip())
    except ValueError:
        return None
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
