"""Workloads in which something happens: steps, launches, spikes, bursts, an outage upstream; and several sources.

Each begins ``since`` seconds after a Monday midnight; below 0 that is before it, and before what happens once. The same
seed gives the same rates, and a longer workload begins as the shorter one does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from flink_autoscaler.pipeline.simulator.workloads.weekly import office
from flink_autoscaler.pipeline.simulator.workloads.workload import (
    DAY,
    HOUR,
    MINUTE,
    WEEK,
    Workload,
    autoregressive,
    chance_of,
    daily_sine,
    shaped,
    side_by_side,
)

STEP_AT: Final = 8 * HOUR
LAUNCH: Final = (10 * HOUR, 12 * HOUR)
"""When it begins to rise, and when it has risen."""

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
    return shaped("step", lambda t: (60e3 if t < STEP_AT else 120e3) * next(noise), duration, since=since)


def launch(*, seed: int = 0, duration: float = WEEK, since: float = 0.0) -> Workload:
    """Return 20 k that rise to 140 k within two hours of the Monday and stay there, with slow noise of 1 %."""
    noise, (begin, end) = autoregressive(seed, _LITTLE), LAUNCH

    def shape(t: float) -> float:
        risen = min(max(0.0, (t - begin) / (end - begin)), 1.0)
        return (20e3 + 120e3 * risen) * next(noise)

    return shaped("launch", shape, duration, since=since)


def short_spikes(*, seed: int = 0, duration: float = WEEK, since: float = 0.0) -> Workload:
    """Return 70 k with six spikes of three minutes a day, 1.8 times as high, and slow noise of 3 %."""
    base = _level(seed, 70e3, duration, since)
    return _raised("spikes", base, seed, SPIKES_A_DAY, SPIKE_LENGTH, SPIKE_FACTOR, since)


def bursts(*, seed: int = 0, duration: float = WEEK, since: float = 0.0) -> Workload:
    """Return 70 k with four bursts of half an hour a day, 1.9 times as high, and slow noise of 3 %."""
    base = _level(seed, 70e3, duration, since)
    return _raised("bursts", base, seed, BURSTS_A_DAY, BURST_LENGTH, BURST_FACTOR, since)


def _level(seed: int, height: float, duration: float, since: float) -> Workload:
    noise = autoregressive(seed, _SLOW)
    return shaped("level", lambda _: height * next(noise), duration, since=since)


def _raised(name: str, base: Workload, seed: int, a_day: int, length: float, factor: float, since: float) -> Workload:
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
    chance, part = chance_of(seed * _OTHER + day), per_day // count
    return [day * per_day + number * part + chance.randrange(part - length) for number in range(count)]


def upstream_outage(*, seed: int = 0, duration: float = WEEK, since: float = 0.0) -> Workload:
    """Return a daily sine between 50 k and 150 k that is cut off for two hours of the Wednesday, and then made up for.

    What was held back comes on top of what is new, half as fast as that, until all of it has come. Slow noise of 3 %.
    """
    noise, (begin, end) = autoregressive(seed, _SLOW), UPSTREAM_OUTAGE
    usual = shaped("usual", lambda t: (100e3 + 50e3 * daily_sine(t)) * next(noise), duration, since=since)
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
        shaped("by day", lambda t: (60e3 + 40e3 * daily_sine(t)) * next(by_day), duration, since=since),
        shaped("by night", lambda t: (40e3 - 25e3 * daily_sine(t)) * next(by_night), duration, since=since),
    )


def three_sources(*, seed: int = 0, duration: float = WEEK, since: float = 0.0) -> Workload:
    """Return office hours, 24 k and 72 k, one that is highest by night, 40 k and 25 k more or less, and bursts on 20 k.

    Each has noise of its own.
    """
    by_night = autoregressive(seed + _OTHER, _SLOW)
    return side_by_side(
        "three-sources",
        office(seed=seed, weeks=duration / WEEK, since=since).scaled(0.6),
        shaped("by night", lambda t: (40e3 - 25e3 * daily_sine(t)) * next(by_night), duration, since=since),
        bursts(seed=seed + 2 * _OTHER, duration=duration, since=since).scaled(2 / 7),
    )
