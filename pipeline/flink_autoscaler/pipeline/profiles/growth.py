"""How much the level of a load grows from week to week."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import combinations
from statistics import median

from flink_autoscaler.core.model.load_profile import FULL_WEEKS


def theil_sen(points: Sequence[tuple[float, float]]) -> float:
    """Return the median slope over all pairs of points; one wild point in four does not move it far.

    Args:
        points: Two or more ``(x, y)`` whose x differ.

    Source: H. Theil, "A rank-invariant method of linear and polynomial regression analysis" (1950); P. K. Sen,
    "Estimates of the regression coefficient based on Kendall's tau" (1968).
    """
    return median((right[1] - left[1]) / (right[0] - left[0]) for left, right in combinations(points, 2))


def weekly_growth(levels: Mapping[int, float], bounds: tuple[float, float]) -> float:
    """Return the factor per week, within bounds; 1 with fewer than four weeks.

    Args:
        levels: Level by age in weeks, above 0.
        bounds: The least and the greatest factor.
    """
    if len(levels) < FULL_WEEKS:
        return 1.0
    slope = theil_sen([(-week, math.log(level)) for week, level in levels.items()])
    return min(max(math.exp(slope), bounds[0]), bounds[1])
