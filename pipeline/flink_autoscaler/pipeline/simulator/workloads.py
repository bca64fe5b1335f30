"""Arrival rates over time: the shapes that autoscalers are compared with, by name, and recorded ones.

All of them are made of steps: a row of rates by source holds until the next row. The same seed gives the same rates.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
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


def recorded(name: str, rates: Sequence[float], *, step: float = MINUTE) -> Workload:
    """Make a workload of one source from records/s that were recorded, one per step.

    Raises:
        ValueError: There are no rates, or one is negative or not a number.
    """
    if not rates or not all(rate >= 0 and math.isfinite(rate) for rate in rates):
        raise ValueError(f"{name}: a recorded series needs rates, none negative, infinite or unknown")
    return Workload(name, step, tuple((float(rate),) for rate in rates))


# Nexmark at the rates for which "Three steps is all you need" (OSDI 2018) gives the best parallelism on Flink.

NEXMARK_RATES: Final[Mapping[str, Row]] = {
    "q1": (4e6,),
    "q2": (4e6,),
    "q3": (5e5, 1e5),
    "q5": (5e5,),
    "q8": (4.2e5, 1.2e5),
    "q11": (1e6,),
}
"""Bids; for q3 auctions and persons, for q8 the same."""


def nexmark(query: str = "q1", *, seed: int = 0, duration: float = HOUR) -> Workload:  # noqa: ARG001 - has no chance
    """Return constant rates of one query's sources; the seed does nothing."""
    count = max(1, round(duration / MINUTE))
    return Workload(f"nexmark-{query}", MINUTE, (NEXMARK_RATES[query],) * count)


# The shapes of "Evaluating Stream Processing Autoscalers" (DEBS 2024).

_RUN: Final = 140 * MINUTE
_COSINES: Final = {"q1": (150e3, 100e3), "q3": (50e3, 25e3), "q11": (30e3, 15e3)}
_NOISE_SHARE: Final = 1 / 15


def cosine(query: str = "q1", *, seed: int = 0, duration: float = _RUN) -> Workload:
    """Return a cosine with a period of an hour and even noise of up to a fifteenth of its mean."""
    mean, amplitude = _COSINES[query]
    chance = _chance(seed)

    def shape(t: float) -> float:
        wave = amplitude * math.cos(2 * math.pi * t / HOUR)
        return mean + wave + chance.uniform(-1, 1) * mean * _NOISE_SHARE

    return shaped(f"cosine-{query}", shape, duration)


def spikes(query: str = "q1", *, seed: int = 0, count: int = 6, duration: float = _RUN) -> Workload:
    """Return the cosine with spikes of at most three minutes, half to all of its amplitude high."""
    amplitude, chance = _COSINES[query][1], _chance(seed)
    base = cosine(query, seed=seed, duration=duration)
    rates = [row[0] for row in base.rows]
    for _ in range(count):
        begin, length = chance.randrange(len(rates)), chance.randint(1, 3)
        height = chance.uniform(0.5, 1.0) * amplitude
        rates[begin : begin + length] = [rate + height for rate in rates[begin : begin + length]]
    return recorded(f"spikes-{query}", rates)


def ramps(*, peak: float = 2.5e6, duration: float = _RUN) -> Workload:
    """Return a rise from nothing to a peak, and the way back."""
    return shaped("ramps", lambda t: peak * (1 - abs(2 * t / duration - 1)), duration)


def random_walk(*, seed: int = 0, hold: float = 10 * MINUTE, duration: float = _RUN) -> Workload:
    """Return a random walk that begins at 1.25 M, goes at most 500 k at once, and stays within 0 and 2.5 M."""
    chance, rates = _chance(seed), [1.25e6]
    while len(rates) * hold < duration:
        rates.append(min(max(0.0, rates[-1] + chance.uniform(-5e5, 5e5)), 2.5e6))
    return shaped("random", lambda t: rates[int(t / hold)], duration)


def steps(*, height: float = 1e6, duration: float = _RUN) -> Workload:
    """Return nothing, one height, two and one again, over 1, 2, 2 and 2 sevenths of the time."""
    levels = (0.0, 1.0, 1.0, 2.0, 2.0, 1.0, 1.0)
    return shaped("steps", lambda t: height * levels[min(6, int(7 * t / duration))], duration)


# The shapes of the evaluation of Daedalus (2024).


def sine(*, peak: float = 60e3, cycles: int = 3, duration: float = 6 * HOUR) -> Workload:
    """Return a sine that swings between nothing and a peak."""
    return shaped("sine", lambda t: peak / 2 * (1 - math.cos(2 * math.pi * cycles * t / duration)), duration)


def traffic(*, seed: int = 0, peak: float = 100e3, duration: float = 6 * HOUR) -> Workload:
    """Return a day of road traffic in less time: quiet at both ends, a rush hour at a third and at three quarters."""
    noise = _autoregressive(seed, 0.03)

    def shape(t: float) -> float:
        x = t / duration
        rush = math.exp(-(((x - 1 / 3) / 0.07) ** 2)) + 0.9 * math.exp(-(((x - 3 / 4) / 0.1) ** 2))
        return (0.15 + 0.35 * math.sin(math.pi * x) ** 2 + 0.5 * rush) * next(noise)

    return shaped("traffic", shape, duration).scaled_to(peak)


# Our own: what jobs look like week by week.


def week_sine(*, seed: int = 0, weeks: float = 1.0, since: float = 0.0) -> Workload:
    """Return a daily sine between 50 k and 150 k, a quarter less at weekends, with slow noise of 3 %.

    It begins ``since`` seconds after Monday midnight; below 0 that is before.
    """
    noise = _autoregressive(seed, 0.03)

    def shape(t: float) -> float:
        share = 0.75 if t % WEEK >= 5 * DAY else 1.0
        return (100e3 + 50e3 * math.sin(2 * math.pi * (t / DAY - 0.3))) * share * next(noise)

    return shaped("week-sine", shape, weeks * WEEK, since=since)


def office(*, seed: int = 0, weeks: float = 5.0, since: float = 0.0) -> Workload:
    """Return office hours: 40 k, and 120 k from Monday to Friday, 9 to 18 h, growing by 3 % a week, noise 5 %.

    On top comes a daily sine, a tenth of the night's rate high. It begins ``since`` seconds after Monday midnight of
    the week from which growth counts; below 0 that is before, and less.
    """
    noise = _autoregressive(seed, 0.05)

    def shape(t: float) -> float:
        base = 40e3 * (1 + 2 * _open(t) + 0.1 * math.sin(2 * math.pi * (t / DAY - 0.3)))
        return base * math.pow(1.03, t / WEEK) * next(noise)

    return shaped("office", shape, weeks * WEEK, since=since)


def _open(t: float) -> float:
    """Return how open an office is, 0 to 1, with ramps of ten minutes before and after its hours."""
    if t % WEEK >= 5 * DAY:
        return 0.0
    of_day, ramp = t % DAY, 10 * MINUTE
    return min(max(0.0, (of_day - 9 * HOUR + ramp) / ramp), 1.0, max(0.0, (18 * HOUR + ramp - of_day) / ramp))


def _autoregressive(seed: int, deviation: float, memory: float = 0.9) -> Iterator[float]:
    """Yield factors around 1 that remember most of their deviation, of so much in the long run, from step to step."""
    chance = _chance(seed)
    own = deviation * math.sqrt(1 - memory**2)
    value = chance.gauss(0, deviation)
    while True:
        yield 1 + value
        value = memory * value + chance.gauss(0, own)


def _chance(seed: int) -> random.Random:
    return random.Random(seed)  # noqa: S311 - a simulation has to be repeatable


def _by_query(make: Callable[..., Workload], queries: Iterable[str]) -> dict[str, Callable[[int], Workload]]:
    def of(query: str) -> Callable[[int], Workload]:
        return lambda seed: make(query, seed=seed)

    return {f"{make.__name__}-{query}": of(query) for query in queries}


WORKLOADS: Final[Mapping[str, Callable[[int], Workload]]] = {
    **_by_query(nexmark, NEXMARK_RATES),
    **_by_query(cosine, _COSINES),
    **_by_query(spikes, _COSINES),
    "ramps": lambda _: ramps(),
    "random": lambda seed: random_walk(seed=seed),
    "steps": lambda _: steps(),
    "sine": lambda _: sine(),
    "ysb": lambda _: replace(sine(peak=550e3), name="ysb"),
    "traffic": lambda seed: traffic(seed=seed),
    "week-sine": lambda seed: week_sine(seed=seed),
    "office": lambda seed: office(seed=seed),
}
"""From a seed to a workload, by name."""


# As long as is wanted, and what arrived before.

_OTHER_NOISE: Final = 1_000_003
"""Added to the seed: what was random before must not be what is random now."""

_WEEKLY: Final[Mapping[str, Callable[..., Workload]]] = {"week-sine": week_sine, "office": office}
"""Workloads that know what week it is, and so what was before."""


def made(name: str, seed: int, seconds: float) -> Workload:
    """Make a built-in workload for so long; the beginning is that of the workload as it is by itself."""
    if name in _WEEKLY:
        return _WEEKLY[name](seed=seed, weeks=seconds / WEEK)
    return lasting(WORKLOADS[name](seed), seconds)


def lasting(workload: Workload, seconds: float) -> Workload:
    """Return a workload for so long: its beginning, or itself again and again."""
    count = max(1, round(seconds / workload.step))
    return Workload(workload.name, workload.step, _again(workload, count)[:count])


def earlier(name: str, seed: int, weeks: int) -> Workload:
    """Return what arrived in the weeks before a built-in workload: the same shape with other noise.

    Workloads that are shorter than a week were there again and again, up to where the workload begins.
    """
    if name in _WEEKLY:
        return _WEEKLY[name](seed=seed + _OTHER_NOISE, weeks=weeks, since=-weeks * WEEK)
    once = WORKLOADS[name](seed + _OTHER_NOISE)
    count = round(weeks * WEEK / once.step)
    return Workload(once.name, once.step, _again(once, count)[-count:])


def _again(workload: Workload, count: int) -> tuple[tuple[float, ...], ...]:
    """Return the rows of a workload again and again, at least so many."""
    return workload.rows * math.ceil(count / len(workload.rows))
