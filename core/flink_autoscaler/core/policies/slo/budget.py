"""What keeps the promise where the model of the load does not: lateness as it was measured makes lateness dearer."""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, isfinite, log
from typing import Any, Final

from flink_autoscaler.core.model.quick import quick
from flink_autoscaler.core.policies.slo.lateness import seconds_above

DAY: Final = 86400.0
MEMORY: Final = 7 * DAY
"""Seconds after which what was measured counts a third."""

_LONGEST: Final = 900.0
"""Seconds for which one sample can speak; what was before a longer gap is not known."""
_PRIOR: Final = MEMORY / 2
"""Seconds of which a new job counts as having used a share of its budget."""
_PRIOR_USED: Final = 0.6
_FREE: Final = 0.62
"""Share of the budget that may be used at the usual price. What steers by its error alone rests where there is some, so
that it has to begin before the budget is used if it is to rest within."""
_DOUBLES: Final = 1 / 6
"""Share of the budget with which the price doubles from there on: four times at a budget that is used up."""
_MOST_SPENT: Final = 0.15
"""Of the error budget, what a size may use up by being too small for the bursts of the last days. Measured on bursts
out of nothing: the rest goes to the rescales that bursts bring, and to the first hours, in which nothing is known."""
_HARDLY_ANY: Final = 0.05
"""Of the error budget: rescales that use less of it are left to what lateness costs."""
NEARLY_USED: Final = 2.5
"""Times its usual price that a late second costs where a sixth of the budget is left."""
_MOST: Final = 4.0


@dataclass(frozen=True, slots=True)
class Restart:
    """A restart between two samples, of which neither has seen how far the job was behind right after it.

    Attributes:
        until: When it ran again, epoch seconds.
        lag: Then, seconds.
        replay: Of it, what is read again.
        gain: Seconds by which the lag falls in a second from then on; 0 or less where it does not.
    """

    until: float
    lag: float
    replay: float = 0.0
    gain: float = 0.0

    def late(self, began: float, at: float, lags: tuple[float, float], limit: float) -> float:
        """Return the seconds above a limit between two samples.

        Args:
            began: The first one, before the restart, epoch seconds.
            at: The second one.
            lags: Of both, seconds.
            limit: Lag above which the job is late.
        """
        down, (before, lag) = self.until - began, lags
        late = down if before > limit else min(max(self.lag - self.replay - limit, 0.0), down)
        drain = seconds_above(self.lag, lag, limit, at - self.until)
        if lag <= limit < self.lag and self.gain > 0.0:  # it may have been over long before the sample
            drain = min(drain, (self.lag - limit) / self.gain)
        return late + drain


@quick
@dataclass(frozen=True, slots=True)
class Budget:
    """How late a job has been lately.

    Attributes:
        at: Of the last sample, epoch seconds; None before the first.
        late: Seconds above the acceptable lag.
        known: Seconds of which the lag is known.
        lag: At the last sample, seconds; None where it was not known.
        is_short: Whether the job is late, and was in time before without a restart since.
    """

    at: float | None = None
    late: float = 0.0
    known: float = 0.0
    lag: float | None = None
    is_short: bool = False

    @classmethod
    def read(cls, stored: Any) -> Budget:
        """Read what :meth:`as_json` wrote; as before the first sample where it cannot be read."""
        try:
            at, late, known, *others = (float(each) for each in stored)
            lag, *short = others or (None,)
            found = cls(at, late, known, lag, is_short=bool(short))
        except (TypeError, ValueError, OverflowError):
            return cls()
        is_sound = all(map(isfinite, (at, *others))) and short in ([], [1.0])
        return found if is_sound and 0.0 <= late <= known <= MEMORY else cls()

    def as_json(self) -> list[float] | None:
        """Return it as JSON values."""
        if self.at is None:
            return None
        lag = () if self.lag is None else (round(self.lag, 1), *([1.0] if self.is_short else ()))
        return [self.at, round(self.late, 1), round(self.known, 1), *lag]

    def after(self, at: float, lag: float | None, limit: float, restart: Restart | None = None) -> Budget:
        """Return the budget after a sample.

        Args:
            at: Of the sample, epoch seconds.
            lag: Seconds; None where it is not known.
            limit: Lag above which the job is late.
            restart: Since the sample before; None for none.
        """
        began = at if self.at is None else self.at
        elapsed = at - began
        if lag is None or not 0.0 < elapsed <= _LONGEST:
            return Budget(at, self.late, self.known, lag)
        lags, kept = (lag if self.lag is None else self.lag, lag), exp(-elapsed / MEMORY)
        if restart is not None and began < restart.until <= at:
            more = restart.late(began, at, lags, limit)
        else:
            more = seconds_above(*lags, limit, elapsed)
        known = self.known * kept + elapsed
        is_short = lag > limit and restart is None and (self.is_short or lags[0] <= limit)
        return Budget(at, min(self.late * kept + more, known, MEMORY), min(known, MEMORY), lag, is_short)

    @property
    def measured(self) -> float:
        """Share of the time of which the lag is known that the job was late; 0 where it is not known of any."""
        return self.late / self.known if self.known > 0.0 else 0.0

    def share(self, allowed: float) -> float:
        """Return the share of time that the job was late; what a new job counts with as long as little is known.

        Args:
            allowed: Share of the time.
        """
        return (self.late + _PRIOR_USED * allowed * _PRIOR) / (self.known + _PRIOR)

    def pays_for(self, seconds: float, allowed: float) -> bool:
        """Tell whether the job may be late for so many more seconds; for hardly any of the whole budget always.

        Args:
            seconds: By what is to be done.
            allowed: Share of the time.
        """
        left = (allowed - self.share(allowed)) * (self.known + _PRIOR)
        return seconds <= max(left, _HARDLY_ANY * allowed * MEMORY)

    def left(self, allowed: float) -> float:
        """Return the share of time that a size of the job may be late: what is left, and a part of all at most.

        Args:
            allowed: Share of the time.
        """
        return min(max(allowed - self.share(allowed), 0.0), _MOST_SPENT * allowed)

    def factor(self, allowed: float) -> float:
        """Return how many times its price a late second costs: 1 far within the budget, 4 where it is used up.

        Args:
            allowed: Share of the time.
        """
        return min(max(exp(log(2.0) * min((self.share(allowed) / allowed - _FREE) / _DOUBLES, _MOST)), 1.0), _MOST)


NOTHING_USED: Final = Budget()
