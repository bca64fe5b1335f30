"""The size to go to: one backward programme over the next eight hours, for each of a few scenarios.

Costs are slot-seconds. Holding a size for a stage costs its slots, and what of the need it is expected to be short of,
so many times as the quantile says that is planned for (a newsvendor: where shortage costs ``1 / (1 - quantile)`` times
what a slot does, the cheapest capacity is that quantile of the need). A rescale costs a price, and the lateness that
its outage brings. Every scenario is solved with recourse; the first step is chosen for all of them together.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from statistics import NormalDist
from typing import Final

from benchmarks.policy_study.candidate.forecasters import ERROR_LEADS, Forecast, errors_of
from flink_autoscaler.core.model.quick import quick


@quick
@dataclass(frozen=True, slots=True)
class PlanConstants:
    """What was chosen.

    Attributes:
        stages: Lengths in buckets of five minutes: together eight hours.
        settled: Stages in which a scenario may not go down: else each takes for granted that it will soon be known
            which of them is true, and going down is put off for ever.
        scenarios: Forecasters that become one, the weightiest.
        max_sizes: Sizes that are compared.
        min_step: Times the slots that a rescale changes at least while the job is not late.
        overload: Times its shortage that a size costs which the load itself exceeds: what waits has to be drained.
        max_shortage: Share of the load that counts as missing at most: a rescale ends what is more.
        min_headroom: With less, a backlog counts as drained with so much.
        max_drain: Seconds that draining after a rescale counts at most.
        prior_errors: Errors of the blend that a new job is assumed to have seen.
        prior_deviation: Of these.
    """

    stages: tuple[int, ...] = (1, 1, 2, 2, 3, 3, 6, 6, 12, 12, 12, 12, 12, 12)
    settled: int = 6
    scenarios: int = 3
    max_sizes: int = 40
    min_step: float = 1.25
    overload: float = 1.0
    max_shortage: float = 0.15
    min_headroom: float = 0.02
    max_drain: float = 1800.0
    prior_errors: int = 24
    prior_deviation: float = 0.06


CONSTANTS: Final = PlanConstants()

_STEP: Final = 0.02
"""Of tables over the logarithm of capacity by demand."""
_PLACES: Final = 75
"""Places of a table below and above a ratio of one, up to a factor of 4.5."""
_LOGS: Final = tuple(_STEP * place for place in range(-_PLACES, _PLACES + 1))
_BUCKET: Final = 300.0


@quick
@dataclass(frozen=True, slots=True)
class SwitchingCosts:
    """What a rescale costs.

    Attributes:
        up: Price of a scale-up besides its outage, seconds of the size that the job then has.
        down: The same of a scale-down.
        late: Slot-seconds that a second above the acceptable lag costs.
        outage: Seconds that it takes.
        behind: Lag right after it of a job that had none, seconds.
        limit: Acceptable lag, seconds.
    """

    up: float
    down: float
    late: float
    outage: float
    behind: float
    limit: float


@quick
@dataclass(frozen=True, slots=True)
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
        kept, ratio = list(sizes), 1.01
        while len(kept) > CONSTANTS.max_sizes:
            thinned = [sizes[0]]
            for each in sizes[1:]:
                if each[1] >= thinned[-1][1] * ratio:
                    thinned.append(each)
            kept, ratio = thinned, ratio**1.3
        chosen = dict(kept) | {present[0]: present[1]}
        slots = tuple(sorted(chosen))
        return cls(slots, tuple(chosen[each] for each in slots), slots.index(present[0]))


@quick
@dataclass(frozen=True, slots=True)
class Plan:
    """What came of it.

    Attributes:
        best: Slots of the cheapest first step.
        costs: By slots, slot-seconds over the horizon.
    """

    best: int
    costs: dict[int, float]


@lru_cache(maxsize=256)
def shortage_table(errors: bytes) -> tuple[float, ...]:
    """Return by the logarithm of capacity over expected load what is expected to be missing, as a share of that load.

    A capacity below the expected load costs more: what waits has to be drained afterwards.

    Args:
        errors: ``log need - log expected`` of the past; see :func:`errors_of`.
    """
    known = errors_of(errors)
    if len(known) < CONSTANTS.prior_errors:
        normal = NormalDist(0.0, CONSTANTS.prior_deviation)
        count = CONSTANTS.prior_errors - len(known)
        known += [normal.inv_cdf((place + 0.5) / count) for place in range(count)]
    factors = sorted(map(math.exp, known))
    above = [0.0, *accumulate(reversed(factors))][::-1]
    table = []
    for log in _LOGS:
        ratio = math.exp(log)
        place = bisect_right(factors, ratio)
        full = bisect_right(factors, ratio + CONSTANTS.max_shortage)
        missing = above[place] - above[full] - ratio * (full - place) + CONSTANTS.max_shortage * (len(factors) - full)
        table.append(missing / len(factors) + CONSTANTS.overload * max(1.0 - ratio, 0.0))
    return tuple(table)


def drain_table(costs: SwitchingCosts) -> tuple[float, ...]:
    """Return by the logarithm of capacity over load for how many seconds a rescale makes the job late."""
    excess = max(costs.behind - costs.limit, 0.0)
    headrooms = (max(math.expm1(log), CONSTANTS.min_headroom) for log in _LOGS)
    return tuple(min(excess * (1.0 + 1.0 / each), CONSTANTS.max_drain) for each in headrooms)


def stage_loads(course: Sequence[float]) -> list[float]:
    """Return the greatest load of every stage."""
    loads, start = [], 0
    for length in CONSTANTS.stages:
        loads.append(max(course[start : start + length]))
        start += length
    return loads


class Planner:
    """The programmes of one decision."""

    def __init__(
        self,
        actions: ActionSet,
        quantile: float,
        errors: Sequence[bytes],
        costs: SwitchingCosts,
    ) -> None:
        """Tabulate what every size costs by its ratio to the load.

        Args:
            actions: The sizes.
            quantile: Of the need that is planned for.
            errors: Of the blend, by lead of :data:`ERROR_LEADS`.
            costs: Of a rescale.
        """
        self._actions, self._costs = actions, costs
        self._places = [round(math.log(capacity) / _STEP) + _PLACES for capacity in actions.capacities]
        self._weight = 1.0 / (1.0 - quantile)
        tables, ahead, self._shortage = [shortage_table(each) for each in errors], 0, []
        for length in CONSTANTS.stages:
            ahead += length
            self._shortage.append(tables[min(bisect_left(ERROR_LEADS, ahead), len(ERROR_LEADS) - 1)])
        self._drain = [costs.late * each for each in drain_table(costs)]
        slots = actions.slots
        self._ups = [costs.up * each for each in slots]
        self._more_down = [(costs.down - costs.up) * each for each in slots]
        self.first_up = [bisect_left(slots, CONSTANTS.min_step * each) for each in slots]
        self.first_kept = [bisect_right(slots, each / CONSTANTS.min_step) for each in slots]

    def _row(self, table: Sequence[float], load: float) -> list[float]:
        """Return a value of a table for every size under a load."""
        log, last = round(math.log(load) / _STEP), 2 * _PLACES
        return [table[min(max(place - log, 0), last)] for place in self._places]

    def _stage(self, number: int, load: float) -> tuple[list[float], list[float]]:
        """Return what every size costs for a stage, and what going up to it at its beginning does."""
        seconds, weight = _BUCKET * CONSTANTS.stages[number], self._weight * load
        short = self._row(self._shortage[number], load)
        held = [seconds * (slots + weight * each) for slots, each in zip(self._actions.slots, short, strict=True)]
        change = [price + each for price, each in zip(self._ups, self._row(self._drain, load), strict=True)]
        return held, change

    def values(self, loads: Sequence[float]) -> list[float]:
        """Return what a scenario costs from the second stage on, by the size that the job has then.

        Args:
            loads: Of every stage.
        """
        count = len(self._actions.slots)
        value = [0.0] * (count + 1)
        value[count] = math.inf
        for number in range(len(loads) - 1, 0, -1):
            held, change = self._stage(number, loads[number])
            stay = [now + later for now, later in zip(held, value, strict=False)]
            up = [now + each for now, each in zip(stay, change, strict=True)]
            least_up = [*accumulate(reversed(up), min)][::-1]
            least_up.append(math.inf)
            value = [min(now, least_up[first]) for now, first in zip(stay, self.first_up, strict=True)]
            if number >= CONSTANTS.settled:
                down = map(float.__add__, up, self._more_down)
                least_down = [math.inf, *accumulate(down, min)]
                value = [min(now, least_down[first]) for now, first in zip(value, self.first_kept, strict=True)]
            value.append(math.inf)
        return value[:count]

    def plan(self, forecast: Forecast, late: Sequence[float], *, is_late: bool) -> Plan:
        """Return the cheapest first step.

        Args:
            forecast: With at least one course.
            late: By size, seconds above the acceptable lag in the next half hour, if the job goes there now.
            is_late: Whether steps of any size may be made.
        """
        present, slots = self._actions.present, self._actions.slots
        names = sorted(forecast.weights, key=forecast.weights.__getitem__, reverse=True)[: CONSTANTS.scenarios]
        total = sum(forecast.weights[name] for name in names)
        cost = [self._costs.late * each for each in late]
        for name in names:
            weight, loads = forecast.weights[name] / total, stage_loads(forecast.courses[name])
            held, _ = self._stage(0, loads[0])
            for place, (now, later) in enumerate(zip(held, self.values(loads), strict=True)):
                cost[place] += weight * (now + later)
        for place, each in enumerate(slots):
            if place != present:
                cost[place] += (self._costs.up if place > present else self._costs.down) * each
        allowed = [
            place
            for place in range(len(slots))
            if is_late or place == present or not self.first_kept[present] <= place < self.first_up[present]
        ]
        best = min(allowed, key=cost.__getitem__)
        return Plan(slots[best], dict(zip(slots, cost, strict=True)))
