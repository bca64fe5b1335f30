"""When the job goes where it is cheapest: up when that is confirmed, down when waiting has cost enough.

Down is ski rental: the slots that could have been saved since a smaller size was first cheaper are added up, and the
job goes when they have paid for the share of the rescale that patience asks for. A large surplus goes within minutes, a
small one waits for an hour: hysteresis in slot-seconds, without a timer. (Karlin, Manasse, Rudolph and Sleator,
"Competitive snoopy caching", 1988.)
"""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from typing import Any, Final

from flink_autoscaler.core.model.quick import quick
from flink_autoscaler.core.policies.slo.lateness import LagTerms
from flink_autoscaler.core.policies.slo.price import Prices

UPS: Final = 2
"""Evaluations in a row that have to call for a larger size."""
DOWNS: Final = 3
"""Evaluations in a row that have to call for a smaller one."""
FULL_EVERY: Final = 300.0
"""Seconds after which a quiet job is evaluated again."""
JUMP_MEMORY: Final = 20.0
"""Minutes after a change of the load in which a job is not quiet."""

_LONGEST: Final = 2 * FULL_EVERY
"""Seconds that one evaluation may stand for: what was wanted before a longer gap is not known."""
_KEPT_PER_MINUTE: Final = 0.9
_QUIET_LAG: Final = 0.2
_QUIET_LOAD: Final = 0.97
_QUIET_NOISE: Final = 2.0


@dataclass(frozen=True, slots=True)
class Moment:
    """The job in one pass.

    Attributes:
        at: Epoch seconds.
        slots: What it holds.
        capacity: Demand with which it keeps pace.
        demand: What arrives.
        lag: Seconds; None where it is not known.
        expected: Demand that the forecasts had said.
        since: Minutes since the load has changed; None where it has not lately.
    """

    at: float
    slots: int
    capacity: float
    demand: float
    lag: float | None
    expected: float
    since: float | None = None


@quick
@dataclass(frozen=True, slots=True)
class Acting:
    """What evaluations have called for since the last rescale.

    Attributes:
        at: Of the last evaluation; None before the first.
        slots: What the job held then.
        best: What it called for.
        ups: Evaluations in a row that called for more.
        downs: Evaluations in a row that called for less.
        regret: Slot-seconds that could have been saved.
        recalled: Greatest of the smaller sizes that were called for lately, 0 for none: what was called for once fades
            within minutes to what is called for now.
        is_due: Whether the last evaluation called for a change that is confirmed.
    """

    at: float | None = None
    slots: int = 0
    best: int = 0
    ups: int = 0
    downs: int = 0
    regret: float = 0.0
    recalled: float = 0.0
    is_due: bool = False

    @property
    def target(self) -> int:
        """Slots to go down to; 0 for none."""
        return round(self.recalled)

    @classmethod
    def read(cls, state: Any) -> Acting:
        """Read what :meth:`as_json` wrote; as before the first evaluation where it cannot be read."""
        try:
            at, slots, best, ups, downs, regret, recalled, is_due = state
            known = cls(
                float(at), int(slots), int(best), int(ups), int(downs), float(regret), float(recalled), is_due is True
            )
        except (TypeError, ValueError, OverflowError):
            return cls()
        numbers = (known.slots, known.best, known.ups, known.downs, known.regret, known.recalled)
        return known if isfinite(float(at)) and all(isfinite(each) and each >= 0 for each in numbers) else cls()

    def as_json(self) -> list[Any] | None:
        """Return it as JSON values."""
        if self.at is None:
            return None
        regret, recalled = round(self.regret, 1), round(self.recalled, 2)
        return [self.at, self.slots, self.best, self.ups, self.downs, regret, recalled, self.is_due]

    def is_quiet(self, moment: Moment, noise: float, limit: float) -> bool:
        """Tell whether nothing can have changed since the last evaluation, so that none is needed now.

        Args:
            moment: The job.
            noise: Standard deviation of its demand, relative to it.
            limit: Lag above which it is late.
        """
        if self.at is None or self.ups or self.is_due or self.slots != moment.slots:
            return False
        if not 0.0 <= moment.at - self.at < FULL_EVERY or (moment.since is not None and moment.since <= JUMP_MEMORY):
            return False
        is_expected = abs(moment.demand - moment.expected) <= _QUIET_NOISE * noise * moment.expected
        is_ahead = moment.demand < _QUIET_LOAD * moment.capacity
        return is_expected and is_ahead and (moment.lag or 0.0) <= _QUIET_LAG * limit

    def evaluated(self, moment: Moment, best: int) -> Acting:
        """Return what is remembered after an evaluation; after a rescale only of this one."""
        if self.at is None or self.slots != moment.slots:
            return Acting(
                moment.at,
                moment.slots,
                best,
                ups=int(best > moment.slots),
                downs=int(best < moment.slots),
                recalled=float(best) if best < moment.slots else 0.0,
            )
        elapsed = min(max(moment.at - self.at, 0.0), _LONGEST)
        kept = _KEPT_PER_MINUTE ** (elapsed / 60.0)
        if best < moment.slots:
            regret = self.regret + elapsed * (moment.slots - best)
            recalled = best + kept * max(self.recalled - best, 0.0)
            return Acting(moment.at, moment.slots, best, 0, self.downs + 1, regret, recalled)
        regret = max(self.regret * kept - elapsed, 0.0)
        ups = self.ups + 1 if best > moment.slots else 0
        return Acting(moment.at, moment.slots, best, ups, 0, regret, self.recalled if regret > 0.0 else 0.0)

    def wanted(self, moment: Moment, price: float, limit: float) -> int | None:
        """Return the slots to go to now; None to stay.

        Args:
            moment: The job.
            price: Of a scale-down to the target, as far as it has to be forgone.
            limit: Lag above which the job is late.
        """
        if self.ups >= UPS:
            return self.best
        is_calm = moment.lag is not None and moment.lag < limit / 2
        return self.target if self.downs >= DOWNS and is_calm and self.regret >= price else None


def price_down(acting: Acting, moment: Moment, capacity: float, terms: LagTerms, prices: Prices) -> float:
    """Return what has to be forgone before the job goes down to its target.

    Args:
        acting: With the target.
        moment: The job.
        capacity: Demand with which the target keeps pace.
        terms: What is late, and what a rescale does.
        prices: Of both.
    """
    demand = max(moment.expected, moment.demand)
    return prices.scale_down(acting.target, capacity / demand - 1.0 if demand > 0.0 else 1.0, terms)
