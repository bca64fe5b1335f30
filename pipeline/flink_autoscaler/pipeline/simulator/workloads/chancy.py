"""Workloads that nobody can predict: noise around a level, random walks, counts that jump, and loads of nearly nothing.

The same seed gives the same rates, and a longer workload begins as the shorter one does.
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Final

from flink_autoscaler.pipeline.simulator.workloads.workload import (
    MINUTE,
    WEEK,
    Workload,
    autoregressive,
    chance_of,
    recorded,
    shaped,
)

LEVEL: Final = 100e3
PEAK: Final = 125e3
"""Records/s at which counts and sparse loads end; 25 slots of the job that workloads are compared on."""

COUNTED: Final = 5
"""Minutes that a count covers."""

JUMPS: Final = (0.3, 1.4)
"""By how much the logarithm of a count differs from the one before, at least and at most."""

WALKED: Final = (30e3, 150e3)

_MOST_OFF: Final = 1.5
_BACK: Final = 0.6
_WALK: Final = 0.01
_MEMORY: Final = 0.9

_IDLE: Final = 100.0
_BURST_CHANCE: Final = 1 / 20
_LONGEST_BURST: Final = 6
_LEAST_BURST: Final = 10e3
_TAIL: Final = 1.1


def flat(*, seed: int = 0, deviation: float = 0.1, is_correlated: bool = False, duration: float = WEEK) -> Workload:
    """Return 100 k with noise: white, or such that it remembers nine tenths of itself from minute to minute."""
    noise = autoregressive(seed, deviation, _MEMORY if is_correlated else 0.0)
    kind = "correlated" if is_correlated else "white"
    return shaped(f"flat-{kind}-{deviation * 100:.0f}", lambda _: LEVEL * next(noise), duration)


def walk(*, seed: int = 0, duration: float = WEEK) -> Workload:
    """Return a random walk that changes by about 1 % a minute and turns back at 30 k and at 150 k."""
    chance, (least, most) = chance_of(seed), map(math.log, WALKED)
    place, rates = (least + most) / 2, []
    for _ in range(max(1, round(duration / MINUTE))):
        rates.append(math.exp(place))
        place += chance.gauss(0, _WALK)
        place = 2 * least - place if place < least else 2 * most - place if place > most else place
    return recorded("walk", rates)


def counts(*, seed: int = 0, duration: float = WEEK) -> Workload:
    """Return counts of five minutes of which each is far from the one before; rates in between lie on a line.

    The logarithm jumps by 0.3 to 1.4, up or down, more often back to where it usually is. 125 k are the most.
    """
    minutes, chance = max(1, round(duration / MINUTE)), chance_of(seed)
    usual, off = PEAK * math.exp(-_MOST_OFF), 0.0
    points = [usual]
    while (len(points) - 1) * COUNTED < minutes:
        jump = chance.uniform(*JUMPS)
        is_back = chance.random() < _BACK or abs(off) + jump > _MOST_OFF
        off += -math.copysign(jump, off) if is_back else math.copysign(jump, off)
        points.append(usual * math.exp(off))
    return recorded("counts", between(points, COUNTED)[:minutes])


def between(points: list[float], steps: int) -> list[float]:
    """Return values on the lines from point to point, so many steps for each; the last point itself is left out."""
    lines = pairwise(points)
    return [a + (b - a) * number / steps for a, b in lines for number in range(steps)]


def sparse(*, seed: int = 0, duration: float = WEEK) -> Workload:
    """Return next to nothing, with a burst of one to six minutes every twenty or so, most of them small.

    Their heights have a long tail that ends at 125 k.
    """
    chance, rates = chance_of(seed), list[float]()
    minutes = max(1, round(duration / MINUTE))
    while len(rates) < minutes:
        if chance.random() >= _BURST_CHANCE:
            rates.append(_IDLE * chance.random())
            continue
        height = min(PEAK, _LEAST_BURST * chance.paretovariate(_TAIL))
        rates.extend([height] * chance.randint(1, _LONGEST_BURST))
    return recorded("sparse", rates[:minutes])
