"""The profile of one source as it is made at any quarter hour: by the nightly job now, and by its backtest before."""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from operator import truediv
from statistics import median
from typing import Final, NamedTuple

from flink_autoscaler.core.forecast.guard import Score
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
from flink_autoscaler.core.model.value import value
from flink_autoscaler.pipeline.profiles import ProfileSettings

_FEW: Final = 64
"""Quarter hours up to which moving a window costs less than putting a week in order."""


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


class Known(NamedTuple):
    """Some quarter hours of a series, such as those of Mondays at noon: their indices, ascending, and their rates."""

    at: list[int]
    rates: list[float]


class Week(NamedTuple):
    """Seven days: the quarter hours that are there, and the median of their rates."""

    size: int
    level: float


class Quantiles(NamedTuple):
    """Median and upper quantile of rate / level."""

    q50: float
    q90: float


@value
class Fit:
    """Fit of a load at an origin.

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

    def compared(self, known: Known) -> list[float]:
        """Return how rates before the origin compare with the level of their own week, of the weeks that count.

        The median of a week is its level halfway, so that it is too much to compare Monday with, and too little for
        Sunday, when the load grows.
        """
        found: list[float] = []
        for week, level in self.levels.items():
            end = self.origin - week * BUCKETS_PER_WEEK
            until = bisect_left(known.at, end)
            since = bisect_left(known.at, end - BUCKETS_PER_WEEK, 0, until)
            if self.growth == 1.0:
                found += [rate / level for rate in known.rates[since:until]]
            else:
                ahead = ((index - self.origin) / BUCKETS_PER_WEEK + week for index in known.at[since:until])
                bases = (base_rate(level, self.growth, each) for each in ahead)
                found += map(truediv, known.rates[since:until], bases)
        return found


class History:
    """A series that can be asked what was known at any quarter hour. Not for several threads.

    Attributes:
        series: The series.
        by_slot: It by quarter hour of the week.
        by_time: It by quarter hour of the day.
        place: Its places by index.
        scores: What forecasts came to that were made with these settings, by the origin that they were made at.
    """

    def __init__(self, series: Series, settings: ProfileSettings) -> None:
        self.series = series
        self._settings = settings
        self.scores: dict[int, tuple[Score, ...]] = {}
        self._weeks: dict[int, Week] = {}
        self._window = _SlidingWindow(series)
        self.place = {index: place for place, index in enumerate(series.index)}
        self.by_slot = _gathered(series, series.slot)
        self.by_time = _gathered(series, [slot % BUCKETS_PER_DAY for slot in series.slot])

    @property
    def quantile(self) -> float:
        """The upper quantile."""
        return self._settings.quantile

    def weeks(self, origin: int) -> list[Week]:
        """Return the weeks before an origin, the newest first."""
        ends = (origin - age * BUCKETS_PER_WEEK for age in range(self._settings.weeks))
        return [self._weeks.get(end) or self._measure(end) for end in ends]

    def measure(self, origins: range) -> None:
        """Look at the weeks before several origins, which is quicker than one origin after the other.

        Args:
            origins: Ascending.
        """
        for age in range(self._settings.weeks - 1, -1, -1):
            for origin in origins:
                end = origin - age * BUCKETS_PER_WEEK
                if end not in self._weeks:
                    self._measure(end)

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
        return Shape(self, fit).at(slot)

    def _measure(self, end: int) -> Week:
        week = self._weeks[end] = self._window.before(end)
        return week


def _gathered(series: Series, keys: Sequence[int]) -> dict[int, Known]:
    """Return the quarter hours of a series by a key of each."""
    found: dict[int, Known] = {}
    for key, index, rate in zip(keys, series.index, series.rate, strict=True):
        known = found.get(key) or found.setdefault(key, Known([], []))
        known.at.append(index)
        known.rates.append(rate)
    return found


_NOTHING: Final = Known([], [])


class _SlidingWindow:
    """The seven days before an instant, which is moved in small steps: what stays in them stays in order."""

    def __init__(self, series: Series) -> None:
        self._index, self._rate = series.index, series.rate
        self._since = self._until = 0
        self._ordered: list[float] = []

    def before(self, end: int) -> Week:
        """Look at the seven days before a quarter hour."""
        since, until = (bisect_left(self._index, at) for at in (end - BUCKETS_PER_WEEK, end))
        self._move(since, until)
        return Week(len(self._ordered), median(self._ordered) if self._ordered else 0.0)

    def _move(self, since: int, until: int) -> None:
        is_step = self._since <= since <= self._until <= until
        if is_step and (since - self._since) + (until - self._until) < _FEW:
            for rate in self._rate[self._since : since]:
                del self._ordered[bisect_left(self._ordered, rate)]
            for rate in self._rate[self._until : until]:
                insort(self._ordered, rate)
        else:
            self._ordered = sorted(self._rate[since:until])
        self._since, self._until = since, until


class Shape:
    """The week as it was known at an origin, quarter hour by quarter hour; what several of them need is kept.

    Args:
        history: Of the source.
        fit: What was known at the origin.
    """

    def __init__(self, history: History, fit: Fit) -> None:
        self._history, self._fit = history, fit
        self._of_slot: dict[int, list[float]] = {}
        self._of_time: dict[int, list[float]] = {}
        self._daily: dict[int, Quantiles | None] = {}

    def at(self, slot: int) -> Quantiles | None:
        """Return the profile at a quarter hour of the week; None when nothing was known about it."""
        weekly = daily = None
        if self._fit.weeks >= LEAST_WEEKS:
            before, after = (slot - 1) % BUCKETS_PER_WEEK, (slot + 1) % BUCKETS_PER_WEEK
            weekly = self._quantiles([*self._ratios(before), *self._ratios(slot), *self._ratios(after)])
        if weekly is None or self._fit.weeks < FULL_WEEKS:
            daily = self._of_day(slot % BUCKETS_PER_DAY)
        return shrunk(weekly, daily, self._fit.weeks)

    def whole(self) -> list[Quantiles | None]:
        """Return the profile of all quarter hours of the week."""
        return [self.at(slot) for slot in range(BUCKETS_PER_WEEK)]

    def _of_day(self, time: int) -> Quantiles | None:
        """Return the profile at a quarter hour of any day."""
        if time not in self._daily:
            before, after = (time - 1) % BUCKETS_PER_DAY, (time + 1) % BUCKETS_PER_DAY
            near = [*self._all_days(before), *self._all_days(time), *self._all_days(after)]
            self._daily[time] = self._quantiles(near)
        return self._daily[time]

    def _all_days(self, time: int) -> list[float]:
        """Return the ratios of a quarter hour of all days, in order."""
        found = self._of_time.get(time)
        if found is None:
            known = self._history.by_time.get(time, _NOTHING)
            found = self._of_time[time] = sorted(self._fit.compared(known))
        return found

    def _ratios(self, slot: int) -> list[float]:
        """Return how the rates of a quarter hour of the week compare with the level, of those that were known."""
        found = self._of_slot.get(slot)
        if found is None:
            known = self._history.by_slot.get(slot, _NOTHING)
            found = self._of_slot[slot] = self._fit.compared(known)
        return found

    def _quantiles(self, ratios: list[float]) -> Quantiles | None:
        if not ratios:
            return None
        ordered = sorted(ratios)
        return Quantiles(upper_quantile(ordered, 0.5), upper_quantile(ordered, self._history.quantile))


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
