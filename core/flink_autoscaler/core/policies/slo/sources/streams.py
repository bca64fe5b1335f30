"""What has arrived at each of several sources: the last hour by minutes, and for days its share of the demand.

The history of a job is of its demand as a whole. Beside it, the share of every source by the half hour tells what each
of them was like, for a tenth of the room that a history of its own would take.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Final

from flink_autoscaler.core.model.metrics import VertexId
from flink_autoscaler.core.model.quick import replace
from flink_autoscaler.core.policies.slo import packing
from flink_autoscaler.core.policies.slo.history import DAY, HOLE, KEPT, LONG_AGO, jumped, later

SEPARATE: Final = 4
"""Sources of which each is looked at by itself; the others are taken together."""
MINUTES: Final = 60
"""Values of a minute that are kept of each."""
PER_SHARE: Final = 6
"""Buckets of which one share tells: half an hour."""
SHARES: Final = KEPT // PER_SHARE
LEAST_SHARE: Final = 0.002
"""Below it a share counts as this much."""

_STEPS: Final = len(packing.ALPHABET) - 1
_STEP: Final = -math.log(LEAST_SHARE) / _STEPS
_PLACES: Final = {sign: place for place, sign in enumerate(packing.ALPHABET)}
_SHARE_OF: Final = {sign: math.exp(_STEP * (place - _STEPS)) for sign, place in _PLACES.items()}
_LATELY: Final = 30
"""Minutes over which a share is taken."""


def packed_share(share: float) -> str:
    """Pack a share to a twentieth of it, as one character."""
    return packing.ALPHABET[_STEPS + round(math.log(min(max(share, LEAST_SHARE), 1.0)) / _STEP)]


def shares_of(text: str) -> list[float]:
    """Unpack shares."""
    return list(map(_SHARE_OF.__getitem__, text))


@dataclass(frozen=True, slots=True)
class Stream:
    """What has arrived at one source, or at several that are taken together.

    Attributes:
        sources: Ascending.
        minutes: Records/s of the last minutes, oldest first.
        packed: The same, packed.
        since: Minutes since it jumped, or since a hole; None where there was neither lately.
        shares: Its share of the demand by half hours, packed, oldest first.
    """

    sources: tuple[VertexId, ...]
    minutes: tuple[float, ...] = ()
    packed: str = ""
    since: float | None = None
    shares: str = ""

    def after(self, rate: float, minutes: int) -> Stream:
        """Return the stream with minutes of one rate."""
        if minutes > HOLE:
            return replace(self, minutes=(rate,), packed=packing.long(rate), since=1.0)
        values = (*self.minutes, *(rate,) * minutes)[-MINUTES:]
        packed = (self.packed + packing.long(rate) * minutes)[-MINUTES * packing.LONG :]
        since = later(self.since, minutes, LONG_AGO)
        jump = jumped(values, since)
        return replace(self, minutes=values, packed=packed, since=since if jump is None else jump)

    def lately(self, count: int) -> float:
        """Return the mean of the last minutes."""
        return fmean(self.minutes[-count:]) if self.minutes else 0.0

    def with_shares(self, shares: str) -> Stream:
        """Return the stream with more shares."""
        return replace(self, shares=(self.shares + shares)[-SHARES:])


@dataclass(frozen=True, slots=True)
class Streams:
    """All that arrives at a job of several sources.

    Attributes:
        each: Of one source or several; none of a job of one source.
        due: Buckets since the last shares.
    """

    each: tuple[Stream, ...] = ()
    due: int = 0

    @property
    def is_known(self) -> bool:
        """Whether something has arrived in all of them."""
        return bool(self.each) and all(one.minutes for one in self.each)

    @property
    def is_due(self) -> bool:
        """Whether there is a half hour of which the shares are to be told."""
        return self.due >= PER_SHARE

    @classmethod
    def of(cls, needed: Mapping[VertexId, float]) -> Streams:
        """Begin with the sources of a job.

        Args:
            needed: Of each what it adds to demand now; those that add most are looked at by themselves.
        """
        if len(needed) < 2:  # noqa: PLR2004 - nothing to tell apart
            return cls()
        greatest = sorted(needed, key=lambda key: (-needed[key], key))
        alone = [Stream((key,)) for key in sorted(greatest[:SEPARATE])]
        rest = tuple(sorted(greatest[SEPARATE:]))
        return cls((*alone, *([Stream(rest)] if rest else [])))

    def after(self, rates: Mapping[VertexId, float], minutes: int, completed: int) -> Streams:
        """Return the streams with minutes in which so much arrived, records/s, and which completed so many buckets."""
        each = tuple(one.after(sum(rates.get(key, 0.0) for key in one.sources), minutes) for one in self.each)
        return Streams(each, self.due + completed)

    def shared(self, alone: Sequence[float]) -> Streams:
        """Return the streams with the shares that are due.

        Args:
            alone: Demand of one record/s of each stream.
        """
        count, due = divmod(self.due, PER_SHARE)
        if not count:
            return self
        now = list(self.now(alone, _LATELY))
        each = (
            one.with_shares("".join(_missing(one.shares, count - 1)) + packed_share(share))
            for one, share in zip(self.each, now, strict=True)
        )
        return Streams(tuple(each), due)

    def now(self, alone: Sequence[float], minutes: int) -> Iterator[float]:
        """Give the share of each over the last minutes; equal ones where nothing arrived."""
        needs = [factor * one.lately(minutes) for factor, one in zip(alone, self.each, strict=True)]
        total = sum(needs)
        for need in needs:
            yield need / total if total > 0.0 else 1.0 / len(needs)

    def without_minutes(self) -> Streams:
        """Return the streams of a job that has changed: only what they were like is known."""
        return Streams(tuple(Stream(one.sources, shares=one.shares) for one in self.each), self.due)

    def trimmed(self, buckets: int) -> Streams:
        """Return the streams without shares of what is no longer in a history of so many buckets."""
        most = buckets // PER_SHARE + 1
        return Streams(tuple(replace(one, shares=one.shares[-most:]) for one in self.each), self.due)


NO_STREAMS: Final = Streams()


def _missing(shares: str, count: int) -> Iterable[str]:
    """Give the shares of half hours of which nothing is known: as they were a day before, or else the last one."""
    per_day = DAY // PER_SHARE
    for _ in range(min(count, SHARES)):
        share = shares[-per_day] if len(shares) >= per_day else shares[-1:]
        shares += share
        yield share
