"""What becomes of jumps: how much of one is left some minutes later, learned from those before.

A load whose spikes are over before a larger size is there is not to be answered with one; one whose bursts last half an
hour is. Both look alike in their first minute, and what came of the last ones tells them apart.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, log
from statistics import fmean, median
from typing import Any, Final

from flink_autoscaler.core.model.quick import replace
from flink_autoscaler.core.policies.slo import packing
from flink_autoscaler.core.policies.slo.history import BEFORE, GREATEST, LEAST_JUMP
from flink_autoscaler.core.policies.slo.model import LEAST_DEMAND

AGES: Final = (2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 45, 60)
"""Minutes after a jump at which what is left of it is learned."""
MOST_BELIEVED: Final = 0.98
"""Weight of an expert that has heard many echoes which were all alike."""

_MOST_COUNTED: Final = 30.0
"""Jumps after which the newer ones count for more. With a third of them what is left of the belief in other courses is
enough to answer a spike of every hour, which is over before the answer is there."""
_DOUBT: Final = 1.0
"""Jumps that have to be heard for half of the belief."""
_MOST_LEFT: Final = 2.0
"""Times itself that a jump may have become; none is less than its own opposite."""
_GREATEST_LOG: Final = log(GREATEST / LEAST_DEMAND)
_ROUNDED: Final = 1.01
_TINY: Final = 1e-4
_WITHIN: Final = (-2.0, -1.0, 0.0, 1.0, 2.0)
"""Minutes from the middle of a bucket to those of its minutes."""
_OFF: Final = 1.0
"""Added to what is left of a jump, which may be less than nothing, where it is stored."""


@dataclass(frozen=True, slots=True)
class Echoes:
    """What was left of the jumps of a load, as a share of the logarithm of each: 1 where it stays, 0 where it was over.

    Attributes:
        age: Minutes since the last jump; None where it is too long ago.
        before: Demand before it, slot equivalents.
        log_ratio: Natural logarithm of the demand after it over that before.
        left: Mean share of a jump that was left, by :data:`AGES`.
        spread: Variance of it.
        counts: How many jumps that rests on.
    """

    age: float | None = None
    before: float = 1.0
    log_ratio: float = 0.0
    left: tuple[float, ...] = (1.0,) * len(AGES)
    spread: tuple[float, ...] = (0.0,) * len(AGES)
    counts: tuple[float, ...] = (0.0,) * len(AGES)

    def after(self, minutes: Sequence[float], added: int, jumped: float | None) -> Echoes:
        """Return it after some minutes.

        Args:
            minutes: Demand, oldest first.
            added: How many of them are new.
            jumped: How many of the last of them are after a jump; None where there was none.
        """
        found = self
        if found.age is not None:
            age = found.age + added
            for place, each in enumerate(AGES):
                if found.age < each <= age:
                    found = found._heard(place, minutes[-1 - int(age - each)])
            found = replace(found, age=age) if age <= AGES[-1] else found.silent()
        return found if jumped is None else found._begun(minutes, int(jumped))

    def silent(self) -> Echoes:
        """Return it as if the last jump were long ago."""
        return replace(self, age=None)

    def _begun(self, minutes: Sequence[float], since: int) -> Echoes:
        before, now = median(minutes[-since - BEFORE : -since] or minutes[:1]), fmean(minutes[-since:])
        if now <= before * (1.0 + LEAST_JUMP):
            return self
        return replace(self, age=float(since), before=before, log_ratio=log(now / before))

    def _heard(self, place: int, demand: float) -> Echoes:
        """Return it with what is left of the last jump at one of the ages."""
        share = min(max(log(demand / self.before) / self.log_ratio, -_OFF), _MOST_LEFT)
        count = min(self.counts[place] + 1.0, _MOST_COUNTED)
        away = share - self.left[place]
        left = self.left[place] + away / count
        spread = self.spread[place] + (away * (share - left) - self.spread[place]) / count
        return replace(
            self,
            left=_with(self.left, place, left),
            spread=_with(self.spread, place, max(spread, 0.0)),
            counts=_with(self.counts, place, count),
        )

    def factors(self, middles: Sequence[float]) -> tuple[float, ...] | None:
        """Return by how much demand will have changed some minutes from now; None without a jump or an echo."""
        if self.age is None or self.belief <= 0.0:
            return None
        now, age = self._left_at(self.age), self.age
        return tuple(
            fmean(exp(self.log_ratio * (self._left_at(age + each + away) - now)) for away in _WITHIN)
            for each in middles
        )

    def _left_at(self, age: float) -> float:
        if age <= AGES[0]:
            return 1.0
        if age >= AGES[-1]:
            return self.left[-1]
        place = bisect_left(AGES, age)
        low, high = AGES[place - 1], AGES[place]
        return self.left[place - 1] + (age - low) / (high - low) * (self.left[place] - self.left[place - 1])

    @property
    def belief(self) -> float:
        """Weight of what is expected after a jump: the more, the more were heard, went back and came to the same.

        Of a load that goes on to rise after a jump other experts know more.
        """
        if self.age is None:
            return 0.0
        later = range(min(bisect_left(AGES, self.age + 3.0), len(AGES) - 1), len(AGES))
        return max(map(self._believed, later))

    def _believed(self, place: int) -> float:
        count, off, gone = self.counts[place], self.spread[place], max(1.0 - self.left[place], 0.0)
        share = gone**2 / (off + gone**2 + _TINY)  # of the error of whoever expects that a jump stays
        return MOST_BELIEVED * count / (count + _DOUBT) * share

    def as_json(self) -> list[Any]:
        """Return it as JSON values, for :meth:`read`."""
        numbers = [self.age, float(f"{self.before:.4g}"), round(self.log_ratio, 3)]
        left, spread = map(packing.packed_shorts, (tuple([each + _OFF for each in self.left]), self.spread))
        return [*numbers, left, spread, "".join(packing.ALPHABET[round(each)] for each in self.counts)]

    @classmethod
    def read(cls, stored: Any) -> Echoes:
        """Read what :meth:`as_json` wrote; as before the first jump where it cannot be read."""
        try:
            age, before, log_ratio, left, spread, counts = stored
            found = cls(
                None if age is None else float(age),
                float(before),
                float(log_ratio),
                tuple(each - _OFF for each in packing.from_packed_shorts(left)),
                packing.from_packed_shorts(spread),
                tuple(float(packing.ALPHABET.index(each)) for each in counts),
            )
        except (TypeError, ValueError, OverflowError):
            return cls()
        return found if found._is_sound() else cls()

    def _is_sound(self) -> bool:
        if not len(self.left) == len(self.spread) == len(self.counts) == len(AGES):
            return False
        is_jump = LEAST_DEMAND <= self.before <= GREATEST and 0.0 <= self.log_ratio <= _GREATEST_LOG
        is_recent = self.age is None or (1.0 <= self.age <= AGES[-1] and self.log_ratio > 0.0)
        is_heard = max(self.left) <= _ROUNDED * _MOST_LEFT and max(self.counts) <= _ROUNDED * _MOST_COUNTED
        return is_jump and is_recent and is_heard


def _with(values: tuple[float, ...], place: int, value: float) -> tuple[float, ...]:
    return (*values[:place], value, *values[place + 1 :])


NO_ECHOES: Final = Echoes()
