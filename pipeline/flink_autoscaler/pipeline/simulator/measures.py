"""Measures of a simulated job's scaling: how late its records were, and what that took."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from operator import itemgetter, mul
from typing import Final

from flink_autoscaler.pipeline.simulator.rescales import SimulatedRescale
from flink_autoscaler.pipeline.simulator.workloads import HOUR

_INSTANT: Final = 1e-3
_ROUNDING: Final = 1e-12
_LATE_WEIGHT: Final = 5.0
_RESCALES_PER_HOUR: Final = 60.0


@dataclass
class Trace:
    """Values at the end of every step.

    Attributes:
        lags: Age in seconds of the oldest record that waited.
        slots: Slots that the job held.
        seconds: Length of every step.
    """

    lags: list[float] = field(default_factory=list)
    slots: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)

    def add(self, seconds: float, lag: float, slots: int, count: int = 1) -> None:
        """Add steps that are all alike."""
        self.seconds += (seconds,) * count
        self.lags += (lag,) * count
        self.slots += (slots,) * count

    def part(self, since: float, until: float) -> Trace:
        """Return the steps that end after one instant and not after another, seconds since the beginning."""
        ends = list(accumulate(self.seconds))
        first, last = (bisect_right(ends, instant + _INSTANT) for instant in (since, until))
        return Trace(self.lags[first:last], self.slots[first:last], self.seconds[first:last])

    @property
    def duration(self) -> float:
        """Seconds in all."""
        return math.fsum(self.seconds)

    @property
    def slot_seconds(self) -> float:
        """Slots held, times how long; outages included."""
        return math.fsum(map(mul, self.slots, self.seconds))

    def late_seconds(self, limit: float) -> float:
        """Return for how long the lag was above a limit."""
        return math.fsum(seconds for seconds, lag in zip(self.seconds, self.lags, strict=True) if lag > limit)

    def lag_percentiles(self, wanted: Sequence[int]) -> dict[int, float]:
        """Return the least lag that was not exceeded in so many percent of the time, by percent."""
        ordered = sorted(zip(self.lags, self.seconds, strict=True))
        passed = list(accumulate(map(itemgetter(1), ordered)))
        found = (bisect_left(passed, percent / 100 * passed[-1] * (1 - _ROUNDING)) for percent in wanted)
        return {percent: ordered[number][0] for percent, number in zip(wanted, found, strict=True)}


@dataclass(frozen=True, slots=True)
class Measures:
    """The figures of one run; lags are seconds.

    Attributes:
        duration: Seconds that were simulated.
        slot_hours: Slots held, times hours.
        ups: Rescales that let any vertex grow.
        downs: All others.
        reversals: Rescales that took the one before back within an hour.
        over_slo: Seconds with more lag than allowed.
        replayed: Records that were processed again.
        efficiency: Least slot time that the work can be done in, over the slot time held.
        score: One number to rank runs of one workload by, the lower the better, in slot-hours. An hour too late costs
            five hours of the whole job, a rescale costs a minute of it.
    """

    duration: float
    slot_hours: float
    ups: int
    downs: int
    reversals: int
    lag_p50: float
    lag_p95: float
    lag_p99: float
    lag_max: float
    over_slo: float
    replayed: float
    efficiency: float
    score: float

    @property
    def rescales(self) -> int:
        """Rescales of both directions."""
        return self.ups + self.downs


def measure(
    trace: Trace, rescales: Sequence[SimulatedRescale], *, slo_lag: float, least_slot_seconds: float
) -> Measures:
    """Work out the figures of a run of at least one step; ``least_slot_seconds`` is the area bound of its workload."""
    ups = sum(rescale.is_up for rescale in rescales)
    late, slot_hours = trace.late_seconds(slo_lag), trace.slot_seconds / HOUR
    p50, p95, p99 = trace.lag_percentiles((50, 95, 99)).values()
    mean_slots = slot_hours / (trace.duration / HOUR)
    return Measures(
        duration=trace.duration,
        slot_hours=slot_hours,
        ups=ups,
        downs=len(rescales) - ups,
        reversals=reversals(rescales),
        lag_p50=p50,
        lag_p95=p95,
        lag_p99=p99,
        lag_max=max(trace.lags),
        over_slo=late,
        replayed=math.fsum(rescale.replayed for rescale in rescales),
        efficiency=least_slot_seconds / trace.slot_seconds,
        score=slot_hours + mean_slots * (_LATE_WEIGHT * late / HOUR + len(rescales) / _RESCALES_PER_HOUR),
    )


def reversals(rescales: Sequence[SimulatedRescale], within: float = HOUR) -> int:
    """Count the rescales that go the other way than the one before, so many seconds after it or sooner."""
    return sum(
        earlier.is_up != later.is_up and later.requested - earlier.requested <= within
        for earlier, later in pairwise(rescales)
    )
