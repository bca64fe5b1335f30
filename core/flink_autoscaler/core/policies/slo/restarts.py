"""How old the checkpoint is that a restart goes back to, from what counters show of it.

What was processed since that checkpoint is read again, so that more seems to arrive in the minutes of a restart than
before and after it. Half the interval between checkpoints is right for a job that is stopped at any moment; a cluster
that waits for the next checkpoint before it rescales goes back by hardly anything.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from typing import Any, Final

LEAST_DEVIATION: Final = 1.0
"""Seconds to which one restart tells it at best."""
_FADING: Final = 0.95
"""What a restart leaves of the weight of those before it."""
_NEIGHBOURS: Final = 0.5
"""Variance of the mean of two minutes, in variances of one."""
_ASSUMED_DEVIATION: Final = 1.0
"""Of what is assumed, as a share of it."""
_LEAST_ASSUMED: Final = 2.0
_LEAST: Final = 1.0
"""Seconds of an interval that tells something."""
_MOST: Final = 600.0
_GREATEST_WEIGHT: Final = 1e3


@dataclass(frozen=True, slots=True)
class Interval:
    """The minutes of a restart.

    Attributes:
        seconds: Their length.
        demand: That seemed to come in them.
        before: Demand of the minute before them.
    """

    seconds: float
    demand: float
    before: float


@dataclass(frozen=True, slots=True)
class Restarts:
    """What restarts have shown.

    Attributes:
        last: The one after which no minute has passed yet; None where there is none.
        total: Sum of the ages, each times its weight.
        weight: Sum of the weights; one by the variance of each.
    """

    last: Interval | None = None
    total: float = 0.0
    weight: float = 0.0

    @classmethod
    def read(cls, stored: Any) -> Restarts:
        """Read what :meth:`as_json` wrote; as before the first restart where it cannot be read."""
        try:
            total, weight, *last = (float(each) for each in stored)
            found = cls(Interval(*last) if last else None, total, weight)
        except (TypeError, ValueError, OverflowError):
            return cls()
        is_sound = (
            all(map(isfinite, (total, *last))) and 0.0 <= weight <= _GREATEST_WEIGHT and min(last, default=1.0) > 0.0
        )
        return found if is_sound else cls()

    def as_json(self) -> list[float] | None:
        """Return it as JSON values."""
        if not self.weight and self.last is None:
            return None
        last = () if self.last is None else (self.last.seconds, self.last.demand, self.last.before)
        return [float(f"{each:.5g}") for each in (self.total, self.weight, *last)]

    def begun(self, seconds: float, demand: float, before: float | None) -> Restarts:
        """Return it after minutes with a restart.

        Args:
            seconds: Their length.
            demand: That seemed to come in them, above 0.
            before: That of the minute before them; None where it is not known.
        """
        last = None if before is None or seconds < _LEAST else Interval(seconds, demand, before)
        return Restarts(last, self.total, self.weight)

    def after(self, demand: float, noise: float) -> Restarts:
        """Return it after a minute without a restart.

        Args:
            demand: Of the minute, above 0.
            noise: Standard deviation of demand within minutes, relative to it.
        """
        if self.last is None:
            return self
        last, usual = self.last, (self.last.before + demand) / 2.0
        age = min(last.seconds * (last.demand / usual - 1.0), _MOST)
        change = (demand - last.before) / usual / 2.0
        share = (60.0 / last.seconds + _NEIGHBOURS) * noise * noise + change * change
        variance = last.seconds**2 * share + LEAST_DEVIATION**2
        return Restarts(None, _FADING * self.total + age / variance, _FADING * self.weight + 1.0 / variance)

    def age(self, assumed: float) -> float:
        """Return the age of the checkpoint that the next restart goes back to, seconds.

        Args:
            assumed: What it is without restarts, seconds.
        """
        trust = 1.0 / max(_ASSUMED_DEVIATION * assumed, _LEAST_ASSUMED) ** 2
        return min(max((trust * assumed + self.total) / (trust + self.weight), 0.0), max(2.0 * assumed, _MOST))


NO_RESTARTS: Final = Restarts()
