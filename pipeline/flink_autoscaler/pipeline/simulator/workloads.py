"""Arrival rates over time: what a workload is, the built-in ones by name, and how they are made.

A workload is made of steps: a row of rates by source holds until the next row. The same seed gives the same rates,
and a longer workload begins as the shorter one does. Most begin ``since`` seconds after a Monday midnight; below 0 that
is before it, and before what happens once.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
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


def from_shape(name: str, shape: Shape, duration: float, *, step: float = MINUTE, since: float = 0.0) -> Workload:
    """Make a workload of one source from a function of time, from an instant on; nothing is ever negative."""
    count = max(1, round(duration / step))
    return Workload(name, step, tuple((max(0.0, shape(since + number * step)),) for number in range(count)))


def side_by_side(name: str, first: Workload, *others: Workload) -> Workload:
    """Make a workload of several sources from workloads of the same steps and length."""
    rows = zip(first.rows, *(other.rows for other in others), strict=True)
    return Workload(name, first.step, tuple(tuple(rate for row in each for rate in row) for each in rows))


def from_rates(name: str, rates: Sequence[float], *, step: float = MINUTE) -> Workload:
    """Make a workload of one source from records/s that were recorded, one per step.

    Raises:
        ValueError: There are no rates, or one is negative or not a number.
    """
    if not rates or not all(rate >= 0 and math.isfinite(rate) for rate in rates):
        raise ValueError(f"{name}: a recorded series needs rates, none negative, infinite or unknown")
    return Workload(name, step, tuple((float(rate),) for rate in rates))


def fit_duration(workload: Workload, seconds: float) -> Workload:
    """Return a workload for so long: its beginning, or itself again and again."""
    count = max(1, round(seconds / workload.step))
    return Workload(workload.name, workload.step, repeat(workload, count)[:count])


def repeat(workload: Workload, count: int) -> tuple[Row, ...]:
    """Return the rows of a workload again and again, at least so many."""
    return workload.rows * math.ceil(count / len(workload.rows))


def daily_sine(t: float) -> float:
    """Return a sine of a day, -1 to 1, that is lowest before two and highest before two in the afternoon."""
    return math.sin(2 * math.pi * (t / DAY - 0.3))


def autoregressive(seed: int, deviation: float, memory: float = 0.9) -> Iterator[float]:
    """Yield factors around 1 that remember most of their deviation, of so much in the long run, from step to step."""
    chance = rng_of(seed)
    own = deviation * math.sqrt(1 - memory**2)
    value = chance.gauss(0, deviation)
    while True:
        yield 1 + value
        value = memory * value + chance.gauss(0, own)


def rng_of(seed: int) -> random.Random:
    """Return chance that repeats itself with the same seed."""
    return random.Random(seed)  # noqa: S311 - a simulation has to be repeatable


# Days, weekends, office hours, holidays, growth, and swings.

HOLIDAY: Final = 3 * DAY
"""When the holiday of ``holiday`` begins: on the first Thursday."""

WEEKLY_GROWTH: Final = 1.1

_RAMP: Final = 10 * MINUTE
_SWING: Final = 6 * HOUR


def week_sine(*, seed: int = 0, weeks: float = 1.0, since: float = 0.0) -> Workload:
    """Return a daily sine between 50 k and 150 k, a quarter less at weekends, with slow noise of 3 %."""
    noise = autoregressive(seed, 0.03)
    return from_shape("week-sine", lambda t: _days(t) * next(noise), weeks * WEEK, since=since)


def growth(*, seed: int = 0, weeks: float = 1.0, since: float = 0.0) -> Workload:
    """Return the same, 10 % more from week to week."""
    noise = autoregressive(seed, 0.03)

    def shape(t: float) -> float:
        return _days(t) * math.pow(WEEKLY_GROWTH, t / WEEK) * next(noise)

    return from_shape("growth", shape, weeks * WEEK, since=since)


def _days(t: float) -> float:
    share = 0.75 if t % WEEK >= 5 * DAY else 1.0
    return (100e3 + 50e3 * daily_sine(t)) * share


def office(*, seed: int = 0, weeks: float = 5.0, since: float = 0.0) -> Workload:
    """Return office hours: 40 k, and 120 k from Monday to Friday, 9 to 18 h, growing by 3 % a week, noise 5 %.

    On top comes a daily sine, a tenth of the night's rate high. Growth counts from the Monday on; before there is less.
    """
    return from_shape("office", _office(seed, 1.03, frozenset()), weeks * WEEK, since=since)


def holiday(*, seed: int = 0, weeks: float = 1.0, since: float = 0.0) -> Workload:
    """Return office hours that do not grow, with a first Thursday on which the office stays closed."""
    return from_shape("holiday", _office(seed, 1.0, frozenset({HOLIDAY // DAY})), weeks * WEEK, since=since)


def _office(seed: int, weekly_growth: float, closed: frozenset[float]) -> Shape:
    """Make a function of office hours with noise; ``closed`` are days since the beginning."""
    noise = autoregressive(seed, 0.05)

    def shape(t: float) -> float:
        is_open = 0.0 if t // DAY in closed else _open(t)
        return 40e3 * (1 + 2 * is_open + 0.1 * daily_sine(t)) * math.pow(weekly_growth, t / WEEK) * next(noise)

    return shape


def _open(t: float) -> float:
    """Return how open an office is, 0 to 1, with ramps of ten minutes before and after its hours."""
    if t % WEEK >= 5 * DAY:
        return 0.0
    of_day = t % DAY
    return min(max(0.0, (of_day - 9 * HOUR + _RAMP) / _RAMP), 1.0, max(0.0, (18 * HOUR + _RAMP - of_day) / _RAMP))


def swing(*, seed: int = 0, weeks: float = 1.0, since: float = 0.0) -> Workload:  # noqa: ARG001 - has no chance
    """Return a sine that swings between nothing and 150 k every six hours; the seed does nothing."""
    return from_shape("swing", lambda t: 75e3 * (1 - math.cos(2 * math.pi * t / _SWING)), weeks * WEEK, since=since)


# What happens once or now and then, and several sources.

STEP_AT: Final = 8 * HOUR

UPSTREAM_OUTAGE: Final = (2 * DAY + 10 * HOUR, 2 * DAY + 12 * HOUR)
"""Wednesday from ten to twelve."""

CATCH_UP: Final = 0.5
"""What is held back comes afterwards with so many times the rate of what is new."""

SPIKE_LENGTH, SPIKE_FACTOR, SPIKES_A_DAY = 3 * MINUTE, 1.8, 6
BURST_LENGTH, BURST_FACTOR, BURSTS_A_DAY = 30 * MINUTE, 1.9, 4

_LITTLE: Final = 0.01
_SLOW: Final = 0.03
_OTHER: Final = 7919


def step(*, seed: int = 0, duration: float = WEEK, since: float = 0.0) -> Workload:
    """Return 60 k, and 120 k from Monday at eight on, with slow noise of 1 %."""
    noise = autoregressive(seed, _LITTLE)
    return from_shape("step", lambda t: (60e3 if t < STEP_AT else 120e3) * next(noise), duration, since=since)


def short_spikes(*, seed: int = 0, duration: float = WEEK, since: float = 0.0) -> Workload:
    """Return 70 k with six spikes of three minutes a day, 1.8 times as high, and slow noise of 3 %."""
    base = _level(seed, 70e3, duration, since)
    return _with_bursts("spikes", base, seed, SPIKES_A_DAY, SPIKE_LENGTH, SPIKE_FACTOR, since)


def bursts(*, seed: int = 0, duration: float = WEEK, since: float = 0.0) -> Workload:
    """Return 70 k with four bursts of half an hour a day, 1.9 times as high, and slow noise of 3 %."""
    base = _level(seed, 70e3, duration, since)
    return _with_bursts("bursts", base, seed, BURSTS_A_DAY, BURST_LENGTH, BURST_FACTOR, since)


def _level(seed: int, height: float, duration: float, since: float) -> Workload:
    noise = autoregressive(seed, _SLOW)
    return from_shape("level", lambda _: height * next(noise), duration, since=since)


def _with_bursts(
    name: str, base: Workload, seed: int, a_day: int, length: float, factor: float, since: float
) -> Workload:
    """Multiply a workload for so long, so many times a day, at instants that depend on the day and on nothing else."""
    rows = [list(row) for row in base.rows]
    minutes, first = round(length / base.step), round(since / base.step)
    per_day = round(DAY / base.step)
    for day in range(first // per_day, (first + len(rows)) // per_day + 1):
        for begin in _begins(seed, day, a_day, minutes, per_day):
            for number in range(begin - first, begin - first + minutes):
                if 0 <= number < len(rows):
                    rows[number] = [rate * factor for rate in rows[number]]
    return Workload(name, base.step, tuple(map(tuple, rows)))


def _begins(seed: int, day: int, count: int, length: int, per_day: int) -> Sequence[int]:
    """Return the steps of a day at which something begins, one in each equal part of the day, none over its end."""
    chance, part = rng_of(seed * _OTHER + day), per_day // count
    return [day * per_day + number * part + chance.randrange(part - length) for number in range(count)]


def upstream_outage(*, seed: int = 0, duration: float = WEEK, since: float = 0.0) -> Workload:
    """Return a daily sine between 50 k and 150 k that is cut off for two hours of the Wednesday, and then made up for.

    What was held back comes on top of what is new, half as fast as that, until all of it has come. Slow noise of 3 %.
    """
    noise, (begin, end) = autoregressive(seed, _SLOW), UPSTREAM_OUTAGE
    usual = from_shape("usual", lambda t: (100e3 + 50e3 * daily_sine(t)) * next(noise), duration, since=since)
    held, rows = 0.0, []
    for number, (rate,) in enumerate(usual.rows):
        if begin <= since + number * usual.step < end:
            held, come = held + rate, 0.0
        else:
            come = rate + min(held, CATCH_UP * rate)
            held -= come - rate
        rows.append((come,))
    return Workload("upstream-outage", usual.step, tuple(rows))


def opposite(*, seed: int = 0, duration: float = WEEK, since: float = 0.0) -> Workload:
    """Return two sources, of which one is highest by day, 60 k and 40 k more or less, and one by night, 40 k and 25 k.

    Each has slow noise of 3 % of its own.
    """
    by_day, by_night = autoregressive(seed, _SLOW), autoregressive(seed + _OTHER, _SLOW)
    return side_by_side(
        "opposite",
        from_shape("by day", lambda t: (60e3 + 40e3 * daily_sine(t)) * next(by_day), duration, since=since),
        from_shape("by night", lambda t: (40e3 - 25e3 * daily_sine(t)) * next(by_night), duration, since=since),
    )


def three_sources(*, seed: int = 0, duration: float = WEEK, since: float = 0.0) -> Workload:
    """Return office hours, 24 k and 72 k, one that is highest by night, 40 k and 25 k more or less, and bursts on 20 k.

    Each has noise of its own.
    """
    by_night = autoregressive(seed + _OTHER, _SLOW)
    return side_by_side(
        "three-sources",
        office(seed=seed, weeks=duration / WEEK, since=since).scaled(0.6),
        from_shape("by night", lambda t: (40e3 - 25e3 * daily_sine(t)) * next(by_night), duration, since=since),
        bursts(seed=seed + 2 * _OTHER, duration=duration, since=since).scaled(2 / 7),
    )


# What other evaluations have used.


def random_walk(*, seed: int = 0, hold: float = 10 * MINUTE, duration: float = 140 * MINUTE) -> Workload:
    """Return a random walk that begins at 1.25 M, goes at most 500 k at once, and stays within 0 and 2.5 M.

    Of "Evaluating Stream Processing Autoscalers" (DEBS 2024).
    """
    chance, rates = rng_of(seed), [1.25e6]
    while len(rates) * hold < duration:
        rates.append(min(max(0.0, rates[-1] + chance.uniform(-5e5, 5e5)), 2.5e6))
    return from_shape("random", lambda t: rates[int(t / hold)], duration)


def sine(*, seed: int = 0, peak: float = 60e3, cycles: int = 3, duration: float = 6 * HOUR) -> Workload:
    """Return a sine that swings between nothing and a peak; of the evaluation of Daedalus (2024), as the traffic is."""
    del seed  # has no chance
    return from_shape("sine", lambda t: peak / 2 * (1 - math.cos(2 * math.pi * cycles * t / duration)), duration)


def traffic(*, seed: int = 0, peak: float = 100e3, duration: float = 6 * HOUR) -> Workload:
    """Return a day of road traffic in less time: quiet at both ends, rush hours at a third and three quarters."""
    noise = autoregressive(seed, 0.03)

    def shape(t: float) -> float:
        x = t / duration
        rush = math.exp(-(((x - 1 / 3) / 0.07) ** 2)) + 0.9 * math.exp(-(((x - 3 / 4) / 0.1) ** 2))
        return (0.15 + 0.35 * math.sin(math.pi * x) ** 2 + 0.5 * rush) * next(noise)

    return from_shape("traffic", shape, duration).scaled_to(peak)


# By name.

_WEEKLY: Final[Mapping[str, Callable[..., Workload]]] = {
    "office": office,
    "week-sine": week_sine,
    "growth": growth,
    "holiday": holiday,
    "swing": swing,
}
"""Made of weeks, and of an instant at which they begin, so that it is known what was before."""

_EVENTFUL: Final[Mapping[str, Callable[..., Workload]]] = {
    "step": step,
    "spikes": short_spikes,
    "bursts": bursts,
    "upstream-outage": upstream_outage,
    "opposite": opposite,
    "three-sources": three_sources,
}
"""The same, made of seconds."""

_SHORT: Final[Mapping[str, Callable[..., Workload]]] = {"traffic": traffic, "random": random_walk, "sine": sine}
"""Shorter than a day, and repeated."""

WORKLOADS: Final[Mapping[str, Callable[..., Workload]]] = {**_WEEKLY, **_EVENTFUL, **_SHORT}
"""From a seed to a workload, by name."""

_OTHER_NOISE: Final = 1_000_003
"""Added to the seed: what was random before must not be what is random now."""


def make_workload(name: str, seed: int, seconds: float) -> Workload:
    """Make a built-in workload for so long; the beginning is that of the workload as it is by itself."""
    if name in _WEEKLY:
        return _WEEKLY[name](seed=seed, weeks=seconds / WEEK)
    if name in _EVENTFUL:
        return _EVENTFUL[name](seed=seed, duration=seconds)
    return fit_duration(_SHORT[name](seed=seed), seconds)


def past_workload(name: str, seed: int, weeks: int) -> Workload:
    """Return what arrived in the weeks before a built-in workload: the same shape with other noise.

    What happens once had not happened. Workloads that are shorter than a week were there again and again, up to where
    the workload begins.
    """
    if name in _WEEKLY:
        return _WEEKLY[name](seed=seed + _OTHER_NOISE, weeks=weeks, since=-weeks * WEEK)
    if name in _EVENTFUL:
        return _EVENTFUL[name](seed=seed + _OTHER_NOISE, duration=weeks * WEEK, since=-weeks * WEEK)
    once = _SHORT[name](seed=seed + _OTHER_NOISE)
    count = round(weeks * WEEK / once.step)
    return Workload(once.name, once.step, repeat(once, count)[-count:])
