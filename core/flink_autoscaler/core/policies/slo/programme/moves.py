"""Changes among sizes, and what they cost.

Going from each size to the cheapest other one needs no pass over all pairs: what is cheapest to go to lies at the least
of all costs, at the least of those with the price of a small change, or where a change just ceases to be small.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from math import inf
from operator import add, itemgetter
from typing import Final

from flink_autoscaler.core.policies.slo.lateness import LagTerms
from flink_autoscaler.core.policies.slo.price import Prices
from flink_autoscaler.core.policies.slo.programme.choices import Choices

Row = Sequence[float]

SMALL: Final = 1.55
"""Times the slots, below which a change is a small one. Measured: with 1.5 a slow load is followed in steps of just
that, and with 1.6 what is half too large is kept."""


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
