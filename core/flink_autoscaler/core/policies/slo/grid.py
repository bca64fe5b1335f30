"""Rows of costs, one for every size, under any demand: slices of tables over the ratio of capacity and demand.

The same costs come again and again, of other sizes under other demand but at the same ratio of the two. With demand and
capacities on one logarithmic grid, what they cost is tabulated once, and a row is picked out of a table. That is what
makes the programmes cheap enough without a library for arrays.

Changes from each size to any other need no pass over all pairs either: what is cheapest to go to lies at the least of
all costs, at the least of those with the price of a small change, or where a change just ceases to be small.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from math import ceil, expm1, inf, log, log1p
from operator import add, itemgetter
from typing import Final

from flink_autoscaler.core.model.quick import quick
from flink_autoscaler.core.policies.slo.choices import LONG, Choices, Course
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
from flink_autoscaler.core.policies.slo.replayed import HEADROOMS, share_at

Row = Sequence[float]

SMALL: Final = 1.5
"""Times the slots, below which a change is a small one. Measured: with 1.6 what is half too large is kept."""
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


class Moves:
    """The prices of rescales among some sizes, in slot-seconds.

    Attributes:
        ups: Of a scale-up to each size that is not small, without the lateness that it brings.
        downs: What a scale-down to it costs besides.
    """

    def __init__(self, choices: Choices, terms: LagTerms, prices: Prices) -> None:
        """Work them out.

        Args:
            choices: The sizes.
            terms: What a rescale does.
            prices: What that costs.
        """
        sizes = choices.slots
        self._choices, self._terms, self._prices = choices, terms, prices
        self._far_up = [bisect_left(sizes, each * SMALL) for each in sizes]
        self._far_down = [bisect_right(sizes, each / SMALL) for each in sizes]
        self._upper, self._lower = picker(self._far_up), picker([each - 1 for each in self._far_down])
        self._larger = [len(sizes) - each for each in reversed(self._far_up)]
        self.ups = [prices.change(slots, terms, is_up=True) for slots in sizes]
        self.downs = [prices.change(slots, terms) - up for slots, up in zip(sizes, self.ups, strict=True)]
        self._small_ups = [prices.small(slots, is_up=True) for slots in sizes]
        self._small_downs = [prices.small(slots) for slots in sizes]
        self._small_ups_first = self._small_ups[::-1]
        self._is_small_dear = any(self._small_ups) or any(self._small_downs)

    def price(self, place: int) -> float:
        """Return what going from the present size to another one costs, without the lateness that it brings."""
        present, slots = self._choices.present, self._choices.slots[place]
        if place == present:
            return 0.0
        is_up = place > present
        is_far = place >= self._far_up[present] if is_up else place < self._far_down[present]
        price = self._prices.change(slots, self._terms, is_up=is_up)
        return price if is_far else price + self._prices.small(slots, is_up=is_up)

    def either_way(self, held: Row, ups: Row, downs: Row, value: Row) -> list[float]:
        """Return what each size costs a stage earlier, if it is kept or left for any other; the smallest first.

        Below the size that is cheapest to go up to, a job goes up or stays. From it on it goes down or stays: what is
        even larger does not become cheaper. What is cheapest to go down to is never above: that costs more by the slot.

        Args:
            held: What each size costs in the stage.
            ups: What going up to it then does.
            downs: What going down to it does.
            value: What it costs after the stage.
        """
        stay = list(map(add, held, value))
        rising = list(map(add, stay, ups))
        turn = rising.index(min(rising))
        up, down = self._up(rising, turn), self._down(list(map(add, stay, downs)), turn)
        changed = zip(stay, (*up, *down), strict=True)
        return [best if each > best else each for each, best in changed]  # noqa: FURB136 - three times as fast as min

    def _up(self, rising: list[float], turn: int) -> Iterable[float]:
        """Return the least costs of going up from each size below the one to which that is cheapest."""
        if not self._is_small_dear:
            return [rising[turn]] * turn
        far = self._far_down[turn]
        edges = self._upper((*rising, inf))
        small = list(map(add, rising, self._small_ups))
        least = min(small)
        near = [min(each, least) for each in edges[far : small.index(least)]]
        return (*[rising[turn]] * far, *near, *edges[far + len(near) : turn])

    def _down(self, falling: list[float], turn: int) -> Iterable[float]:
        """Return the least costs of going down from each size from one on."""
        down = min(falling)
        if not self._is_small_dear:
            return [down] * (len(falling) - turn)
        far = max(self._far_up[falling.index(down)], turn)
        edges = self._lower((*falling, inf))
        least = min(map(add, falling, self._small_downs))
        near = [min(each, least) for each in edges[turn:far]]
        return (*near, *[down] * (len(falling) - far))

    def upwards(self, held: Row, moves: Row, value: Row) -> list[float]:
        """Return what each size costs a stage earlier, if it is kept or left for a larger one; the largest first.

        Args:
            held: What each size costs in the stage.
            moves: What going up to it then does.
            value: What it costs after the stage.
        """
        least, lows, earlier = inf, [inf], []
        rows = zip(held, moves, self._small_ups_first, value, self._larger, strict=True)
        for now, move, small, later, larger in rows:
            stay = now + later
            up = stay + move
            best = least if stay > least else stay  # noqa: FURB136 - three times as fast as min
            earlier.append(lows[larger] if best > lows[larger] else best)  # noqa: FURB136 - the same
            lows.append(lows[-1] if up > lows[-1] else up)  # noqa: FURB136 - the same
            if up + small < least:  # noqa: PLR1730 - the same
                least = up + small
        return earlier


def picker(places: Sequence[int]) -> Callable[[Row], Row]:
    """Return what picks some places out of a row."""
    if len(places) == 1:
        return lambda row: (row[places[0]],)
    return itemgetter(*places)
