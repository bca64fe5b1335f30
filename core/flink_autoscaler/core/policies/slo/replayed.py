"""How late a job would have been with other head-rooms: followed minute by minute, whatever the noise is like.

The model of noise knows its variance. Bursts that come out of nothing are no such noise: how late they would have made
the job is followed for head-rooms side by side, over what was foreseen and over what the last day had on average.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, inf, isfinite
from typing import Any, Final

from flink_autoscaler.core.model.quick import quick
from flink_autoscaler.core.policies.slo import packing

HEADROOMS: Final = (0.0, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.55, 0.75, 1.0, 1.4, 2.0, 3.0, 5.0, 8.0, 13.0, 21.0, 40.0)
"""Capacity by demand, less one."""
DELAY: Final = 5
"""Minutes from a forecast to when the size is there that it has led to."""
MEMORY: Final = 3 * 86400.0
"""Seconds after which what was seen counts a third."""
PRIOR: Final = 86400.0
"""Seconds without lateness that a new job begins with."""
WILD: Final = 2.0
"""Head-room over what was foreseen with which a load that can be foreseen at all is not late."""
LEAST_SHARE: Final = 0.25
"""Of the day's mean: what is foreseen counts as that much at least."""

MOST_LAG: Final = 1.5
"""Times the limit: so far a size that goes with the forecasts is followed before another one takes over."""
_LONGEST: Final = 900.0
"""Seconds that one sample can speak for; after a longer gap all queues are taken to be empty."""
_EMPTY: Final = (0.0,) * len(HEADROOMS)


@quick
@dataclass(frozen=True, slots=True)
class Followed:
    """Sizes that differ in their head-room, followed as fluids.

    Attributes:
        backlogs: By head-room, in seconds of one slot.
        late: By head-room, seconds above the limit.
    """

    backlogs: tuple[float, ...] = _EMPTY
    late: tuple[float, ...] = _EMPTY

    def after(self, demand: float, base: float, elapsed: float, limit: float, most: float = inf) -> Followed:
        """Return them after some seconds in which each had the capacity of its head-room over a base.

        Args:
            demand: That came.
            base: Demand of which each has so much more.
            elapsed: The seconds.
            limit: Lag above which a job is late, seconds.
            most: Greatest lag: with more of it the job would get another size.
        """
        kept, backlogs, late = exp(-elapsed / MEMORY), list[float](), list[float]()
        for headroom, backlog, before in zip(HEADROOMS, self.backlogs, self.late, strict=True):
            left = max(backlog + (demand - (1.0 + headroom) * base) * elapsed, 0.0)
            backlogs.append(min(left, most * demand))
            late.append(before * kept + (elapsed if left > limit * demand else 0.0))
        return Followed(tuple(backlogs), tuple(late))


@quick
@dataclass(frozen=True, slots=True)
class Replayed:
    """What head-rooms would have come to.

    Attributes:
        at: Of the last minute, epoch seconds; None before the first.
        known: Seconds that were followed.
        foreseen: Of the minutes to come, the next one first, slot equivalents.
        near: Sizes that go with what was foreseen.
        steady: Sizes that stay, over the mean of the last day.
    """

    at: float | None = None
    known: float = 0.0
    foreseen: tuple[float, ...] = ()
    near: Followed = Followed()
    steady: Followed = Followed()

    @classmethod
    def read(cls, stored: Any) -> Replayed:
        """Read what :meth:`as_json` wrote; as before the first minute where it cannot be read."""
        try:
            at, known, *texts = stored
            if not all(map(packing.is_long_series, texts)):
                return cls()
            foreseen, *each = (tuple(packing.from_longs(text)) for text in texts)
            near, steady = Followed(*each[:2]), Followed(*each[2:])
            found = cls(float(at), float(known), foreseen, near, steady)
        except (TypeError, ValueError, OverflowError, KeyError):
            return cls()
        is_whole = len(foreseen) <= DELAY and all(len(series) == len(HEADROOMS) for series in each)
        return found if is_whole and isfinite(float(at)) and 0.0 <= found.known <= MEMORY else cls()

    def as_json(self) -> list[Any] | None:
        """Return it as JSON values."""
        if self.at is None:
            return None
        series = (self.foreseen, self.near.backlogs, self.near.late, self.steady.backlogs, self.steady.late)
        return [self.at, round(self.known), *map(packing.longs, series)]

    def after(self, at: float, demand: float, foreseen: float, mean: float, limit: float) -> Replayed:
        """Return it after a minute.

        Args:
            at: Its end, epoch seconds.
            demand: That came, slot equivalents.
            foreseen: That is expected of the minute that comes :data:`DELAY` minutes later.
            mean: Demand of the last day.
            limit: Lag above which a job is late, seconds.
        """
        elapsed = 0.0 if self.at is None else at - self.at
        later = (*self.foreseen, max(foreseen, LEAST_SHARE * mean))[-DELAY:]
        if not 0.0 < elapsed <= _LONGEST:
            return Replayed(at, self.known, later, Followed(late=self.near.late), Followed(late=self.steady.late))
        known = min(self.known * exp(-elapsed / MEMORY) + elapsed, MEMORY)
        near = self.near.after(demand, later[0], elapsed, limit, MOST_LAG * limit)
        return Replayed(at, known, later, near, self.steady.after(demand, mean or demand, elapsed, limit))

    @property
    def shares(self) -> tuple[float, ...]:
        """Share of the time that each head-room over what was foreseen would have been late."""
        return tuple(each / (self.known + PRIOR) for each in self.near.late)

    def capacity_kept(self, mean: float, allowed: float) -> float:
        """Return the least capacity that would have been late for no more than a share of the time if it had stayed.

        Args:
            mean: Demand of the last day.
            allowed: Share of the time.
        """
        most = allowed * (self.known + PRIOR)
        fitting = (headroom for headroom, late in zip(HEADROOMS, self.steady.late, strict=True) if late <= most)
        return (1.0 + next(fitting, HEADROOMS[-1])) * mean


NOTHING_REPLAYED: Final = Replayed()


def share_at(shares: Sequence[float], headroom: float) -> float:
    """Return the share of time that a head-room would have been late, between those that were followed."""
    if headroom >= HEADROOMS[-1]:
        return shares[-1]
    place = max(bisect_right(HEADROOMS, headroom) - 1, 0)
    low, high = HEADROOMS[place], HEADROOMS[place + 1]
    part = min(max((headroom - low) / (high - low), 0.0), 1.0)
    return shares[place] + part * (shares[place + 1] - shares[place])
