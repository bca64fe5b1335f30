"""Among which sizes the programmes choose, and for which courses of demand."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import log
from typing import Final

from flink_autoscaler.core.model.quick import quick, replace
from flink_autoscaler.core.policies.slo.model import HORIZON, LEAST_DEMAND, Forecasts, Level, Levels

COMMIT: Final = 12
"""Stages of one bucket, an hour; those after them are of three.

In the first of them a programme may only go up. Else each takes for granted that it will soon be known which forecast
was right, and going down is put off for ever.
"""
LONG: Final = 3
_LEAST_WEIGHT: Final = 0.01
_MOST_LEVELS: Final = 40
_FAR: Final = 4
"""Steps of the grid to which demand after the first hour is rounded: it is not known better, and rows are shared."""


@dataclass(frozen=True, slots=True)
class Choices:
    """The sizes among which the programmes choose, the present one included.

    Attributes:
        slots: Ascending, each once.
        capacities: Of each of them; the present size need not have the capacity of the best one with its slots.
        present: Place of the present size.
    """

    slots: tuple[int, ...]
    capacities: tuple[float, ...]
    present: int

    @classmethod
    def of(cls, levels: Levels, present: Level, forecasts: Forecasts) -> Choices:
        """Return those that any demand of the next hours may call for, the fewer the farther from that of the next."""
        least, most = reach(forecasts)
        below = max((each for each in levels.capacities if each <= least), default=0.0)
        fitting = [
            (slots, capacity)
            for slots, capacity in zip(levels.slots, levels.capacities, strict=True)
            if below <= capacity <= most
        ]
        near = forecasts.mixed[:COMMIT]
        kept = _thinned(fitting or [(levels.slots[-1], levels.capacities[-1])], 0.9 * min(near), 1.6 * max(near))
        chosen = dict(kept) | {present.slots: present.capacity}
        slots = tuple(sorted(chosen))
        return cls(slots, tuple(max(chosen[each], LEAST_DEMAND) for each in slots), slots.index(present.slots))


def reach(forecasts: Forecasts) -> tuple[float, float]:
    """Return the least and the greatest demand for which a size is of interest."""
    paths = [path for name, path in forecasts.paths.items() if forecasts.weights.get(name, 0.0) >= _LEAST_WEIGHT]
    every = paths or [forecasts.mixed]
    return 0.6 * min(map(min, every)), 1.9 * max(map(max, every)) + 2.0


def _thinned(levels: list[tuple[int, float]], low: float, high: float) -> list[tuple[int, float]]:
    """Leave out what is close to the size before, less close where it is not needed soon, until few are left."""
    kept, fine = levels, 1.005
    while len(kept) > _MOST_LEVELS:
        kept, coarse = levels[:1], fine**4
        for each in levels[1:-1]:
            if each[1] >= kept[-1][1] * (fine if low <= each[1] <= high else coarse):
                kept.append(each)
        kept.append(levels[-1])
        fine **= 1.3
    return kept


@quick
@dataclass(frozen=True, slots=True)
class Course:
    """One course of demand that is thought possible.

    Attributes:
        weight: How much it is believed; those of all courses sum to 1.
        near: Demand by bucket of the next hour.
        grid: Logarithm of the demand by stage, in steps of the grid.
    """

    weight: float
    near: tuple[float, ...]
    grid: tuple[int, ...]


def courses(forecasts: Forecasts, step: float) -> tuple[Course, ...]:
    """Return the forecasts that count, those that come to the same only once.

    Args:
        forecasts: With their weights.
        step: Of the grid.
    """
    found: dict[tuple[int, ...], Course] = {}
    for name, path in forecasts.paths.items():
        weight = forecasts.weights.get(name, 0.0)
        if weight >= _LEAST_WEIGHT:
            course = _course(path, weight, step)
            other = found.get(course.grid)
            found[course.grid] = course if other is None else replace(other, weight=other.weight + weight)
    chosen = found.values() or [_course(forecasts.mixed, 1.0, step)]
    total = sum(each.weight for each in chosen)
    return tuple(replace(each, weight=each.weight / total) for each in chosen)


def _course(path: Sequence[float], weight: float, step: float) -> Course:
    logs = [log(max(x, LEAST_DEMAND)) / step for x in stages(path)]
    grid = (*map(round, logs[:COMMIT]), *(_FAR * round(each / _FAR) for each in logs[COMMIT:]))
    return Course(weight, tuple(max(x, LEAST_DEMAND) for x in path[:COMMIT]), grid)


def stages(path: Sequence[float]) -> Iterator[float]:
    """Yield the demand of the stages: each of 12 buckets, then the greatest of three and three to the end."""
    yield from path[:COMMIT]
    yield from map(max, path[COMMIT:HORIZON:LONG], path[COMMIT + 1 : HORIZON : LONG], path[COMMIT + 2 : HORIZON : LONG])
