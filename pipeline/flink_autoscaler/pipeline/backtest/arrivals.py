"""Arrivals at the sources of a job: from samples of the metric history to minutes, and to quarter hours."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from typing import Final, TypeGuard

from flink_autoscaler.core.model.load_profile import BUCKET, LEAST_MINUTES, MINUTE, MINUTES, slot_of, zone_named
from flink_autoscaler.core.model.metrics import VertexId
from flink_autoscaler.core.model.value import value
from flink_autoscaler.pipeline.profiles import ProfileSettings
from flink_autoscaler.pipeline.profiles.fit import Series
from flink_autoscaler.pipeline.simulator.workloads import HOUR, Row, Workload

STEP: Final = MINUTE
LEAST_RECORDED: Final = 60
"""Recorded minutes without which nothing can be said about a job."""

LEAST_SHARE: Final = 0.5
"""Share of the time that has to be recorded."""

LONGEST_GAP: Final = 6 * HOUR
"""Without a sample for longer, what comes before and after is not one course of events."""

_WRONG: Final = "later than now or before 1970"

LONGEST_SPAN: Final = HOUR
SKEW: Final = 300.0
"""Seconds by which the clocks of daemon and reader may differ."""


class UnfitError(ValueError):
    """A job cannot be simulated; the message says why."""


@value
class Sample:
    """Sample of one source.

    Attributes:
        at: Epoch seconds.
        span: Seconds before that the rates cover; None where that is not known.
        arrival: Records/s that arrived; None where that is not known.
        consumption: Records/s that were read.
    """

    at: float
    span: float | None
    arrival: float | None
    consumption: float | None = None


@dataclass(frozen=True, slots=True)
class JobArrivals:
    """The arrivals of a job.

    Attributes:
        start: Epoch seconds of the first row.
        notes: What had to be assumed, in full sentences.
    """

    workload: Workload
    start: float
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Quarters:
    """The quarter hours of one source in which enough minutes were recorded.

    Attributes:
        index: Epoch seconds / 900, ascending.
        rate: Mean rates, records/s.
        late: Of ``index`` those of which a part was measured after their end, since rates cover more than a minute.
    """

    index: tuple[int, ...] = ()
    rate: tuple[float, ...] = ()
    late: tuple[int, ...] = ()

    @classmethod
    def of(cls, samples: Iterable[Sample]) -> Quarters:
        """Average known arrivals as the nightly job does; they may be in any order."""
        minutes: dict[int, set[int]] = defaultdict(set)
        sums: dict[int, tuple[float, int]] = {}
        late: set[int] = set()
        for each in samples:
            if not _is_rate(each.arrival):
                continue
            last = int(each.at // MINUTE)
            first = last - max(1, round(min(each.span or 0.0, BUCKET) / MINUTE)) + 1
            for index in {first // MINUTES, last // MINUTES}:
                covered = range(max(first, index * MINUTES), min(last, index * MINUTES + MINUTES - 1) + 1)
                total, count = sums.get(index, (0.0, 0))
                sums[index] = (total + each.arrival * len(covered), count + len(covered))
                minutes[index].update(covered)
            late.update({first // MINUTES} - {last // MINUTES})
        kept = sorted(index for index, each in minutes.items() if len(each) >= LEAST_MINUTES)
        means = (sums[index][0] / sums[index][1] for index in kept)
        return cls(tuple(kept), tuple(means), tuple(sorted(late.intersection(kept))))

    def before(self, end: int) -> Quarters:
        """Return what is known at the end of a quarter hour, given as the index of the next one."""
        known = [
            (index, rate)
            for index, rate in zip(self.index, self.rate, strict=True)
            if index < end - (end - 1 in self.late)
        ]
        return Quarters(tuple(index for index, _ in known), tuple(rate for _, rate in known))

    def series(self, settings: ProfileSettings) -> Series:
        """Return what is learned from: all but the days that the settings leave out.

        Raises:
            ConfigError: This machine does not know the time zone.
        """
        zone, left_out = zone_named(settings.timezone), frozenset(settings.excluded)
        learned = [
            (index, slot_of(index * BUCKET, zone), rate)
            for index, rate in zip(self.index, self.rate, strict=True)
            if not left_out or datetime.fromtimestamp(index * BUCKET, zone).date() not in left_out
        ]
        index, slot, rate = zip(*learned, strict=True) if learned else ((), (), ())
        return Series(index, slot, rate)


def arrivals_of(name: str, samples: Mapping[VertexId, Sequence[Sample]], now: float) -> JobArrivals:
    """Put the samples of all sources on one grid of minutes; a gap has the rate before it.

    Args:
        name: Of the workload.
        samples: By source, in the order in which the job has its sources; in any order within.
        now: Epoch seconds; what is later was written by a clock that is wrong.

    Raises:
        UnfitError: Too little is known.
    """
    if not any(samples.values()):
        raise UnfitError("there are no samples of what arrived at its sources")
    notes: list[str] = []
    known = {source: _known(source, each, notes) for source, each in samples.items()}
    known = _in_time(known, now, notes)
    first, last = _longest_stretch([sample.at for each in known.values() for sample in each], notes)
    minutes = [_by_minute([s for s in each if first <= s.at <= last]) for each in known.values()]
    rows, begin = _grid(minutes, notes)
    return JobArrivals(Workload(name, STEP, rows), begin * STEP, tuple(notes))


def past_of(samples: Mapping[VertexId, Sequence[Sample]], now: float) -> dict[VertexId, Quarters]:
    """Return what the nightly job would learn from, by source; what is later than now, or not known, does not count."""
    return {source: Quarters.of(s for s in each if 0 < s.at <= now + SKEW) for source, each in samples.items()}


def _known(source: VertexId, samples: Sequence[Sample], notes: list[str]) -> list[Sample]:
    """Return the samples with a rate; what was read stands for what arrived where the lag was never known."""
    found = [sample for sample in samples if _is_rate(sample.arrival)]
    if found:
        return found
    found = [Sample(sample.at, sample.span, sample.consumption) for sample in samples if _is_rate(sample.consumption)]
    if not found:
        raise UnfitError(f"no rate of source {source} was ever recorded")
    notes.append(f"Source {source} reports no lag: what it read counts as what arrived.")
    return found


def _is_rate(value: float | None) -> TypeGuard[float]:
    return value is not None and math.isfinite(value) and value >= 0


def _in_time(samples: Mapping[VertexId, list[Sample]], now: float, notes: list[str]) -> dict[VertexId, list[Sample]]:
    kept = {source: [s for s in each if 0 < s.at <= now + SKEW] for source, each in samples.items()}
    late = sum(map(len, samples.values())) - sum(map(len, kept.values()))
    if not all(kept.values()):
        raise UnfitError(f"{late} samples are {_WRONG}: the clock of the daemon or of this machine is wrong")
    if late:
        notes.append(f"{late} samples {_WRONG} were left out: a clock is wrong.")
    return kept


def _longest_stretch(instants: Sequence[float], notes: list[str]) -> tuple[float, float]:
    """Return the first and last instant of the longest time without a long gap."""
    ordered = sorted(set(instants))
    cuts = [later for earlier, later in pairwise(ordered) if later - earlier > LONGEST_GAP]
    stretches = [[at for at in ordered if begin <= at < end] for begin, end in pairwise([-math.inf, *cuts, math.inf])]
    longest = max(stretches, key=lambda stretch: (stretch[-1] - stretch[0], stretch[0]))
    if cuts:
        hours = LONGEST_GAP / HOUR
        notes.append(f"There are {len(cuts)} gaps of more than {hours:g} h: only the longest stretch counts.")
    return longest[0], longest[-1]


def _by_minute(samples: Iterable[Sample]) -> dict[int, float]:
    """Average rates by minute since the epoch; a sample counts for all minutes that it covers."""
    sums: dict[int, tuple[float, int]] = {}
    for sample in samples:
        last = math.ceil(sample.at / STEP) - 1
        span = min(sample.span or STEP, LONGEST_SPAN)
        for minute in range(last - max(1, round(span / STEP)) + 1, last + 1):
            total, count = sums.get(minute, (0.0, 0))
            sums[minute] = (total + (sample.arrival or 0.0), count + 1)
    return {minute: total / count for minute, (total, count) in sums.items()}


def _grid(minutes: Sequence[Mapping[int, float]], notes: list[str]) -> tuple[tuple[Row, ...], int]:
    if not all(minutes):
        raise UnfitError("not all of its sources were recorded at the same time")
    begin, end = max(map(min, minutes)), min(map(max, minutes)) + 1
    recorded = sum(all(minute in each for each in minutes) for minute in range(begin, end))
    if recorded < LEAST_RECORDED:
        missing = LEAST_RECORDED - recorded
        raise UnfitError(f"{recorded} minutes are recorded, and a backtest needs {LEAST_RECORDED}: {missing} more")
    share = recorded / (end - begin)
    if share < LEAST_SHARE:
        raise UnfitError(f"only {share:.0%} of the time is recorded, and a backtest needs {LEAST_SHARE:.0%}")
    if recorded < end - begin:
        notes.append(f"{end - begin - recorded} of {end - begin} minutes are not recorded: the rate before holds on.")
    columns = [_held(each, begin, end) for each in minutes]
    return tuple(zip(*columns, strict=True)), begin


def _held(rates: Mapping[int, float], begin: int, end: int) -> list[float]:
    """Return a rate for every minute; one that is not known is that of the minute before."""
    held: list[float] = []
    present = rates[min(minute for minute in rates if minute >= begin)]
    for minute in range(begin, end):
        present = rates.get(minute, present)
        held.append(present)
    return held
