"""How well a simulated job was scaled: how late its records were, and what that took."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from typing import Final

from flink_autoscaler.pipeline.simulator.rescales import SimulatedRescale
from flink_autoscaler.pipeline.simulator.workloads import HOUR

PERCENTILES: Final = (50, 95, 99)

_INSTANT: Final = 1e-3
_ROUNDING: Final = 1e-12
_LATE_WEIGHT: Final = 5.0
_RESCALES_PER_HOUR: Final = 60.0


@dataclass
class Trace:
    """What was seen at the end of every step.

    Attributes:
        lags: Age in seconds of the oldest record that waited.
        slots: Slots that the job held.
        seconds: Length of every step.
    """

    lags: list[float] = field(default_factory=list)
    slots: list[int] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)

    def add(self, seconds: float, lag: float, slots: int) -> None:
        """Add a step."""
        self.seconds.append(seconds)
        self.lags.append(lag)
        self.slots.append(slots)

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
        return math.fsum(map(_product, self.slots, self.seconds))

    def late_seconds(self, limit: float) -> float:
        """Return for how long the lag was above a limit."""
        return math.fsum(seconds for seconds, lag in zip(self.seconds, self.lags, strict=True) if lag > limit)

    def lag_percentiles(self, wanted: Sequence[int]) -> dict[int, float]:
        """Return the least lag that was not exceeded in so many percent of the time, by percent."""
        ordered = sorted(zip(self.lags, self.seconds, strict=True))
        passed = list(accumulate(seconds for _, seconds in ordered))
        found = (bisect_left(passed, percent / 100 * passed[-1] * (1 - _ROUNDING)) for percent in wanted)
        return {percent: ordered[number][0] for percent, number in zip(wanted, found, strict=True)}


def _product(slots: int, seconds: float) -> float:
    return slots * seconds


@dataclass(frozen=True, slots=True)
class Measures:
    """The figures of one run.

    Attributes:
        duration: Seconds that were simulated.
        lag_percentiles: Lag in seconds by percentile.
        lag_max: Greatest lag.
        late: Seconds with more lag than allowed.
        slot_hours: Slots held, times hours.
        ups: Rescales that let any vertex grow.
        downs: All others.
        reversals: Rescales that took the one before back within an hour.
        replayed: Records that were processed again.
        efficiency: Least slot time that the work can be done in, over the slot time held.
    """

    duration: float
    lag_percentiles: Mapping[int, float]
    lag_max: float
    late: float
    slot_hours: float
    ups: int
    downs: int
    reversals: int
    replayed: float
    efficiency: float

    @property
    def rescales(self) -> int:
        """Rescales of both directions."""
        return self.ups + self.downs

    @property
    def late_share(self) -> float:
        """Share of the time with more lag than allowed."""
        return self.late / self.duration

    @property
    def score(self) -> float:
        """One number to rank runs of one workload by, the lower the better, in slot-hours.

        An hour too late costs five hours of the whole job, a rescale costs a minute of it.
        """
        mean_slots = self.slot_hours / (self.duration / HOUR)
        penalty = _LATE_WEIGHT * self.late / HOUR + self.rescales / _RESCALES_PER_HOUR
        return self.slot_hours + mean_slots * penalty


def measure(
    trace: Trace, rescales: Sequence[SimulatedRescale], *, slo_lag: float, least_slot_seconds: float
) -> Measures:
    """Work out the figures of a run.

    Args:
        trace: At least one step.
        rescales: That happened meanwhile, oldest first.
        slo_lag: Seconds of lag that are allowed.
        least_slot_seconds: The area bound of the workload.
    """
    ups = sum(rescale.is_up for rescale in rescales)
    return Measures(
        duration=trace.duration,
        lag_percentiles=trace.lag_percentiles(PERCENTILES),
        lag_max=max(trace.lags),
        late=trace.late_seconds(slo_lag),
        slot_hours=trace.slot_seconds / HOUR,
        ups=ups,
        downs=len(rescales) - ups,
        reversals=reversals(rescales),
        replayed=math.fsum(rescale.replayed for rescale in rescales),
        efficiency=least_slot_seconds / trace.slot_seconds,
    )


def reversals(rescales: Sequence[SimulatedRescale], within: float = HOUR) -> int:
    """Count the rescales that go the other way than the one before, so many seconds after it or sooner."""
    return sum(
        earlier.is_up != later.is_up and later.requested - earlier.requested <= within
        for earlier, later in pairwise(rescales)
    )
