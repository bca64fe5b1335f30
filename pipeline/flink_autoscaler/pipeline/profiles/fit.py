"""The profile of one source as it would have been made at any quarter hour, for the backtest.

It is the arithmetic of the nightly job, done for a few quarter hours of the week instead of all of them.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import median
from typing import NamedTuple

from flink_autoscaler.core.model.load_profile import (
    BUCKETS_PER_DAY,
    BUCKETS_PER_WEEK,
    FULL_WEEKS,
    LEAST_OF_DAYS,
    LEAST_OF_WEEK,
    LEAST_WEEKS,
    base_rate,
    upper_quantile,
)
from flink_autoscaler.pipeline.profiles import ProfileSettings


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


@dataclass(frozen=True, slots=True)
class Series:
    """The quarter hours of one source that are to be learned from.

    Attributes:
        index: Epoch seconds / 900, ascending.
        slot: Quarter hour of the local week.
        rate: Records/s.
    """

    index: Sequence[int]
    slot: Sequence[int]
    rate: Sequence[float]


class Week(NamedTuple):
    """Seven days: the quarter hours that are there, and the median of their rates."""

    size: int
    level: float


class Quantiles(NamedTuple):
    """Median and upper quantile of rate / level."""

    q50: float
    q90: float


@dataclass(frozen=True, slots=True)
class Fit:
    """What is known at an origin.

    Attributes:
        origin: Index of the first quarter hour that is not known.
        levels: By age in weeks, of the weeks that count.
        weeks: Usable weeks.
        growth: Factor per week.
    """

    origin: int
    levels: Mapping[int, float]
    weeks: int
    growth: float

    @property
    def level(self) -> float:
        """The level half a week before the origin; where that week is not usable, what an older one has grown to."""
        week = min(self.levels)
        return float(self.levels[week] * self.growth**week)

    def base(self, index: int) -> float:
        """Return the level at a quarter hour."""
        return base_rate(self.level, self.growth, (index - self.origin) / BUCKETS_PER_WEEK)

    def known_base(self, index: int) -> float | None:
        """Return the level at a quarter hour before the origin, from its own week; None where that does not count.

        The median of a week is its level halfway, so that it is too much to compare Monday with, and too little for
        Sunday, when the load grows.
        """
        week = (self.origin - 1 - index) // BUCKETS_PER_WEEK
        level = self.levels.get(week)
        return None if level is None else base_rate(level, self.growth, (index - self.origin) / BUCKETS_PER_WEEK + week)


class History:
    """A series that can be asked what was known at any quarter hour. Not for several threads."""

    def __init__(self, series: Series, settings: ProfileSettings) -> None:
        self._series = series
        self._settings = settings
        self._weeks: dict[int, Week] = {}
        self._of_slot: dict[int, list[int]] = defaultdict(list)
        self._of_time: dict[int, list[int]] = defaultdict(list)
        self.place = {index: place for place, index in enumerate(series.index)}
        for place, slot in enumerate(series.slot):
            self._of_slot[slot].append(place)
            self._of_time[slot % BUCKETS_PER_DAY].append(place)

    def weeks(self, origin: int) -> list[Week]:
        """Return the weeks before an origin, the newest first."""
        ends = (origin - age * BUCKETS_PER_WEEK for age in range(self._settings.weeks))
        return [self._weeks.get(end) or self._measure(end) for end in ends]

    def fit(self, origin: int) -> Fit | None:
        """Return what was known at an origin; None when it was too little."""
        weeks = dict(enumerate(self.weeks(origin)))
        usable = sum(_counts(week, LEAST_OF_WEEK) for week in weeks.values())
        least = LEAST_OF_WEEK if usable >= LEAST_WEEKS else LEAST_OF_DAYS
        levels = {age: week.level for age, week in weeks.items() if _counts(week, least)}
        if not levels:
            return None
        growth = weekly_growth(levels, self._settings.growth_bounds) if usable >= FULL_WEEKS else 1.0
        return Fit(origin, levels, usable, growth)

    def quantiles(self, fit: Fit, slot: int) -> Quantiles | None:
        """Return the profile at a quarter hour of the week; None when nothing was known about it."""
        weekly = daily = None
        if fit.weeks >= LEAST_WEEKS:
            weekly = self._quantiles(fit, self._of_slot, ((slot + step) % BUCKETS_PER_WEEK for step in (-1, 0, 1)))
        if weekly is None or fit.weeks < FULL_WEEKS:
            time = slot % BUCKETS_PER_DAY
            daily = self._quantiles(fit, self._of_time, ((time + step) % BUCKETS_PER_DAY for step in (-1, 0, 1)))
        return shrunk(weekly, daily, fit.weeks)

    def _measure(self, end: int) -> Week:
        index = self._series.index
        rates = self._series.rate[bisect_left(index, end - BUCKETS_PER_WEEK) : bisect_left(index, end)]
        week = self._weeks[end] = Week(len(rates), median(rates) if rates else 0.0)
        return week

    def _quantiles(self, fit: Fit, places: Mapping[int, Sequence[int]], slots: Iterable[int]) -> Quantiles | None:
        ratios = sorted(ratio for slot in slots for ratio in self._ratios(fit, places.get(slot, ())))
        if not ratios:
            return None
        return Quantiles(upper_quantile(ratios, 0.5), upper_quantile(ratios, self._settings.quantile))

    def _ratios(self, fit: Fit, places: Sequence[int]) -> Iterator[float]:
        index, rate = self._series.index, self._series.rate
        known = bisect_right(places, fit.origin - 1, key=index.__getitem__)
        for place in places[:known]:
            base = fit.known_base(index[place])
            if base is not None:
                yield rate[place] / base


def shrunk(weekly: Quantiles | None, daily: Quantiles | None, weeks: int) -> Quantiles | None:
    """Blend the profile of the week with that of the day: the fewer weeks, the more of the day.

    The upper quantile of few weeks is too low, so the greater of both counts until there are four.
    """
    if weekly is None or daily is None:
        return weekly or daily
    share = min(1.0, weeks / FULL_WEEKS)
    q50 = share * weekly.q50 + (1.0 - share) * daily.q50
    return Quantiles(q50, weekly.q90 if weeks >= FULL_WEEKS else max(weekly.q90, daily.q90))


def _counts(week: Week, least: int) -> bool:
    return week.size >= least and week.level > 0.0
