"""How careful the policy is: what was used of the error budget says from which quantile of the need it plans."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from flink_autoscaler.core.model.quick import quick
from flink_autoscaler.core.policies.slo.budget import Restart
from flink_autoscaler.core.policies.slo.lateness import seconds_above

_DAY: Final = 86400.0


@quick
@dataclass(frozen=True, slots=True)
class BudgetConstants:
    """What was chosen.

    Attributes:
        memory: Seconds after which what was measured counts a third: a week.
        prior: Seconds that a new job counts as having used ``free`` of its budget in.
        quantile: Of the need that is planned for as long as no more than ``free`` is used.
        free: Share of the budget that may be used before caution grows.
        gain: By how much the logit of the quantile grows with the share used beyond.
        max_quantile: However much is used.
        longest: Seconds for which one sample can speak.
    """

    memory: float = 7 * _DAY
    prior: float = 3.5 * _DAY
    quantile: float = 0.95
    free: float = 0.6
    gain: float = 4.0
    max_quantile: float = 0.99
    longest: float = 900.0


CONSTANTS: Final = BudgetConstants()


@quick
@dataclass(frozen=True, slots=True)
class ErrorBudget:
    """How late a job has been lately.

    Attributes:
        at: Of the last sample, epoch seconds; None before the first.
        late: Seconds above the acceptable lag, older ones counting for less.
        known: Seconds of which the lag is known, in the same way.
        lag: At the last sample, seconds; None where it was not known.
    """

    at: float | None = None
    late: float = 0.0
    known: float = 0.0
    lag: float | None = None

    def after(self, at: float, lag: float | None, limit: float, restart: Restart | None) -> ErrorBudget:
        """Return the budget after a sample.

        Args:
            at: Of the sample, epoch seconds.
            lag: Seconds; None where it is not known.
            limit: Lag above which the job is late.
            restart: Since the sample before; None for none.
        """
        began = at if self.at is None else self.at
        elapsed = at - began
        if lag is None or not 0.0 < elapsed <= CONSTANTS.longest:
            return ErrorBudget(at, self.late, self.known, lag)
        before = lag if self.lag is None else self.lag
        if restart is not None and began < restart.until <= at:
            new = restart.late(began, at, (before, lag), limit)
        else:
            new = seconds_above(before, lag, limit, elapsed)
        kept = math.exp(-elapsed / CONSTANTS.memory)
        return ErrorBudget(at, self.late * kept + new, self.known * kept + elapsed, lag)

    def used(self, allowed: float) -> float:
        """Return the share of the budget that is used; a new job counts as having used some.

        Args:
            allowed: Share of the time that the job may be late.
        """
        prior = CONSTANTS.free * allowed * CONSTANTS.prior
        return (self.late + prior) / (self.known + CONSTANTS.prior) / allowed

    def quantile(self, allowed: float) -> float:
        """Return the quantile of the need to plan for; it grows with what was used of the budget beyond some."""
        over = max(self.used(allowed) - CONSTANTS.free, 0.0)
        logit = math.log(CONSTANTS.quantile / (1.0 - CONSTANTS.quantile)) + CONSTANTS.gain * over
        return min(1.0 / (1.0 + math.exp(-logit)), CONSTANTS.max_quantile)
