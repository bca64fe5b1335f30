"""How late a job is, how careful that makes the policy, and to which age restarts go back.

What was used of the error budget says from which quantile of the need the size is planned: the one control of caution.
"""

from __future__ import annotations

import math
from typing import Final

from flink_autoscaler.core.model.value import value
from flink_autoscaler.core.policies.slo.constants import CONSTANTS

_MIN_DEVIATION: Final = 1.0
"""Seconds to which one restart tells the age of what is read again at best."""
_NEIGHBOURS: Final = 0.5
"""Variance of the mean of two minutes, in variances of one."""
_MIN_ASSUMED: Final = 2.0
_MAX_AGE: Final = 600.0


def seconds_above(before: float, after: float, limit: float, seconds: float) -> float:
    """Return the seconds above a limit, of some in which what begins or ends above it changes evenly."""
    low, high = (before, after) if before < after else (after, before)
    if high <= limit:
        return 0.0
    return seconds if low >= limit else seconds * (high - limit) / (high - low)


@value
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


@value
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

    @property
    def late_share(self) -> float:
        """Share of the time of which the lag is known that the job was late; 0 where it is not known of any."""
        return self.late / self.known if self.known > 0.0 else 0.0

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


@value
class RestartInterval:
    """The minutes of a restart.

    Attributes:
        seconds: Their length.
        load: That seemed to come in them.
        before: Load of the minute before them.
    """

    seconds: float
    load: float
    before: float


@value
class ReplayAge:
    """How old the checkpoint is that a restart goes back to, from what counters show of it.

    What was processed since that checkpoint is read again, so that more seems to arrive in the minutes of a restart
    than before and after it. Half the interval between checkpoints is right for a job that is stopped at any moment; a
    cluster that waits for the next checkpoint before it rescales goes back by hardly anything.

    Attributes:
        last: The restart after which no minute has passed yet; None where there is none.
        total: Sum of the ages, each times its weight.
        weight: Sum of the weights; one by the variance of each.
    """

    last: RestartInterval | None = None
    total: float = 0.0
    weight: float = 0.0

    def began(self, seconds: float, load: float, before: float | None) -> ReplayAge:
        """Return it after minutes with a restart.

        Args:
            seconds: Their length.
            load: That seemed to come in them, above 0.
            before: That of the minute before them; None where it is not known.
        """
        last = None if before is None or seconds < 1.0 else RestartInterval(seconds, load, before)
        return ReplayAge(last, self.total, self.weight)

    def after(self, load: float) -> ReplayAge:
        """Return it after a minute of a load above 0 without a restart."""
        if self.last is None:
            return self
        last, usual = self.last, (self.last.before + load) / 2.0
        age = min(last.seconds * (last.load / usual - 1.0), _MAX_AGE)
        change = (load - last.before) / usual / 2.0
        share = (60.0 / last.seconds + _NEIGHBOURS) * CONSTANTS.load_noise**2 + change * change
        variance, fading = last.seconds**2 * share + _MIN_DEVIATION**2, CONSTANTS.age_fading
        return ReplayAge(None, fading * self.total + age / variance, fading * self.weight + 1.0 / variance)

    def seconds(self, assumed: float) -> float:
        """Return the age of the checkpoint that the next restart goes back to.

        Args:
            assumed: What it is without restarts, seconds.
        """
        trust = 1.0 / max(assumed, _MIN_ASSUMED) ** 2
        return min(max((trust * assumed + self.total) / (trust + self.weight), 0.0), max(2.0 * assumed, _MAX_AGE))
