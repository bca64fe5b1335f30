"""How late a job would have been with other head-rooms: followed minute by minute, whatever the noise is like.

The model of noise knows its variance. Bursts that come out of nothing are no such noise: how late they would have made
the job is followed for head-rooms side by side, over what was foreseen and over what the last day had on average.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from math import exp, inf, isfinite
from operator import add
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
SPELL: Final = 6 * 3600.0
"""Seconds of which what was late counts as one spell."""
WILD: Final = 2.0
"""Head-room over what was foreseen with which a load that can be foreseen at all is not late."""
SUDDEN: Final = HEADROOMS.index(0.2)
"""The same of a load that rescales can follow in time, as a place among the head-rooms."""
LEAST_SUDDEN: Final = 60.0
"""Seconds that it is late with it at most."""
LEAST_SHARE: Final = 0.25
"""Of the day's mean: what is foreseen counts as that much at least."""

MOST_LAG: Final = 1.5
"""Times the limit: so far a size that goes with the forecasts is followed before another one takes over."""
_LONGEST: Final = 900.0
"""Seconds that one sample can speak for; after a longer gap all queues are taken to be empty."""
_EMPTY: Final = (0.0,) * len(HEADROOMS)
_LEFT: Final = exp(-SPELL / MEMORY)
"""What a spell leaves of those before it."""


@quick
@dataclass(frozen=True, slots=True)
class Followed:
    """Sizes that differ in their head-room, followed as fluids.

    What comes once is no rule: of spells the worst one is left out until there is another one.

    Attributes:
        backlogs: By head-room, in seconds of one slot.
        spell: By head-room, seconds above the limit in the spell that goes on.
        worst: The same of the worst spell before it.
        others: The same of all others.
    """

    backlogs: tuple[float, ...] = _EMPTY
    spell: tuple[float, ...] = _EMPTY
    worst: tuple[float, ...] = _EMPTY
    others: tuple[float, ...] = _EMPTY

    @classmethod
    def read(cls, *texts: Any) -> Followed:
        """Read what :meth:`as_json` wrote.

        Raises:
            ValueError: It is something else.
        """
        backlogs, spell, *before = texts
        if not packing.is_long_series(backlogs) or not packing.is_long_series(spell):
            raise ValueError(texts)
        now = (tuple(packing.from_longs(each)) for each in (backlogs, spell))
        found = cls(*now, *map(packing.from_packed_shorts, before))
        if any(len(each) != len(HEADROOMS) for each in (found.backlogs, found.spell, found.worst, found.others)):
            raise ValueError(texts)
        return found

    def as_json(self) -> list[str]:
        """Return it as texts."""
        before = map(packing.packed_shorts, (self.worst, self.others))
        return [packing.longs(self.backlogs), packing.longs(self.spell), *before]

    def after(
        self, demand: float, base: float, elapsed: float, limit: float, most: float = inf, short: float = 0.0
    ) -> Followed:
        """Return them after some seconds in which each had the capacity of its head-room over a base.

        Args:
            demand: That came.
            base: Demand of which each has so much more.
            elapsed: The seconds.
            limit: Lag above which a job is late, seconds.
            most: Greatest lag: with more of it the job would get another size.
            short: Capacity with which the job itself was late; 0 where it was not. It counts up to one head-room above
                those with a queue: lateness without one is of something else, such as offsets that are committed late.
        """
        late, longest, backlogs = limit * demand, most * demand, list[float]()
        spell, less, waits = list(self.spell), 0.0, True
        for place, (headroom, backlog) in enumerate(zip(HEADROOMS, self.backlogs, strict=True)):
            capacity = (1.0 + headroom) * base
            left = max(backlog + (demand - capacity) * elapsed, 0.0)
            backlogs.append(min(left, longest))
            if left > late or (waits and less < short):
                spell[place] += elapsed
            less, waits = capacity, left > 0.0
        return replace(self, backlogs=tuple(backlogs), spell=tuple(spell))

    def ended(self) -> Followed:
        """Return them after the end of a spell."""
        worst = [_LEFT * each for each in self.worst]
        return Followed(
            self.backlogs,
            worst=tuple(map(max, worst, self.spell)),
            others=tuple(_LEFT * each + min(*two) for each, *two in zip(self.others, worst, self.spell, strict=True)),
        )

    def emptied(self) -> Followed:
        """Return them without queues."""
        return replace(self, backlogs=_EMPTY)

    @property
    def late(self) -> tuple[float, ...]:
        """By head-room, seconds above the limit without the worst spell; no more than with less head-room."""
        again = map(add, self.others, map(min, self.spell, self.worst))
        return tuple(accumulate(again, min))


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
            at, known, foreseen, near, steady = stored
            expected = packing.from_packed_shorts(foreseen)
            found = cls(float(at), float(known), expected, Followed.read(*near), Followed.read(*steady))
        except (TypeError, ValueError, OverflowError, KeyError):
            return cls()
        is_sound = isfinite(float(at)) and 0.0 <= found.known <= MEMORY
        return found if is_sound and len(expected) <= DELAY else cls()

    def as_json(self) -> list[Any] | None:
        """Return it as JSON values."""
        if self.at is None:
            return None
        foreseen = packing.packed_shorts(self.foreseen)
        return [self.at, round(self.known), foreseen, self.near.as_json(), self.steady.as_json()]

    def after(
        self, at: float, demand: float, foreseen: float, mean: float, limit: float, short: float = 0.0
    ) -> Replayed:
        """Return it after a minute.

        Args:
            at: Its end, epoch seconds.
            demand: That came, slot equivalents.
            foreseen: That is expected of the minute that comes :data:`DELAY` minutes later.
            mean: Demand of the last day.
            limit: Lag above which a job is late, seconds.
            short: Capacity with which the job itself was late in it; 0 where it was not, or because of a restart.
        """
        elapsed = 0.0 if self.at is None else at - self.at
        later = (*self.foreseen, max(foreseen, LEAST_SHARE * mean))[-DELAY:]
        near, steady = self.near, self.steady
        if self.at is not None and at // SPELL != self.at // SPELL:
            near, steady = near.ended(), steady.ended()
        if not 0.0 < elapsed <= _LONGEST:
            return Replayed(at, self.known, later, near.emptied(), steady.emptied())
        known = min(self.known * exp(-elapsed / MEMORY) + elapsed, MEMORY)
        near = near.after(demand, later[0], elapsed, limit, MOST_LAG * limit, short)
        steady = steady.after(demand, mean or demand, elapsed, limit, short=short)
        return Replayed(at, known, later, near, steady)

    @property
    def shares(self) -> tuple[float, ...]:
        """Share of the time that each head-room over what was foreseen would have been late, the worst spell apart."""
        return tuple(each / (self.known + PRIOR) for each in self.near.late)

    @property
    def is_sudden(self) -> bool:
        """Whether the load has lately grown faster than it can be followed, be it once."""
        near, place = self.near, SUDDEN
        return near.spell[place] + near.worst[place] + near.others[place] > LEAST_SUDDEN

    def capacity_kept(self, mean: float, allowed: float) -> float:
        """Return the least capacity that would have been late for no more than a share of the time if it had stayed.

        Between the head-rooms that were followed, what was late is taken to be on a line.

        Args:
            mean: Demand of the last day.
            allowed: Share of the time, the worst spell apart.
        """
        most, late = allowed * (self.known + PRIOR), self.steady.late
        place = next((place for place, each in enumerate(late) if each <= most), len(late) - 1)
        before = max(place - 1, 0)
        fall, low, high = late[before] - late[place], HEADROOMS[before], HEADROOMS[place]
        part = min((late[before] - most) / fall, 1.0) if fall > 0.0 else 1.0
        return (1.0 + low + part * (high - low)) * mean


NOTHING_REPLAYED: Final = Replayed()


def share_at(shares: Sequence[float], headroom: float) -> float:
    """Return the share of time that a head-room would have been late, between those that were followed."""
    if headroom >= HEADROOMS[-1]:
        return shares[-1]
    place = max(bisect_right(HEADROOMS, headroom) - 1, 0)
    low, high = HEADROOMS[place], HEADROOMS[place + 1]
    part = min(max((headroom - low) / (high - low), 0.0), 1.0)
    return shares[place] + part * (shares[place + 1] - shares[place])
