"""Arrival rates over time: the value, and how it is made of functions, of recorded rates and of chance.

A workload is made of steps: a row of rates by source holds until the next row.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

MINUTE: Final = 60.0
HOUR: Final = 3600.0
DAY: Final = 86_400.0
WEEK: Final = 7 * DAY

Shape = Callable[[float], float]
"""From seconds since the beginning, which is a Monday at midnight UTC, to records/s."""

Row = tuple[float, ...]


@dataclass(frozen=True)
class Workload:
    """Arrival rates.

    Attributes:
        step: Seconds that a row holds.
        rows: Records/s by source, one row per step.
    """

    name: str
    step: float
    rows: tuple[Row, ...]

    @property
    def duration(self) -> float:
        """Seconds that the rows hold in all."""
        return self.step * len(self.rows)

    def at(self, instant: float) -> Row:
        """Return the rates at an instant; before the beginning those of the first step, after the end the last."""
        return self.rows[min(max(0, math.floor(instant / self.step)), len(self.rows) - 1)]

    def scaled(self, factor: float) -> Workload:
        """Return the same shape, so many times as high."""
        return Workload(self.name, self.step, tuple(tuple(rate * factor for rate in row) for row in self.rows))

    def scaled_to(self, peak: float) -> Workload:
        """Return the same shape with another peak of the sum over the sources, such as a share of a job's capacity.

        Raises:
            ValueError: Nothing ever arrives.
        """
        present = max(sum(row) for row in self.rows)
        if present <= 0:
            raise ValueError(f"{self.name}: nothing arrives that could be scaled")
        return self.scaled(peak / present)

    def part(self, since: float, until: float) -> Workload:
        """Return the rows between two instants."""
        return Workload(self.name, self.step, self.rows[round(since / self.step) : round(until / self.step)])


def shaped(name: str, shape: Shape, duration: float, *, step: float = MINUTE, since: float = 0.0) -> Workload:
    """Make a workload of one source from a function of time, from an instant on; nothing is ever negative."""
    count = max(1, round(duration / step))
    return Workload(name, step, tuple((max(0.0, shape(since + number * step)),) for number in range(count)))


def side_by_side(name: str, first: Workload, *others: Workload) -> Workload:
    """Make a workload of several sources from workloads of the same steps and length."""
    rows = zip(first.rows, *(other.rows for other in others), strict=True)
    return Workload(name, first.step, tuple(tuple(rate for row in each for rate in row) for each in rows))


def recorded(name: str, rates: Sequence[float], *, step: float = MINUTE) -> Workload:
    """Make a workload of one source from records/s that were recorded, one per step.

    Raises:
        ValueError: There are no rates, or one is negative or not a number.
    """
    if not rates or not all(rate >= 0 and math.isfinite(rate) for rate in rates):
        raise ValueError(f"{name}: a recorded series needs rates, none negative, infinite or unknown")
    return Workload(name, step, tuple((float(rate),) for rate in rates))


def lasting(workload: Workload, seconds: float) -> Workload:
    """Return a workload for so long: its beginning, or itself again and again."""
    count = max(1, round(seconds / workload.step))
    return Workload(workload.name, workload.step, again(workload, count)[:count])


def again(workload: Workload, count: int) -> tuple[Row, ...]:
    """Return the rows of a workload again and again, at least so many."""
    return workload.rows * math.ceil(count / len(workload.rows))


def daily_sine(t: float) -> float:
    """Return a sine of a day, -1 to 1, that is lowest before two and highest before two in the afternoon."""
    return math.sin(2 * math.pi * (t / DAY - 0.3))


def autoregressive(seed: int, deviation: float, memory: float = 0.9) -> Iterator[float]:
    """Yield factors around 1 that remember most of their deviation, of so much in the long run, from step to step."""
    chance = chance_of(seed)
    own = deviation * math.sqrt(1 - memory**2)
    value = chance.gauss(0, deviation)
    while True:
        yield 1 + value
        value = memory * value + chance.gauss(0, own)


def chance_of(seed: int) -> random.Random:
    """Return chance that repeats itself with the same seed."""
    return random.Random(seed)  # noqa: S311 - a simulation has to be repeatable
