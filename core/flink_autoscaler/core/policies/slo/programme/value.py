"""The cheapest size now: what every size would cost over the next eight hours, under each forecast, one step ahead.

For each course of demand a dynamic programme goes backwards from the horizon: stay, or change to what is cheapest. What
is held at its end is held for as long again: a rescale has more time to pay than what can be foreseen. The first step
knows the backlog: it follows it as a fluid, for a change now and for one in five minutes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache

from flink_autoscaler.core.policies.slo.lateness import Change, LagTerms, Spread, fluid
from flink_autoscaler.core.policies.slo.model import BUCKET, HORIZON, Forecasts, Level, Levels
from flink_autoscaler.core.policies.slo.price import Prices
from flink_autoscaler.core.policies.slo.programme.choices import COMMIT, Choices, Course, courses
from flink_autoscaler.core.policies.slo.programme.grid import CostGrid, grid_step
from flink_autoscaler.core.policies.slo.programme.moves import Row


@dataclass(frozen=True, slots=True)
class Outlook:
    """What the best size depends on.

    Attributes:
        levels: Sizes among which to choose.
        present: The size that the job has.
        forecasts: Demand that may come.
        spread: Noise, of demand and of what is known.
        terms: What is late, and what a rescale does.
        prices: What that costs.
        backlog: What waits, slot-seconds.
    """

    levels: Levels
    present: Level
    forecasts: Forecasts
    spread: Spread
    terms: LagTerms
    prices: Prices
    backlog: float = 0.0


@dataclass(frozen=True, slots=True)
class Cost:
    """What one size would cost over the horizon, in slot-seconds; their sum is what is compared.

    Attributes:
        slots: The size.
        held: Its slots, for the first five minutes.
        late: Lateness of the backlog, of the rescale and of noise in the first five minutes.
        rescale: Price of going there, and its outage.
        future: What comes after the first five minutes, with all rescales then.
        lag: Lag in half an hour, seconds.
        late_seconds: Expected seconds above the limit, the price of which is in ``late``.
    """

    slots: int
    held: float
    late: float
    rescale: float
    future: float
    lag: float
    late_seconds: float

    @property
    def total(self) -> float:
        """All of it."""
        return self.held + self.late + self.rescale + self.future


@dataclass(frozen=True, slots=True)
class Valuation:
    """What the programmes come to.

    Attributes:
        best: Slots of the size that is cheapest to have from now on.
        stay: What it costs to keep the present size at least for five minutes and then to do what is best.
        costs: By slots, of the present size, the best one and those beside it, and of the rival.
        rival: Slots of the cheapest size that costs less now than the present one for good, but no less than to go in
            five minutes; None for none.
    """

    best: int
    stay: float
    costs: dict[int, Cost]
    rival: int | None = None


def valued(outlook: Outlook) -> Valuation:
    """Return the size that is cheapest to have from now on."""
    return _FirstStep(outlook).valuation()


def values(course: Course, grid: CostGrid) -> list[float]:
    """Return what each size costs from the next bucket to the horizon if demand goes like that; the largest first."""
    value = list(grid.lasting(course.grid[-1], HORIZON * BUCKET))
    for place in reversed(course.grid[COMMIT:]):
        value = grid.moves.either_way(*grid.quarter(place), value)
    value.reverse()
    for place in reversed(course.grid[1:COMMIT]):
        value = grid.moves.upwards(*grid.bucket(place), value)
    return value


class _FirstStep:
    """The costs of going to every size now, or in five minutes."""

    def __init__(self, outlook: Outlook) -> None:
        self._terms, self._prices, self._backlog = outlook.terms, outlook.prices, outlook.backlog
        self._choices = Choices.of(outlook.levels, outlook.present, outlook.forecasts)
        self._courses = courses(outlook.forecasts, grid_step(outlook.spread))
        self._grid = CostGrid(self._choices, self._courses, outlook.spread, outlook.terms, outlook.prices)
        sizes = len(self._choices.slots)
        self._futures = [values(course, self._grid)[::-1] for course in self._courses]
        self._shares = [self._grid.share(course.grid[0]) for course in self._courses]
        self._changes = [self._grid.moves.price(place) for place in range(sizes)]
        self._least_late = [self._least(course) for course in self._courses]
        self._fluid = cache(self._followed)

    def _least(self, course: Course) -> Row:
        """Return the price of the lateness that a rescale to each size brings at least."""
        excess, price = self._terms.excess, self._prices.late
        noise = map(min, self._grid.noise(course.grid[0]), self._grid.noise(course.grid[1]))
        return [price * (excess + each) for each in noise]

    def valuation(self) -> Valuation:
        """Compare them."""
        slots, present, stay = self._choices.slots, self._choices.present, self._staying()
        bounds = self._ascending(map(self._bound, range(len(slots))))
        other, rival = self._cheapest(bounds, stay), None
        best = present if other is None else other
        if other is None:
            rival = self._cheapest(bounds, self._cost(present).total)
        beside = (present, best, best - 1, best + 1, present if rival is None else rival)
        shown = {each for each in beside if 0 <= each < len(slots)}
        costs = {slots[each]: self._cost(each) for each in sorted(shown)}
        return Valuation(slots[best], stay, costs, None if rival is None else slots[rival])

    def _cheapest(self, bounds: Iterable[tuple[float, int]], least: float) -> int | None:
        """Return the place of the size that is cheapest to go to now; None where none costs less than something.

        Args:
            bounds: What each costs at least, ascending.
            least: What it has to cost less than.
        """
        best = None
        for bound, place in bounds:
            if bound >= least:
                break
            if place != self._choices.present and (cost := self._cost(place).total) < least:
                best, least = place, cost
        return best

    def _staying(self) -> float:
        """Return what it costs to stay for five minutes, and to do then what is best.

        A load that rises shows within minutes which forecast was right, so that the size to go up to may be another one
        for each course. One that may rise in hours does not: the smaller size to go down to is one for all of them.
        """
        stay = sum(course.weight * self._waiting(number) for number, course in enumerate(self._courses))
        first = self._mean(self._first)
        for bound, place in self._ascending(self._afterwards(place) for place in range(self._choices.present)):
            if first + bound >= stay:
                break
            stay = min(stay, first + self._later(place))
        return stay

    def _mean(self, of: Callable[[int], float]) -> float:
        """Return what is expected of something that depends on the course of demand."""
        return sum(course.weight * of(number) for number, course in enumerate(self._courses))

    def _first(self, number: int) -> float:
        """Return what the present size costs in the next five minutes without its backlog."""
        present = self._choices.present
        return BUCKET * (self._choices.slots[present] + self._prices.late * self._shares[number][present])

    def _later(self, place: int) -> float:
        """Return what it costs to go to a size in five minutes, without these."""
        price = self._prices.late
        return self._changes[place] + self._mean(
            lambda number: self._futures[number][place] + price * self._fluid(number, place, BUCKET)[0]
        )

    @staticmethod
    def _ascending(costs: Iterable[float]) -> list[tuple[float, int]]:
        return sorted((cost, place) for place, cost in enumerate(costs))

    def _bound(self, place: int) -> float:
        """Return what going to a size now costs at least."""
        return BUCKET * self._choices.slots[place] + self._afterwards(place)

    def _afterwards(self, place: int) -> float:
        """Return the same without the next five minutes."""
        weighted = (
            course.weight * (self._futures[n][place] + self._least_late[n][place])
            for n, course in enumerate(self._courses)
        )
        return sum(weighted) + self._changes[place]

    def _waiting(self, number: int) -> float:
        """Return what it costs to stay for five minutes, and then to stay or to go up, if demand takes one course."""
        future, present, price = self._futures[number], self._choices.present, self._prices.late
        first = self._first(number)
        least = first + future[present] + price * self._fluid(number, present, 0.0)[0]
        bounds = list(map(sum, zip(future, self._changes, self._least_late[number], strict=True)))
        for bound, place in self._ascending(bounds):
            if first + bound >= least:
                break
            if place > present:
                least = min(
                    least, first + self._changes[place] + future[place] + price * self._fluid(number, place, BUCKET)[0]
                )
        return least

    def _cost(self, place: int) -> Cost:
        """Return what it costs to go to a size now."""
        late = lag = share = future = 0.0
        for number, course in enumerate(self._courses):
            seconds, left = self._fluid(number, place, 0.0)
            late += course.weight * seconds
            lag += course.weight * left
            share += course.weight * self._shares[number][place]
            future += course.weight * self._futures[number][place]
        seconds = late + BUCKET * share
        slots = self._choices.slots[place]
        held, price = BUCKET * slots, self._prices.late
        return Cost(slots, held, price * seconds, self._changes[place], future, lag, seconds)

    def _followed(self, number: int, place: int, after: float) -> tuple[float, float]:
        """Return the late seconds of a change to a size after some seconds, and the lag that is left."""
        choices, course = self._choices, self._courses[number]
        capacity = choices.capacities[choices.present]
        if place == choices.present:
            return fluid(course.near, self._backlog, capacity, self._terms)
        change = Change(choices.capacities[place], after)
        late, lag = fluid(course.near, self._backlog, capacity, self._terms, change)
        return late + self._grid.noise(course.grid[1 if after else 0])[place], lag
