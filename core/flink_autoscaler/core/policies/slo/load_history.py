"""Load of the past, by minutes and by buckets of five, what became of its jumps, and how much capacity it needed.

Loads are of any unit, such as slots that work keeps busy or records/s.
"""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate
from statistics import fmean, median
from typing import Final

from flink_autoscaler.core.model.value import replace, value
from flink_autoscaler.core.policies.slo.constants import CONSTANTS

BUCKET: Final = 300.0
"""Seconds of a bucket."""
PER_BUCKET: Final = 5
HOUR: Final = 12
DAY: Final = 288
WEEK: Final = 7 * DAY
HORIZON: Final = 96
"""Buckets of a forecast: eight hours."""
MIN_LOAD: Final = 1e-3
MIDDLES: Final = tuple(5.0 * place + 2.5 for place in range(HORIZON))
"""Minutes from now to the middle of every bucket of a forecast."""

PER_LOG: Final = 1000.0
"""Logarithms are kept as integers of 16 bits: to a tenth of a per cent, from e^-32 to e^32."""
_UNKNOWN: Final = -32768
_MIN_JUMP_MINUTES, _MIN_BETWEEN_JUMPS, _YOUNG = 4, 6, 12
"""Minutes of history without which there is no jump, between jumps, and below which a job is young."""

AGES: Final = (3.0, 6.0, 12.0, 30.0, 60.0)
"""Minutes after a jump at which it is noted what is left of it."""


@value
class Jumps:
    """What became of jumps upwards.

    Attributes:
        base: Load before the last one; 0 where that went down.
        peak: Greatest load since.
        left: Share of the jump that was left at each of :data:`AGES`, mean over jumps, newer ones counting for more.
        count: How many jumps it is known of, by age.
    """

    base: float = 0.0
    peak: float = 0.0
    left: tuple[float, ...] = (1.0,) * len(AGES)
    count: tuple[int, ...] = (0,) * len(AGES)

    def began(self, base: float, load: float) -> Jumps:
        """Return it at a jump."""
        return replace(self, base=base if load > base else 0.0, peak=load)

    def after(self, load: float, before: float, since: float) -> Jumps:
        """Return it after minutes of one load, by the minutes since the jump before them and now."""
        if not self.base:
            return self
        peak = max(self.peak, load)
        share = min(max((load - self.base) / (peak - self.base), 0.0), 1.0)
        left, count = list(self.left), list(self.count)
        for place, age in enumerate(AGES):
            if before < age <= since:
                count[place] += 1
                left[place] += (share - left[place]) / min(count[place], CONSTANTS.jumps)
        return Jumps(self.base, peak, tuple(left), tuple(count))

    @property
    def belief(self) -> float:
        """How much is known of jumps, as far as they did not last, 0..1."""
        left = [share for share, count in zip(self.left, self.count, strict=True) if count]
        return min(self.count[0], CONSTANTS.jumps) / (1.0 + CONSTANTS.jumps) * (1.0 - min(left, default=1.0))

    def course(self, since: float) -> list[float] | None:
        """Return what is expected to be left of the last jump; None where none of it is known.

        Args:
            since: Minutes since the jump.
        """
        if not self.base or not self.count[0]:
            return None
        known = [share for share, count in zip(self.left, self.count, strict=True) if count]
        height = self.peak - self.base
        return [self.base + height * known[min(bisect_left(AGES, since + at), len(known) - 1)] for at in MIDDLES]


@value
class LoadHistory:
    """Load of the past.

    Attributes:
        minutes: The last ones, oldest first.
        filling: How many of them are in no bucket yet.
        buckets: Logarithms of the means of five minutes, oldest first, 16 bits each.
        since: Minutes since a jump or a hole; None where there was neither lately.
        jumps: What became of jumps.
    """

    minutes: tuple[float, ...] = ()
    filling: int = 0
    buckets: bytes = b""
    since: float | None = None
    jumps: Jumps = Jumps()

    @property
    def count(self) -> int:
        """Complete buckets."""
        return len(self.buckets) // 2

    def logs(self, last: int | None = None) -> list[float]:
        """Return the logarithms of the last buckets, all by default, oldest first."""
        data = self.buckets if last is None else self.buckets[-2 * last :]
        return [each / PER_LOG for each in memoryview(data).cast("h")]

    def last(self, count: int) -> tuple[float, ...]:
        """Return the last minutes, none from before the last jump."""
        known = len(self.minutes) if self.since is None else min(len(self.minutes), max(int(self.since), 1))
        return self.minutes[-min(count, known) :]

    @property
    def is_fresh(self) -> bool:
        """Whether the load jumped within the last minutes, so that what was usual before says little."""
        return self.since is not None and self.since <= CONSTANTS.fresh

    @property
    def recent_level(self) -> float:
        """Logarithm of the mean of the last two minutes."""
        return math.log(max(fmean(self.last(2)), MIN_LOAD))

    @property
    def day_mean(self) -> float:
        """Mean load of the last day; 0 where nothing is known."""
        logs = self.logs(DAY)
        return fmean(map(math.exp, logs)) if logs else fmean(self.minutes or (0.0,))

    def after(self, load: float, minutes: int) -> tuple[LoadHistory, int]:
        """Return the history with some minutes of one load, and how many buckets they completed."""
        load = float(f"{max(load, MIN_LOAD):.5g}")  # so that it takes little room
        if minutes > CONSTANTS.hole:
            return self._after_hole(load, minutes)
        known = (*self.minutes, *(load,) * minutes)
        completed, filling = divmod(self.filling + minutes, PER_BUCKET)
        ends = [len(known) - filling - ago * PER_BUCKET for ago in range(completed - 1, -1, -1)]
        new = [math.log(fmean(known[max(end - PER_BUCKET, 0) : end])) for end in ends]
        since = None if self.since is None or self.since > CONSTANTS.minutes else self.since + minutes
        jumps = self.jumps if since is None else self.jumps.after(load, self.since or 0.0, since)
        found = LoadHistory(known[-CONSTANTS.minutes :], filling, self._with(new), since, jumps)
        return found._watched(), completed

    def _with(self, logs: Sequence[float]) -> bytes:
        if not logs:
            return self.buckets
        return (self.buckets + array("h", map(packed_log, logs)).tobytes())[-2 * CONSTANTS.buckets :]

    def _after_hole(self, load: float, minutes: int) -> tuple[LoadHistory, int]:
        """Fill a hole as it was a day before, or else with what is known now."""
        missing = min((self.filling + minutes) // PER_BUCKET, CONSTANTS.buckets)
        logs = self.logs()
        for _ in range(missing):
            logs.append(logs[-DAY] if len(logs) >= DAY else math.log(load))
        jumps = replace(self.jumps, base=0.0)
        return LoadHistory((load,), 0, LoadHistory()._with(logs), 1.0, jumps), missing

    def _watched(self) -> LoadHistory:
        """Return the history with the jump that the last two minutes show, if they do."""
        fresh = jump(self.minutes, self.since)
        if fresh is None:
            return self
        start = len(self.minutes) - int(fresh)
        jumps = self.jumps.after(self.minutes[-1], self.since or AGES[-1], AGES[-1])
        jumps = jumps.began(fmean(self.minutes[max(start - PER_BUCKET, 0) : start]), max(self.minutes[start:]))
        return replace(self, since=fresh, jumps=jumps)


def packed_log(log: float) -> int:
    """Return a logarithm as an integer of 16 bits."""
    return min(max(round(log * PER_LOG), _UNKNOWN + 1), -_UNKNOWN - 1)


def jump(minutes: Sequence[float], since: float | None) -> float | None:
    """Return how many minutes ago the load jumped, 1 or 2; None where it did not.

    A jump is two minutes on the same side that are some spreads and a share away from the median of the half hour
    before.

    Args:
        minutes: Load, oldest first.
        since: Minutes since the jump before.
    """
    if len(minutes) < _MIN_JUMP_MINUTES or (since is not None and since < _MIN_BETWEEN_JUMPS):
        return None
    before = minutes[-2 - (30 if since is None else min(30, int(since) - 2)) : -2]
    middle = median(before)
    limit = CONSTANTS.jump_spreads * max(1.48 * median([abs(each - middle) for each in before]), 0.02 * middle)
    away, away_before = minutes[-1] - middle, minutes[-2] - middle
    least = CONSTANTS.first_jump_share if len(minutes) < _YOUNG else CONSTANTS.jump_share
    if abs(away) <= limit or abs(away + away_before) / 2.0 <= max(limit, least * middle):
        return None
    return 2.0 if abs(away_before) > limit and away_before * away > 0.0 else 1.0


def required_capacity(minutes: Sequence[float], limit: float) -> float:
    """Return the least capacity that would have kept the lag acceptable up to the last of some minutes.

    Over any stretch that ends now, what the capacity falls behind must fit into the acceptable lag, so that a burst
    that does costs nothing.

    Args:
        minutes: Load, oldest first, at least one.
        limit: Acceptable lag, seconds.
    """
    sums = list(accumulate(reversed(minutes[-CONSTANTS.burst :])))
    slack = CONSTANTS.lag_share * limit / 60.0 * minutes[-1]
    return max(sums[-1] / len(sums), *((total - slack) / n for n, total in enumerate(sums, start=1)))
