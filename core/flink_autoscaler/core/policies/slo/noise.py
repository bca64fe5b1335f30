"""How noisy the load is, from second differences, which are blind to its level and its trend.

Noise that lasts (an AR(1) process) grows with the distance of the differences in one way, curvature of the load in
another; both are fitted.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from operator import mul
from typing import Final

from flink_autoscaler.core.model.quick import quick
from flink_autoscaler.core.policies.slo.model import Noise

DISTANCES: Final = (1, 2, 4, 8, 12)
"""Minutes between the values of a difference."""
PERSISTENCE: Final = (0.0, 0.5, 0.7, 0.8, 0.85, 0.9, 0.93, 0.96)
"""Per minute, of the noise; those that are tried."""
FADING: Final = 0.5 ** (1.0 / 360.0)
"""What a minute leaves of the weight of an observation."""
PRIOR: Final = 10.0
"""Observations that the noise of a load is worth before it is known."""
PRIOR_DEVIATION: Final = 0.04
PRIOR_PERSISTENCE: Final = 0.85
TOLERANCE: Final = 0.01
"""How much worse a fit may be than the best to be preferred for less noise."""
MARGIN: Final = 1.5
"""Of ``v``, whose estimate is low."""
LEAST_VARIANCE: Final = 1e-4
GREATEST_DEVIATION: Final = 0.4
GREATEST_DIFFERENCE: Final = 1.0
LEAST_SHARE: Final = 0.25
"""Of the day's mean: differences are relative to no less."""
GREATEST_ERROR: Final = 0.12
"""At which an error of the forecast of 15 minutes is cut."""
FORECAST_SHARE: Final = 0.5
NOISE_SHARE: Final = 0.6
GREATEST_FORECAST_DEVIATION: Final = 0.08


def growth(persistence: float, distance: int) -> float:
    """Return the variance of a second difference of AR(1) noise in variances of that noise."""
    return 6.0 - 8.0 * persistence**distance + 2.0 * persistence ** (2 * distance)


def accumulated(variance: float, persistence: float) -> float:
    """Return ``v`` of AR(1) noise: half the growth per second of the variance of accumulated arrivals, and a margin.

    Args:
        variance: Of the noise, relative to the load.
        persistence: Per minute.
    """
    return MARGIN * 60.0 * variance * (0.5 + persistence / (1.0 - persistence))


_SHAPES: Final = tuple(tuple(growth(each, distance) for distance in DISTANCES) for each in PERSISTENCE)
_CURVES: Final = tuple(float(distance**4) for distance in DISTANCES)
_PACES: Final = tuple(accumulated(1.0, each) for each in PERSISTENCE)
"""``v`` of unit variance, by persistence."""


def prior(distance: int) -> float:
    """Return the mean square of differences before anything was observed."""
    return PRIOR_DEVIATION**2 * growth(PRIOR_PERSISTENCE, distance)


@quick
@dataclass(frozen=True, slots=True)
class Differences:
    """Squares of second differences, newer ones counting for more.

    Attributes:
        sums: By distance.
        counts: Observations that went into them.
    """

    sums: tuple[float, ...] = tuple(PRIOR * prior(each) for each in DISTANCES)
    counts: tuple[float, ...] = (PRIOR,) * len(DISTANCES)

    def after(self, minutes: Sequence[float], *, known: int, least: int, day_mean: float) -> Differences:
        """Return the differences with those that end now.

        Args:
            minutes: Demand of the last minutes, oldest first.
            known: How many of the last of them are behind no jump.
            least: Least distance that counts: minutes that the last value stands for.
            day_mean: Mean demand of a day.
        """
        sums, counts = list(self.sums), list(self.counts)
        for place, distance in enumerate(DISTANCES):
            if least <= distance and 2 * distance < min(known, len(minutes)):
                square = _square(minutes[-1], minutes[-1 - distance], minutes[-1 - 2 * distance], day_mean)
                sums[place] = sums[place] * FADING + square
                counts[place] = counts[place] * FADING + 1.0
        return Differences(tuple(sums), tuple(counts))

    def means(self) -> tuple[float, ...]:
        """Return the mean square by distance."""
        return tuple(total / count for total, count in zip(self.sums, self.counts, strict=True))


def _square(now: float, middle: float, before: float, day_mean: float) -> float:
    base = max((now + middle + before) / 3.0, LEAST_SHARE * day_mean)
    if base <= 0.0:
        return 0.0
    return min(abs(now - 2.0 * middle + before) / base, GREATEST_DIFFERENCE) ** 2


@quick
@dataclass(frozen=True, slots=True)
class Fit:
    """Noise and curvature that explain the differences.

    Attributes:
        variance: Of the noise, relative to the load.
        v: See :class:`Noise`.
        error: What stays unexplained.
    """

    variance: float
    v: float
    error: float


def fitted(means: Sequence[float]) -> Fit:
    """Fit noise and curvature to the mean squares; of fits that are as good the one with the least ``v``."""
    scales = [1.0 / max(each, 1e-12) for each in means]
    curves = list(map(mul, _CURVES, scales))
    sums = sum(curves), sum(map(mul, curves, curves))
    fits = [_fit(shape, pace, curves, sums, scales) for shape, pace in zip(_SHAPES, _PACES, strict=True)]
    limit = min(each.error for each in fits) + TOLERANCE
    return min((each for each in fits if each.error <= limit), key=lambda each: each.v)


def _fit(
    shape: Sequence[float], pace: float, curves: Sequence[float], sums: tuple[float, float], scales: Sequence[float]
) -> Fit:
    noises = list(map(mul, shape, scales))
    variance, curvature = _least_squares(noises, curves, sums)
    error = sum([(1.0 - variance * x - curvature * y) ** 2 for x, y in zip(noises, curves, strict=True)])
    return Fit(variance, pace * variance, error)


def _least_squares(first: Sequence[float], second: Sequence[float], sums: tuple[float, float]) -> tuple[float, float]:
    """Return the factors, not negative, with which two series come nearest to 1.

    Args:
        first: One of them.
        second: The other one.
        sums: Of its values, and of their squares.
    """
    one, (two, other) = sum(first), sums
    square, both = sum(map(mul, first, first)), sum(map(mul, first, second))
    determinant = square * other - both * both
    if determinant <= 0.0:
        return one / square, 0.0
    left, right = (one * other - two * both) / determinant, (two * square - one * both) / determinant
    if right < 0.0:
        return one / square, 0.0
    return (left, right) if left >= 0.0 else (0.0, two / other)


def noise(differences: Differences, forecast_error: float) -> Noise:
    """Return how far demand strays from its forecast.

    Args:
        differences: What was observed.
        forecast_error: Mean square of the errors of the forecast of 15 minutes, each cut (see :data:`GREATEST_ERROR`).
    """
    fit = fitted(differences.means())
    s = min(math.sqrt(max(fit.variance, LEAST_VARIANCE)), GREATEST_DEVIATION)
    rest = FORECAST_SHARE * forecast_error - NOISE_SHARE * s * s
    return Noise(s, fit.v, math.sqrt(min(max(rest, 0.0), GREATEST_FORECAST_DEVIATION**2)))
