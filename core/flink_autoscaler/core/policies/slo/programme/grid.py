"""Rows of costs, one for every size, under any demand: slices of tables over the ratio of capacity and demand.

The same costs come again and again, of other sizes under other demand but at the same ratio of the two. With demand and
capacities on one logarithmic grid, what they cost is tabulated once, and a row is picked out of a table. That is what
makes the programmes cheap enough without a library for arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from math import ceil, expm1, log, log1p
from operator import add
from typing import Final

from flink_autoscaler.core.model.quick import quick
from flink_autoscaler.core.policies.slo.lateness import (
    LEAST_HEADROOM,
    LagTerms,
    Spread,
    late_share,
    noise_lateness,
    rescale_lateness,
    transition,
)
from flink_autoscaler.core.policies.slo.model import BUCKET
from flink_autoscaler.core.policies.slo.price import Prices
from flink_autoscaler.core.policies.slo.programme.choices import LONG, Choices, Course
from flink_autoscaler.core.policies.slo.programme.moves import Moves, Row, picker
from flink_autoscaler.core.policies.slo.replayed import HEADROOMS, share_at

NOISE_COUNTS: Final = 0.25
"""Of the price of a late second, for time that noise is only expected to make late. Measured on loads of all kinds: at
the whole price it bought head-room that kept little, and rescales, which are late for certain, were cheap beside it.
A job that uses up its error budget is one whose noise comes true: it counts whole there."""
_OVERLOAD: Final = 6.0
_MOST_OVERLOAD: Final = -log(2.0)
"""Log-ratio below which an overload counts as one by half."""
_AMPLE: Final = 1.5
"""Log-ratio above which what a rescale costs hardly changes any more."""


def grid_step(spread: Spread) -> float:
    """Return a step in which the share of time late changes little."""
    return min(max(spread.s / 6.0, 0.0025), 0.01)


@quick
@dataclass(frozen=True, slots=True)
class _Table:
    """A cost over places of the grid: constant below and above some of them.

    Attributes:
        cost: Of a head-room.
        low: Log-ratio below which it is that of this one.
        high: Log-ratio above which it is that of this one.
    """

    cost: Callable[[float], float]
    low: float
    high: float

    def over(self, places: range, step: float) -> list[float]:
        """Return the costs at some places."""
        first = min(max(ceil(self.low / step), places.start), places.stop)
        last = max(min(ceil(self.high / step), places.stop), first)
        inside = [self.cost(expm1(place * step)) for place in range(first, last)]
        below, above = self.cost(expm1(self.low)), self.cost(expm1(self.high))
        return [below] * (first - places.start) + inside + [above] * (places.stop - last)


def _share_table(spread: Spread, limit: float) -> _Table:
    low, high = transition(spread, limit)
    if not any(spread.replayed):
        return _Table(lambda h: late_share(h, spread, limit), log1p(max(low, -0.9)), log1p(high))
    return _Table(
        lambda h: max(late_share(h, spread, limit), share_at(spread.replayed, h)),
        log1p(max(low, -0.9)),
        log1p(max(high, HEADROOMS[-1])),
    )


def _overload_table(terms: LagTerms) -> _Table:
    factor = _OVERLOAD * (1.0 if terms.behind > terms.limit / 2 else 0.5)
    return _Table(lambda h: factor * (1.0 / (1.0 + h) - 1.0), _MOST_OVERLOAD, 0.0)


class CostGrid:
    """Costs of every size by demand, which is a place on the grid; in slot-seconds unless said.

    Attributes:
        moves: What changes from one size to another cost, without the lateness that they bring.
    """

    def __init__(
        self, choices: Choices, possible: Iterable[Course], spread: Spread, terms: LagTerms, prices: Prices
    ) -> None:
        """Tabulate them.

        Args:
            choices: The sizes.
            possible: The demand that may come; other demand has no place.
            spread: Noise, of demand and of what is known.
            terms: What is late, and what a rescale does.
            prices: What that costs.
        """
        step = grid_step(spread)
        places = [place for course in possible for place in course.grid]
        sizes = [round(log(capacity) / step) for capacity in choices.capacities]
        self._slots = choices.slots
        self._most = max(places)
        self._span = max(sizes) - min(sizes) + 1
        self._pick = picker([size - min(sizes) for size in sizes])
        tabulated = partial(_Table.over, places=range(min(sizes) - self._most, max(sizes) - min(places) + 1), step=step)
        counts = min(1.0, NOISE_COUNTS * prices.urgency)
        self._share = [counts * each for each in tabulated(_share_table(spread, terms.limit))]
        cost = map(add, self._share, tabulated(_overload_table(terms)))
        self._late = [prices.late * each for each in cost]
        ample = log1p(LEAST_HEADROOM), _AMPLE
        self._noise = tabulated(_Table(lambda h: noise_lateness(h, spread.v, terms), *ample))
        drain = tabulated(_Table(lambda h: rescale_lateness(h, 0.0, terms), *ample))
        self._rescale = [prices.late * (each + noise) for each, noise in zip(drain, self._noise, strict=True)]
        self.moves = Moves(choices, terms, prices)
        self._short: dict[int, tuple[Row, Row]] = {}
        self._long: dict[int, tuple[Row, Row, Row]] = {}

    def held(self, seconds: float) -> Row:
        """Return the slot-seconds of some seconds."""
        return [seconds * slots for slots in self._slots]

    def share(self, place: int) -> Row:
        """Return the share of time that each size is late without a backlog, as far as it counts."""
        return self._row(self._share, place)

    def noise(self, place: int) -> Row:
        """Return the late seconds that noise adds to a rescale to each size."""
        return self._row(self._noise, place)

    def bucket(self, place: int) -> tuple[Row, Row]:
        """Return what each size costs for a bucket, and what going up to it does; the largest first."""
        row = self._short.get(place)
        if row is None:
            held, ups = self._costs(place, BUCKET)
            row = self._short[place] = held[::-1], ups[::-1]
        return row

    def quarter(self, place: int) -> tuple[Row, Row, Row]:
        """Return what each size costs for a quarter of an hour, what going up, and what going down to it does.

        The smallest comes first.
        """
        row = self._long.get(place)
        if row is None:
            held, ups = self._costs(place, LONG * BUCKET)
            row = self._long[place] = held, ups, list(map(add, ups, self.moves.downs))
        return row

    def lasting(self, place: int, seconds: float) -> Row:
        """Return what each size costs for some seconds; the smallest first."""
        return self._costs(place, seconds)[0]

    def _costs(self, place: int, seconds: float) -> tuple[list[float], list[float]]:
        late, change = self._row(self._late, place), self._row(self._rescale, place)
        held = [seconds * each for each in map(add, self._slots, late)]
        return held, list(map(add, self.moves.ups, change))

    def _row(self, table: list[float], place: int) -> Row:
        start = self._most - place
        return self._pick(table[start : start + self._span])
