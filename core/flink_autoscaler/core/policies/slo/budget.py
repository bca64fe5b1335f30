"""What keeps the promise where the model of the load does not: lateness as it was measured, and the last day replayed.

Both are safeguards against loads whose noise is not what the policy takes it for. The price of lateness grows with the
share of time that the job was late, and a job that goes up and down is not made smaller than its last day allows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import exp, isfinite
from typing import Any, Final

from flink_autoscaler.core.model.policy_values import PastRescale
from flink_autoscaler.core.policies.slo.model import BUCKET, Levels

DAY: Final = 86400.0
MEMORY: Final = 7 * DAY
"""Seconds after which what was measured counts a third."""
MOST_REVERSALS: Final = 3
"""Within a day; after more of them the last day is replayed before the job is made smaller."""

_LONGEST: Final = 900.0
"""Seconds for which one sample can speak; what was before a longer gap is not known."""
_PRIOR: Final = MEMORY / 2
"""Seconds that a new job counts as having kept its budget exactly."""
_DOUBLES: Final = 0.6931471805599453
"""Logarithm by which the price grows with every budget that was used besides the first: it doubles."""
_MOST: Final = 4.0


@dataclass(frozen=True, slots=True)
class Budget:
    """How late a job has been lately.

    Attributes:
        at: Of the last sample, epoch seconds; None before the first.
        late: Seconds above the acceptable lag.
        known: Seconds of which the lag is known.
    """

    at: float | None = None
    late: float = 0.0
    known: float = 0.0

    @classmethod
    def read(cls, stored: Any) -> Budget:
        """Read what :meth:`as_json` wrote; as before the first sample where it cannot be read."""
        try:
            at, late, known = (float(each) for each in stored)
        except (TypeError, ValueError, OverflowError):
            return cls()
        return cls(at, late, known) if isfinite(at) and 0.0 <= late <= known <= MEMORY else cls()

    def as_json(self) -> list[float] | None:
        """Return it as JSON values."""
        return None if self.at is None else [self.at, round(self.late, 1), round(self.known, 1)]

    def after(self, at: float, lag: float | None, limit: float) -> Budget:
        """Return the budget after a sample.

        Args:
            at: Of the sample, epoch seconds.
            lag: Seconds; None where it is not known.
            limit: Lag above which the job is late.
        """
        elapsed = 0.0 if self.at is None else at - self.at
        if lag is None or not 0.0 < elapsed <= _LONGEST:
            return Budget(at, self.late, self.known)
        kept = exp(-elapsed / MEMORY)
        late, known = self.late * kept + (elapsed if lag > limit else 0.0), self.known * kept + elapsed
        return Budget(at, min(late, known, MEMORY), min(known, MEMORY))

    @property
    def measured(self) -> float:
        """Share of the time of which the lag is known that the job was late; 0 where it is not known of any."""
        return self.late / self.known if self.known > 0.0 else 0.0

    def share(self, allowed: float) -> float:
        """Return the share of time that the job was late; near what is allowed as long as little is known.

        Args:
            allowed: Share of the time.
        """
        return (self.late + allowed * _PRIOR) / (self.known + _PRIOR)

    def factor(self, allowed: float) -> float:
        """Return how many times its price a late second costs: 1 within the budget, twice with each budget above it.

        Args:
            allowed: Share of the time.
        """
        return min(max(exp(_DOUBLES * min(self.share(allowed) / allowed - 1.0, _MOST)), 1.0), _MOST)


NOTHING_USED: Final = Budget()


def reversals(rescales: Sequence[PastRescale], now: float) -> int:
    """Return how often a job has changed its direction within the last day."""
    recent = sorted((each for each in rescales if now - DAY < each.at <= now), key=lambda each: each.at)
    sizes = [sum(each.after.values()) - sum(each.before.values()) for each in recent]
    directions = [size > 0 for size in sizes if size]
    return sum(1 for before, after in pairwise(directions) if before is not after)


def late_share_of(arrivals: Sequence[float], capacity: float, limit: float) -> float:
    """Return the share of time that a capacity would have been late for what arrived, followed as a fluid.

    Args:
        arrivals: Demand by bucket.
        capacity: Demand with which it keeps pace.
        limit: Lag above which a job is late, seconds.
    """
    backlog, late = 0.0, 0
    for demand in arrivals:
        backlog = max(backlog + (demand - capacity) * BUCKET, 0.0)
        late += backlog > limit * demand
    return late / len(arrivals) if arrivals else 0.0


def floor(arrivals: Sequence[float], levels: Levels, limit: float, allowed: float) -> int:
    """Return the least slots with which the last day would have kept the budget; the most of them where none would.

    Args:
        arrivals: Demand by bucket.
        levels: Sizes that forecasts make worth a look, ascending.
        limit: Lag above which a job is late, seconds.
        allowed: Share of the time that it may be.
    """
    for slots, capacity in zip(levels.slots, levels.capacities, strict=True):
        if late_share_of(arrivals, capacity, limit) <= allowed:
            return slots
    return levels.slots[-1]
