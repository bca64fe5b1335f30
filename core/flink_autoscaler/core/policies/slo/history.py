"""What demand has been: the last minutes one by one, the last days by buckets of five minutes, and the last jump."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import Final

from flink_autoscaler.core.model.quick import quick, replace
from flink_autoscaler.core.policies.slo import packing
from flink_autoscaler.core.policies.slo.model import LEAST_DEMAND

MINUTES: Final = 90
"""Values of a minute that are kept."""
PER_BUCKET: Final = 5
DAY: Final = 288
"""Buckets of a day."""
KEPT: Final = 8 * DAY
"""Buckets that are kept at most."""
HOLE: Final = 15
"""Minutes without a sample from which on what was before is history only."""
GREATEST: Final = packing.GREATEST

BEFORE: Final = 30
"""Minutes to which a jump is compared, at most."""
LEAST_HISTORY: Final = 4
LEAST_SINCE: Final = 6
"""Minutes before a jump is looked for: at all, and after another one."""
YOUNG: Final = 12
"""Minutes until which the spread of a new job is hardly known."""
SPREADS: Final = 4.5
SPREAD_OF_MEDIAN: Final = 1.48
LEAST_SPREAD: Final = 0.02
LEAST_JUMP: Final = 0.12
LEAST_YOUNG_JUMP: Final = 0.3
FORESEEN: Final = 0.15
"""How near the forecast must have been for a jump to be no surprise."""
SURPRISED: Final = 15.0
"""Minutes for which a surprise is one."""
LONG_AGO: Final = 10_000.0
"""Minutes since a jump that are no longer counted."""


@quick
@dataclass(frozen=True, slots=True)
class History:
    """Demand of the past.

    Attributes:
        minutes: The last of them, oldest first.
        filling: How many of the last of them are in no bucket yet.
        buckets: Packed means of five minutes, oldest first.
        since: Minutes since a jump or a hole; None where there was neither.
        surprise: Minutes since a jump that was not foreseen, while it is one.
        day_mean: Mean of the last day.
        day_greatest: Greatest of the last day.
        packed: The minutes, packed.
        completed: How many buckets the last minutes have completed.
    """

    minutes: tuple[float, ...] = ()
    filling: int = 0
    buckets: str = ""
    since: float | None = None
    surprise: float | None = None
    day_mean: float = 0.0
    day_greatest: float = 0.0
    packed: str = ""
    completed: int = 0

    @property
    def count(self) -> int:
        """How many buckets there are."""
        return len(self.buckets) // packing.SHORT

    @property
    def known(self) -> int:
        """How many of the last minutes are after the last jump."""
        return len(self.minutes) if self.since is None else min(len(self.minutes), max(int(self.since), 1))

    def last(self, count: int) -> tuple[float, ...]:
        """Return the last minutes, not from before the last jump."""
        return self.minutes[-min(count, self.known) :]

    def bucket(self, place: int) -> float:
        """Return a bucket by its place, 0 the oldest."""
        return packing.from_short(self.buckets[place * packing.SHORT : (place + 1) * packing.SHORT]) or LEAST_DEMAND

    def after(self, value: float, minutes: int) -> History:
        """Return the history with minutes of one value; ``completed`` says how many buckets they completed."""
        value = min(max(value, LEAST_DEMAND), GREATEST)
        if minutes > HOLE:
            return self._after_hole(value, minutes)
        added, buckets = (*self.minutes, *(value,) * minutes), self.buckets
        completed, filling = divmod(self.filling + minutes, PER_BUCKET)
        for ago in range(completed - 1, -1, -1):
            end = len(added) - filling - ago * PER_BUCKET
            buckets += packing.short(fmean(added[max(end - PER_BUCKET, 0) : end]))
        found = replace(
            self,
            minutes=added[-MINUTES:],
            packed=(self.packed + packing.long(value) * minutes)[-MINUTES * packing.LONG :],
            filling=filling,
            buckets=buckets[-KEPT * packing.SHORT :],
            since=later(self.since, minutes, LONG_AGO),
            surprise=later(self.surprise, minutes, SURPRISED),
            completed=completed,
        )
        return found.with_day() if completed else found

    def _after_hole(self, value: float, minutes: int) -> History:
        """Fill a hole as it was a day before, or else with what is known; what was before it is history only."""
        missing = min((self.filling + minutes) // PER_BUCKET, KEPT)
        buckets, other = self.buckets, packing.short(value)
        for _ in range(missing):
            buckets += (
                buckets[-DAY * packing.SHORT :][: packing.SHORT] if len(buckets) >= DAY * packing.SHORT else other
            )
        kept = buckets[-KEPT * packing.SHORT :]
        return History((value,), 0, kept, since=1.0, packed=packing.long(value), completed=missing).with_day()

    def day(self) -> list[float]:
        """Return the buckets of the last day, oldest first."""
        return packing.shorts(self.buckets[-DAY * packing.SHORT :])

    def with_day(self) -> History:
        """Return the history with what the last day was like."""
        if not self.buckets:
            return self
        values = self.day()
        return replace(self, day_mean=fmean(values), day_greatest=max(values))

    def trimmed(self, count: int) -> History:
        """Return the history without buckets that are too old."""
        return replace(self, buckets=self.buckets[-count * packing.SHORT :])

    def watched(self, foreseen: float | None) -> History:
        """Return the history with the jump that the last minutes show, if they do.

        Args:
            foreseen: Demand that was expected of the last minute; None where nothing was.
        """
        fresh = jumped(self.minutes, self.since)
        if fresh is None:
            return self
        last = self.minutes[-1]
        is_surprise = foreseen is None or abs(foreseen - last) > FORESEEN * last
        return replace(self, since=fresh, surprise=0.0 if is_surprise else self.surprise)


def later(age: float | None, minutes: int, limit: float) -> float | None:
    """Return an age some minutes later; None for one above a limit."""
    return None if age is None or age + minutes > limit else age + minutes


def jumped(minutes: Sequence[float], since: float | None) -> float | None:
    """Return how many minutes ago the load jumped, 1 or 2; None where it did not.

    Args:
        minutes: Demand, oldest first.
        since: Minutes since the jump before.
    """
    if len(minutes) < LEAST_HISTORY or (since is not None and since < LEAST_SINCE):
        return None
    reach = BEFORE if since is None else min(BEFORE, int(since) - 2)
    before = minutes[-2 - reach : -2]
    middle = median(before)
    spread = SPREAD_OF_MEDIAN * median([abs(each - middle) for each in before])
    limit = SPREADS * max(spread, LEAST_SPREAD * middle)
    away, away_before = minutes[-1] - middle, minutes[-2] - middle
    mean, least = abs(away + away_before) / 2.0, LEAST_YOUNG_JUMP if len(minutes) < YOUNG else LEAST_JUMP
    if mean <= limit or mean <= least * middle or abs(away) <= limit:
        return None
    return 2.0 if abs(away_before) > limit and away_before * away > 0.0 else 1.0
