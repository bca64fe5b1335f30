"""Whether a scale-down pays: slots saved against the outages that it and the next scale-up cost."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import Final

from flink_autoscaler.core.model.supervision import RescaleRecord, Stage

LATE_WEIGHT: Final = 5.0
"""What a second above the lag limit costs, in slot-seconds per slot."""

LONGEST_HOLD: Final = 86_400.0
"""Seconds for which the smaller size is assumed to last at most."""

FIRST_HOLD: Final = 3_600.0
"""Seconds for which it is assumed to last, at least, while nothing is known about the job."""

GAP_AGE_MS: Final = 14 * 86_400_000


def late_seconds(arrival: float, capacity: float, outage: float, limit: float) -> float:
    """Return how long the lag is above a limit after an outage.

    Args:
        arrival: Records/s that arrive.
        capacity: Records/s that can be processed afterwards.
        outage: Seconds without processing, replay included.
        limit: Lag in seconds that is fine.

    Returns:
        Seconds; infinite where the backlog never shrinks.
    """
    if outage <= limit or arrival <= 0:
        return 0.0
    if capacity <= arrival:
        return math.inf
    return (outage - limit) * capacity / (capacity - arrival)


def capacity_within(arrival: float, outage: float, limit: float, budget: float) -> float:
    """Return the capacity with which the lag is above a limit for no longer than a budget of seconds.

    Returns:
        Records/s; infinite where no capacity is enough.
    """
    over = outage - limit
    if over <= 0:
        return arrival
    return math.inf if budget <= over else arrival * budget / (budget - over)


@dataclass(frozen=True, slots=True)
class ScaleDownCase:
    """What a scale-down would bring and cost.

    Attributes:
        slots_now: Slots before.
        slots_new: Slots after.
        outage_down: Seconds without processing for the scale-down.
        outage_up: The same for the scale-up that will follow.
        hold: Seconds for which the smaller size lasts.
        late: Seconds above the lag limit after both outages.
    """

    slots_now: int
    slots_new: int
    outage_down: float
    outage_up: float
    hold: float
    late: float

    @property
    def saved(self) -> float:
        """Slot-seconds saved."""
        return (self.slots_now - self.slots_new) * min(self.hold, LONGEST_HOLD)

    @property
    def cost(self) -> float:
        """Slot-seconds that the outages cost."""
        outages = self.slots_new * self.outage_down + self.slots_now * self.outage_up
        return outages + LATE_WEIGHT * self.slots_now * self.late

    def pays(self, factor: float) -> bool:
        """Tell whether so many times the cost is saved."""
        return self.saved >= factor * self.cost


def usual_hold(past: Sequence[RescaleRecord], now_ms: int) -> float | None:
    """Return the seconds that usually pass between a scale-down and the next scale-up; None without an example."""
    reached = [r for r in past if r.stage is Stage.REACHED and r.decided_ms >= now_ms - GAP_AGE_MS]
    gaps = [
        (later.decided_ms - earlier.decided_ms) / 1000
        for earlier, later in pairwise(reached)
        if not earlier.is_up and later.is_up
    ]
    return median(gaps) if gaps else None
