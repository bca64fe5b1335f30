"""The size to go to: one backward programme over the next eight hours, for each of a few scenarios.

Costs are slot-seconds. Holding a size for a stage costs its slots, and the share of the need that it is expected to be
short of, so many times the usual slots as the quantile says that is planned for (a newsvendor: where a shortage costs
``1 / (1 - quantile)`` times what a slot does, the cheapest capacity is that quantile of the need). A rescale costs a
price, and the lateness that its outage brings. Every scenario is solved with recourse; the first step is chosen for all
of them together.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import accumulate
from statistics import NormalDist
from typing import Final

from flink_autoscaler.core.model.value import value
from flink_autoscaler.core.policies.slo.constants import CONSTANTS
from flink_autoscaler.core.policies.slo.error_budget import seconds_above
from flink_autoscaler.core.policies.slo.forecasters import ERROR_LEADS, Forecast, like_errors
from flink_autoscaler.core.policies.slo.load_history import BUCKET

_STEP: Final = 0.02
"""Of tables over the logarithm of capacity by demand."""
_BELOW, _ABOVE = 50, 125
"""Places of a table below and above a ratio of one: from a third to twelve times."""
_LOGS: Final = tuple(_STEP * place for place in range(-_BELOW, _ABOVE + 1))
_LEVEL: Final = 0.3
"""Of the logarithm of a load, to which errors at like loads are looked up."""
_AHEAD: Final = 1800.0
"""Seconds for which what waits is followed; what is left then drains at a constant rate."""
_MIN_SHRINKING: Final = 0.01
_MAX_OVERLOAD: Final = 10.0


@value
class SwitchingCosts:
    """What shortage, lateness and a rescale cost.

    Attributes:
        up: Price of a scale-up besides the lateness that it brings, slot-seconds.
        down: The same of a scale-down.
        late: Slot-seconds that a second above the acceptable lag costs.
        short: Slots that being short of the whole load costs.
        outage: Seconds that a rescale takes.
        replay: Age of what is read again after it, seconds.
        limit: Acceptable lag, seconds.
    """

    up: float
    down: float
    late: float
    short: float
    outage: float
    replay: float
    limit: float

    def late_after(self, headroom: float) -> float:
        """Return for how many seconds a rescale makes a job late that then has some capacity over its load, less 1."""
        # Lag grows by a second a second until the job runs, and shrinks by its headroom afterwards.
        excess = max(self.outage + self.replay - self.limit, 0.0)
        return min(excess * (1.0 + 1.0 / max(headroom, CONSTANTS.min_headroom)), CONSTANTS.max_drain)


@value
class ActionSet:
    """The sizes that the job may go to, the present one included.

    Attributes:
        slots: Ascending, each once.
        capacities: Demand up to which each keeps pace.
        present: Place of the present size.
    """

    slots: tuple[int, ...]
    capacities: tuple[float, ...]
    present: int

    @classmethod
    def of(cls, sizes: Sequence[tuple[int, float]], present: tuple[int, float]) -> ActionSet:
        """Return slots and capacities, so few that they can be compared.

        Args:
            sizes: Slots and capacity, ascending.
            present: The same of the present size.
        """
        # Thinned evenly by capacity: a step of a percent matters to a small job and to none with hundreds of slots.
        kept, ratio = list(sizes), 1.01
        while len(kept) > CONSTANTS.max_sizes:
            thinned = [sizes[0]]
            for each in sizes[1:]:
                if each[1] >= thinned[-1][1] * ratio:
                    thinned.append(each)
            kept, ratio = thinned, ratio**1.3
        # The present size must be among them: staying is what all others are compared with.
        chosen = dict(kept) | {present[0]: present[1]}
        slots = tuple(sorted(chosen))
        return cls(slots, tuple(chosen[each] for each in slots), slots.index(present[0]))

    def lateness(self, path: Sequence[float], backlog: float, costs: SwitchingCosts) -> list[float]:
        """Return for how many seconds the job is late that goes to each of the sizes now, or stays.

        Args:
            path: Load by bucket, above 0; the last one stands for what comes after it.
            backlog: What waits, in seconds of one slot.
            costs: What a rescale does to the lag.
        """
        stays = _lateness(path, backlog, ((_AHEAD, self.capacities[self.present]),), costs.limit)
        # Records since the last checkpoint are read again, so they wait, too.
        behind, back = backlog + costs.replay * path[0], max(_AHEAD, costs.outage + BUCKET)
        return [
            stays
            if place == self.present
            else _lateness(path, behind, ((costs.outage, 0.0), (back, capacity)), costs.limit)
            for place, capacity in enumerate(self.capacities)
        ]


def _lateness(path: Sequence[float], backlog: float, phases: Iterable[tuple[float, float]], limit: float) -> float:
    """Follow a backlog as a fluid, and return the seconds above a limit; of phases until when, and at which rate."""
    late, at, peak, last = 0.0, 0.0, max(path), len(path) - 1
    load, rate = path[0], 0.0
    for until, rate in phases:
        while at < until and (backlog > 0.0 or rate < peak):  # else nothing will ever wait
            bucket = int(at / BUCKET)
            load, end = path[min(bucket, last)], min(until, (bucket + 1) * BUCKET)
            after = backlog + (load - rate) * (end - at)
            if after > limit * load or backlog > limit * load:
                late += seconds_above(backlog, after, limit * load, end - at)
            backlog, at = max(after, 0.0), end
        at = until
    load = path[min(int(at / BUCKET), last)]
    excess = backlog / load - limit
    if excess <= 0.0:
        return late
    overload = min(load / max(rate, 1e-3), 1.0 + _MAX_OVERLOAD)
    return late + excess / max(1.0 - overload, _MIN_SHRINKING) * (1.0 + 10.0 * max(overload - 1.0, 0.0))


@value
class Cost:
    """What a first step comes to, slot-seconds.

    Attributes:
        held: Slots of the first stage.
        short: What these are expected to be short of.
        late: Lateness that the step brings in the next half hour.
        rescale: Price of the step.
        future: What follows, by the weights of the scenarios.
    """

    held: float
    short: float
    late: float
    rescale: float
    future: float

    @property
    def total(self) -> float:
        """All of it."""
        return self.held + self.short + self.late + self.rescale + self.future


@lru_cache(maxsize=256)
def shortage_table(errors: bytes, lead: int, level: int) -> tuple[float, ...]:
    """Return by the logarithm of capacity over expected load what is expected to be missing, as a share of that load.

    A capacity below the expected load costs more: what waits has to be drained afterwards.

    Args:
        errors: Of the blend in the past; see :func:`like_errors`.
        lead: Place in :data:`ERROR_LEADS`.
        level: Logarithm of the expected load, in steps of 0.3.
    """
    # A new job has too few errors to say anything: assumed ones fill up, and give way one by one.
    known = like_errors(errors, level * _LEVEL, lead)
    if len(known) < CONSTANTS.prior_errors:
        normal = NormalDist(0.0, CONSTANTS.prior_deviation)
        count = CONSTANTS.prior_errors - len(known)
        known += [normal.inv_cdf((place + 0.5) / count) for place in range(count)]
    factors = sorted(map(math.exp, known))
    # Sums from the far end, so that each place of the table takes two look-ups instead of a pass over the errors.
    above = [0.0, *accumulate(reversed(factors))][::-1]
    table = []
    for log in _LOGS:
        ratio = math.exp(log)
        place = bisect_right(factors, ratio)
        full = bisect_right(factors, ratio + CONSTANTS.max_shortage)
        missing = above[place] - above[full] - ratio * (full - place) + CONSTANTS.max_shortage * (len(factors) - full)
        table.append(missing / len(factors) + CONSTANTS.overload * max(1.0 - ratio, 0.0))
    return tuple(table)


def stage_loads(course: Sequence[float]) -> list[float]:
    """Return the greatest load of every stage and of the bucket after it, for which it is too late to rescale then."""
    starts = [0, *accumulate(CONSTANTS.stages)]
    return [max(course[start : start + length + 1]) for start, length in zip(starts, CONSTANTS.stages, strict=False)]


_LEADS: Final = tuple(min(bisect_left(ERROR_LEADS, end), len(ERROR_LEADS) - 1) for end in accumulate(CONSTANTS.stages))
"""By stage, the lead whose errors count."""


class Planner:
    """The programmes of one decision."""

    def __init__(self, actions: ActionSet, errors: bytes, costs: SwitchingCosts) -> None:
        """Make what all programmes share.

        Args:
            actions: The sizes.
            errors: Of the blend; see :func:`like_errors`.
            costs: Of shortage and rescales.
        """
        self._actions, self._costs, self._errors = actions, costs, errors
        self._places = [round(math.log(capacity) / _STEP) + _BELOW for capacity in actions.capacities]
        self._drain = [costs.late * costs.late_after(math.expm1(log)) for log in _LOGS]
        self._rows = dict[tuple[int, int], tuple[list[float], list[float]]]()
        slots = actions.slots
        self._first_up = [bisect_left(slots, CONSTANTS.min_step * each) for each in slots]
        self._first_kept = [bisect_right(slots, each / CONSTANTS.min_step) for each in slots]

    def _row(self, lead: int, load: float) -> tuple[list[float], list[float]]:
        """Return by size what being short of a load costs in a second, and what the outage of going there does."""
        log, last = round(math.log(load) / _STEP), _BELOW + _ABOVE
        found = self._rows.get((lead, log))
        if found is None:
            table = shortage_table(self._errors, lead, round(math.log(load) / _LEVEL))
            places = [min(max(place - log, 0), last) for place in self._places]
            found = [self._costs.short * table[place] for place in places], [self._drain[place] for place in places]
            self._rows[lead, log] = found
        return found

    def values(self, loads: Sequence[float]) -> list[float]:
        """Return what a scenario costs from the second stage on, by the size that the job has then.

        Args:
            loads: Of every stage.
        """
        slots, up, down = self._actions.slots, self._costs.up, self._costs.down
        value = [0.0] * len(slots)
        # Backward: what follows a stage has to be known before its cheapest step is. The first stage is chosen by
        # ``costs``.
        for number in range(len(loads) - 1, 0, -1):
            seconds = BUCKET * CONSTANTS.stages[number]
            short, outage = self._row(_LEADS[number], loads[number])
            stay = [seconds * (a + b) + later for a, b, later in zip(slots, short, value, strict=True)]
            change = [a + b for a, b in zip(stay, outage, strict=True)]
            # The cheapest size from each place on: all targets of all sizes in one sweep.
            least_up = [*accumulate(reversed(change), min)][::-1]
            least_up.append(math.inf)
            value = [min(now, up + least_up[first]) for now, first in zip(stay, self._first_up, strict=True)]
            if number >= CONSTANTS.settled:
                least_down = [math.inf, *accumulate(change, min)]
                value = [min(now, down + least_down[first]) for now, first in zip(value, self._first_kept, strict=True)]
        return value

    def costs(self, forecast: Forecast, late: Sequence[float]) -> list[Cost]:
        """Return what every size costs as the first step.

        Args:
            forecast: With at least one course.
            late: By size, seconds above the acceptable lag in the next half hour, if the job goes there now.
        """
        # The weightiest scenarios alone; solving one costs as much whether anybody believes in it or not.
        names = sorted(forecast.weights, key=forecast.weights.__getitem__, reverse=True)[: CONSTANTS.scenarios]
        total = sum(forecast.weights[name] for name in names)
        short, future = [0.0] * len(late), [0.0] * len(late)
        for name in names:
            weight, loads = forecast.weights[name] / total, stage_loads(forecast.courses[name])
            shares, _ = self._row(_LEADS[0], loads[0])
            short = [before + weight * each for before, each in zip(short, shares, strict=True)]
            future = [before + weight * each for before, each in zip(future, self.values(loads), strict=True)]
        seconds, present, prices = BUCKET * CONSTANTS.stages[0], self._actions.present, self._costs
        return [
            Cost(
                seconds * slots,
                seconds * short[place],
                prices.late * late[place],
                0.0 if place == present else prices.up if place > present else prices.down,
                future[place],
            )
            for place, slots in enumerate(self._actions.slots)
        ]

    def best(self, costs: Sequence[Cost], *, is_late: bool) -> int:
        """Return the place of the cheapest first step.

        Args:
            costs: Of all sizes.
            is_late: Whether steps of any size may be made.
        """
        present = self._actions.present
        # A small step is not worth an outage; a job that is late takes any.
        allowed = [
            place
            for place in range(len(costs))
            if is_late or place == present or not self._first_kept[present] <= place < self._first_up[present]
        ]
        return min(allowed, key=lambda place: costs[place].total)
