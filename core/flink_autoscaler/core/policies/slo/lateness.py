"""How late a job is: the share of time with some head-room, what a rescale costs, and how a backlog drains.

Head-room is capacity by demand, less one. Demand, capacity and backlog are in slot equivalents and their seconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import erfc, exp, sqrt
from typing import Final

from flink_autoscaler.core.model.quick import quick
from flink_autoscaler.core.policies.slo.model import BUCKET, LEAST_DEMAND, Noise

LAG_SHARE: Final = 0.8
"""Share of the acceptable lag that noise may use up."""
LEAST_HEADROOM: Final = 0.02
"""With less than this a rescale counts as if it had this much; nothing would ever drain."""
LOOK_AHEAD: Final = 1800.0
"""Seconds for which a backlog is followed minute by minute; what is left then drains at a constant rate."""

_MOST_NOISE: Final = 600.0
_MOST_LATE: Final = 3600.0
_POINTS: Final = ((0.0, 2 / 3), (sqrt(3.0), 1 / 6), (-sqrt(3.0), 1 / 6))
"""Three points that stand for a normal distribution, and their weights (Gauss-Hermite)."""
_SQRT2: Final = sqrt(2.0)
_LEAST_SHRINKING: Final = 0.01
_MOST_OVERLOAD: Final = 10.0


@dataclass(frozen=True, slots=True)
class LagTerms:
    """What counts as late, and what a rescale does to the lag; all in seconds.

    Attributes:
        limit: Lag above which the job is late.
        outage: How long a rescale is expected to stop it.
        replay: Age of the checkpoint that it then starts from.
    """

    limit: float
    outage: float
    replay: float = 0.0

    @property
    def behind(self) -> float:
        """Lag right after a rescale of a job that had none."""
        return self.outage + self.replay

    @property
    def excess(self) -> float:
        """By how much that is too much."""
        return max(self.behind - self.limit, 0.0)

    @property
    def turn(self) -> float:
        """Seconds that a rescale and the one that undoes it make the job late.

        With a head-room of one what is too much takes as long again to drain.
        """
        return 4.0 * self.excess


@dataclass(frozen=True, slots=True)
class Spread:
    """How far demand and capacity are from what is expected.

    Attributes:
        s: Standard deviation of demand within minutes, relative to it.
        v: Half the growth per second of the variance of relative arrivals, seconds.
        sigma: Standard deviation of the head-room that stays for long: of capacity and of the forecast.
        replayed: Share of time that head-rooms would have been late lately; empty where that is not known.
    """

    s: float
    v: float
    sigma: float
    replayed: tuple[float, ...] = ()

    @classmethod
    def of(cls, noise: Noise, deviation: float, replayed: tuple[float, ...] = ()) -> Spread:
        """Return it for the noise of demand and the standard deviation of a capacity."""
        return cls(max(noise.s, 1e-4), max(noise.v, 1e-6), sqrt(deviation**2 + noise.s_p**2), replayed)


def late_share(headroom: float, spread: Spread, limit: float) -> float:
    """Return the share of time that a job is late with a head-room.

    Effective bandwidth: the chance that demand exceeds capacity, times the decay of the queue that it feeds over the
    lag that noise may use up (Choe and Shroff, "A central-limit-theorem-based approach for analyzing queue behavior",
    1998; Mandjes, "Large deviations for Gaussian queues", 2007).
    """
    rate = LAG_SHARE * limit / spread.v
    total = 0.0
    for point, weight in _POINTS:
        h = headroom + point * spread.sigma
        total += weight * 0.5 * erfc(h / (spread.s * _SQRT2)) * (exp(-h * rate) if h > 0.0 else 1.0)
    return total


def transition(spread: Spread, limit: float) -> tuple[float, float]:
    """Return the head-room below which a job is always late, and that above which it never is, within 1e-8."""
    wide = _POINTS[1][0] * spread.sigma
    return -wide - 5.6 * spread.s, wide + min(5.6 * spread.s, 18.4 * spread.v / (LAG_SHARE * limit + 1e-9))


def noise_lateness(headroom: float, v: float, terms: LagTerms) -> float:
    """Return the seconds that noise keeps a job late after a rescale.

    The time that a reflected Brownian motion with the drift of the head-room spends above what the outage leaves of
    the limit.
    """
    h = max(headroom, LEAST_HEADROOM)
    return min(exp(-h * max(terms.limit - terms.behind, 0.0) / v) * v / h**2, _MOST_NOISE)


def rescale_lateness(headroom: float, v: float, terms: LagTerms) -> float:
    """Return the late seconds that a rescale costs with a head-room after it: the drain of the outage, and noise."""
    h = max(headroom, LEAST_HEADROOM)
    return min(terms.excess * (1.0 + 1.0 / h) + (noise_lateness(h, v, terms) if v > 0.0 else 0.0), _MOST_LATE)


@quick
@dataclass(frozen=True, slots=True)
class Change:
    """A rescale that is thought through.

    Attributes:
        capacity: After it.
        after: Seconds from now until it begins.
    """

    capacity: float
    after: float = 0.0


def fluid(
    path: Sequence[float], backlog: float, capacity: float, terms: LagTerms, change: Change | None = None
) -> tuple[float, float]:
    """Follow a backlog for half an hour as a fluid.

    Args:
        path: Demand by bucket from now on, above 0; the last one stands for what comes after it.
        backlog: Now.
        capacity: Now.
        terms: What counts as late, and what the change does.
        change: A rescale; None to stay.

    Returns:
        Seconds above the limit, with those that it takes to drain what is above it at the end, and the lag at the end.
    """
    late, at, peak, last, limit = 0.0, 0.0, max(path), len(path) - 1, terms.limit
    x, rate = path[0], capacity
    for until, rate, replay in _stages(capacity, terms, change):
        backlog += replay * x
        while at < until and (backlog > 0.0 or rate < peak):  # else nothing will ever wait
            bucket = int(at / BUCKET)
            x = path[min(bucket, last)]
            end = min(until, (bucket + 1) * BUCKET)
            after = backlog + (x - rate) * (end - at)
            if after > limit * x or backlog > limit * x:
                late += seconds_above(backlog, after, limit * x, end - at)
            backlog, at = max(after, 0.0), end
        at = until
    x = path[min(int(at / BUCKET), last)]
    lag = backlog / x
    return (late + _tail(lag - limit, x, rate), lag) if lag > limit else (late, lag)


def _stages(capacity: float, terms: LagTerms, change: Change | None) -> tuple[tuple[float, float, float], ...]:
    """Return until when the job has which capacity, and the age of what it then reads again."""
    if change is None:
        return ((LOOK_AHEAD, capacity, 0.0),)
    back = change.after + terms.outage
    outage = (back, 0.0, terms.replay)
    rest = (max(LOOK_AHEAD, back + BUCKET), change.capacity, 0.0)
    return ((change.after, capacity, 0.0), outage, rest) if change.after else (outage, rest)


def seconds_above(before: float, after: float, limit: float, seconds: float) -> float:
    """Return the seconds above a limit, of some in which what begins or ends above it changes evenly."""
    low, high = (before, after) if before < after else (after, before)
    if high <= limit:
        return 0.0
    return seconds if low >= limit else seconds * (high - limit) / (high - low)


def _tail(excess: float, demand: float, capacity: float) -> float:
    """Return the seconds until a lag that is too high by some seconds is not any more, an overload made worse."""
    load = min(demand / max(capacity, LEAST_DEMAND), 1.0 + _MOST_OVERLOAD)
    return excess / max(1.0 - load, _LEAST_SHRINKING) * (1.0 + 10.0 * max(load - 1.0, 0.0))
