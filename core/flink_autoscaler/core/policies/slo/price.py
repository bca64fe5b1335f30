"""What a second of lateness and a rescale cost, in slot-seconds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import floor, inf, isfinite
from typing import Final, Self

from flink_autoscaler.core.options.policies import SloOptions
from flink_autoscaler.core.options.safety import DOWN_SHARE
from flink_autoscaler.core.policies.slo.budget import DAY, NOTHING_USED, Budget
from flink_autoscaler.core.policies.slo.lateness import LEAST_HEADROOM, LagTerms

_MEMORY: Final = 5 * DAY
_SOON: Final = 24
"""Buckets of the mix whose mean keeps the price of lateness up while a job that is small grows: 2 hours."""
_SOON_SHARE: Final = 0.6
_MOST_LATE: Final = 1800.0
_MOST_SCARCE: Final = 10.0
"""Times the price of a rescale when the budget of the day is nearly used up. Who spends it to the end is held at the
size that he has then, which may be the largest."""
_LEAST_SHARE: Final = 0.5
"""Of the mean size: what a rescale costs besides its outage is hardly less while the job is nearly idle, and each of
them makes those that are needed later dearer."""

_SMALL_UP: Final = 9.6
"""Times the price of a scale-up that a small one costs besides. Measured: a load that rises for hours is followed in
two steps instead of four or eight."""
_SMALL_DOWN: Final = 50.0
"""The same of a scale-down after as many rescales in 24 hours as double the price, and a quarter of it after half as
many: nothing small would ever be given up by a job that is seldom rescaled."""
_MOST_SMALL_DOWN: Final = 3600.0
"""Seconds of the job that a small scale-down costs at most besides: after the rescales of a launch, a quarter too much
would be held for a day."""


@dataclass(frozen=True, slots=True)
class Prices:
    """Prices in slot-seconds, those of rescales by the slot that the job then has.

    Attributes:
        late: Of a second above the limit.
        rescale: Of a rescale, besides its outage.
        first_up: The same of a scale-up.
        patience: Share of a price that has to be forgone before a scale-down.
        recent: Rescales of the last 24 hours.
        late_share: Share of the last days that the job was late.
        urgency: How many times the price of lateness that is.
        least: Slots for which a rescale is paid at least.
        small_up: What a scale-up that changes little costs besides.
        small_down: The same of a scale-down.
    """

    late: float
    rescale: float
    first_up: float
    patience: float = 0.5
    recent: int = 0
    late_share: float = 0.0
    urgency: float = 1.0
    least: float = 0.0
    small_up: float = 0.0
    small_down: float = 0.0

    @classmethod
    def of(
        cls,
        options: SloOptions,
        mean_slots: float,
        mixed: Sequence[float],
        recent: int,
        budget: Budget = NOTHING_USED,
        allowed: float = inf,
    ) -> Self:
        """Set them.

        Args:
            options: Of the job.
            mean_slots: What the job has held lately.
            mixed: Demand that is expected, by bucket.
            recent: Its rescales of the last 24 hours.
            budget: How late it has been lately.
            allowed: Rescales of 24 hours after which nothing is made smaller any more.

        Raises:
            ValueParseError: A setting cannot be read.
        """
        used, weight = recent / options.slo_rescales_per_day, options.slo_small_rescales
        up = options.slo_rescale_price_up.exact_seconds
        down = options.slo_rescale_price.exact_seconds * (1.0 + used**2) * scarcity(recent, allowed)
        soon, urgency = mixed[:_SOON], budget.factor(options.slo_error_budget)
        expected = sum(soon) / len(soon) if soon else 0.0
        return cls(
            late=urgency * options.slo_late_weight * max(1.0, mean_slots, _SOON_SHARE * expected),
            rescale=down,
            first_up=up,
            patience=options.slo_patience,
            recent=recent,
            late_share=budget.measured,
            urgency=urgency,
            least=_LEAST_SHARE * mean_slots,
            small_up=weight * _SMALL_UP * up / urgency**2,  # who is late answers, in steps of any size
            small_down=weight * min(_SMALL_DOWN * used**2 * down, _MOST_SMALL_DOWN),
        )

    def change(self, slots: int, terms: LagTerms, *, is_up: bool = False) -> float:
        """Return the price of a rescale to some slots, without the lateness that it brings."""
        price = self.first_up if is_up else self.rescale
        return price * max(slots, self.least) + terms.outage * slots

    def small(self, slots: int, *, is_up: bool = False) -> float:
        """Return what a rescale to some slots that changes little costs besides."""
        return (self.small_up if is_up else self.small_down) * max(slots, self.least)

    def scale_down(self, slots: int, headroom: float, terms: LagTerms) -> float:
        """Return what has to be forgone before the job goes down to some slots, which leave a head-room."""
        late = min(terms.excess * (1.0 + 1.0 / max(headroom, LEAST_HEADROOM)), _MOST_LATE)
        return self.patience * (self.change(slots, terms) + self.late * late)


def downs_of_a_day(budget: int) -> float:
    """Return the rescales of a day after which a budget of them is kept for scale-ups; 0 stands for no budget."""
    return max(1.0, float(floor(budget * DOWN_SHARE))) if budget else inf


def scarcity(recent: int, allowed: float) -> float:
    """Return how many times its price a rescale costs for the few that are left of a day.

    Args:
        recent: Rescales of the last 24 hours.
        allowed: Those after which nothing is made smaller any more.
    """
    return min(1.0 / max(1.0 - (recent / allowed) ** 2, 1e-9), _MOST_SCARCE) if allowed > 0.0 else _MOST_SCARCE


def rescales_of_the_day(instants: Sequence[float], now: float) -> int:
    """Return how many of some instants are within the last 24 hours."""
    return sum(1 for at in instants if now - DAY < at <= now)


def mean_slots(before: float | None, slots: int, elapsed: float) -> float:
    """Return the slots that a job has held lately: the mean of the last days, the present ones at first.

    Args:
        before: What it was when it was looked at last; None at first.
        slots: Of the job now.
        elapsed: Seconds since then.
    """
    if before is None or not isfinite(before) or before <= 0.0:
        return float(slots)
    return before + (slots - before) * min(max(elapsed, 0.0) / _MEMORY, 1.0)
