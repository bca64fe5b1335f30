"""Whether a figure grows, from one value per round."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Final

CONFIDENCE: Final = 0.99
"""Of the interval around a slope. Some forty figures are judged in a run: with 0.95, chance would blame one of them in
most runs."""

LEAST_ROUNDS: Final = 8
"""Below it no interval of that confidence is narrower than all slopes that there are."""


@dataclass(frozen=True)
class Slope:
    """Growth per round, with its interval of confidence."""

    middle: float
    low: float
    high: float


@dataclass(frozen=True)
class Tolerance:
    """Growth over all judged rounds that is none: a share of the level, and at least so much."""

    share: float
    least: float

    def of(self, level: float) -> float:
        """Return how much a figure of this level may grow."""
        return max(self.share * abs(level), self.least)


@dataclass(frozen=True)
class Growth:
    """What became of one figure.

    Attributes:
        first: Value of the first judged round.
        last: Value of the last one.
        slope: Per round.
        grows: Whether it certainly grew by more than is tolerated.
    """

    first: float
    last: float
    slope: Slope
    grows: bool


def slope(values: Sequence[float]) -> Slope:
    """Return the slope of values, one per round.

    The middle is the median of the slopes between all pairs of rounds (Theil 1950, Sen 1968): a third of the rounds may
    be anything without an effect on it. The interval is between those ranks of these slopes that Kendall's statistic
    gives, of which the normal approximation is good enough from eight values on. Nothing is assumed about how values
    scatter, but that rounds do not depend on each other: that is why there is one value per round, not per measurement.

    Raises:
        ValueError: There are fewer than eight values.
    """
    count = len(values)
    if count < LEAST_ROUNDS:
        raise ValueError(f"{count} rounds are too few to tell anything; at least {LEAST_ROUNDS}")
    pairs = combinations(enumerate(values), 2)
    slopes = sorted((later - earlier) / (end - begin) for (begin, earlier), (end, later) in pairs)
    deviation = math.sqrt(count * (count - 1) * (2 * count + 5) / 18)
    reach = statistics.NormalDist().inv_cdf((1 + CONFIDENCE) / 2) * deviation
    outside = max(0, math.floor((len(slopes) - reach) / 2) - 1)
    return Slope(statistics.median(slopes), slopes[outside], slopes[-1 - outside])


def judged(values: Sequence[float], tolerance: Tolerance) -> Growth:
    """Tell whether a figure grows.

    It does where even the lower end of the interval, over all rounds, comes to more than is tolerated. What goes up and
    down, has made one step, or has come to its bound does not.
    """
    found = slope(values)
    grown = found.low * (len(values) - 1)
    return Growth(values[0], values[-1], found, grows=grown > tolerance.of(statistics.median(values)))
