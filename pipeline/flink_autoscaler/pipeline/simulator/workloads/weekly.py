"""Workloads of jobs that people use: days, weekends, office hours, holidays, growth, and swings.

Each begins ``since`` seconds after a Monday midnight; below 0 that is before it. The same seed gives the same rates.
"""

from __future__ import annotations

import math
from typing import Final

from flink_autoscaler.pipeline.simulator.workloads.workload import (
    DAY,
    HOUR,
    MINUTE,
    WEEK,
    Shape,
    Workload,
    autoregressive,
    daily_sine,
    shaped,
)

HOLIDAY: Final = 3 * DAY
"""When the holiday of ``holiday`` begins: on the first Thursday."""

WEEKLY_GROWTH: Final = 1.1

_RAMP: Final = 10 * MINUTE
_SWING: Final = 6 * HOUR


def week_sine(*, seed: int = 0, weeks: float = 1.0, since: float = 0.0) -> Workload:
    """Return a daily sine between 50 k and 150 k, a quarter less at weekends, with slow noise of 3 %."""
    noise = autoregressive(seed, 0.03)
    return shaped("week-sine", lambda t: _days(t) * next(noise), weeks * WEEK, since=since)


def growth(*, seed: int = 0, weeks: float = 1.0, since: float = 0.0) -> Workload:
    """Return the same, 10 % more from week to week."""
    noise = autoregressive(seed, 0.03)

    def shape(t: float) -> float:
        return _days(t) * math.pow(WEEKLY_GROWTH, t / WEEK) * next(noise)

    return shaped("growth", shape, weeks * WEEK, since=since)


def _days(t: float) -> float:
    share = 0.75 if t % WEEK >= 5 * DAY else 1.0
    return (100e3 + 50e3 * daily_sine(t)) * share


def office(*, seed: int = 0, weeks: float = 5.0, since: float = 0.0) -> Workload:
    """Return office hours: 40 k, and 120 k from Monday to Friday, 9 to 18 h, growing by 3 % a week, noise 5 %.

    On top comes a daily sine, a tenth of the night's rate high. Growth counts from the Monday on; before there is less.
    """
    return shaped("office", _office(seed, 1.03, frozenset()), weeks * WEEK, since=since)


def holiday(*, seed: int = 0, weeks: float = 1.0, since: float = 0.0) -> Workload:
    """Return office hours that do not grow, with a first Thursday on which the office stays closed."""
    return shaped("holiday", _office(seed, 1.0, frozenset({HOLIDAY // DAY})), weeks * WEEK, since=since)


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
    return shaped("swing", lambda t: 75e3 * (1 - math.cos(2 * math.pi * t / _SWING)), weeks * WEEK, since=since)
