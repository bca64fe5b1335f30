"""Loads of benchmarks alone: what nobody can predict, a launch, and recorded counts.

Of those that are made the same seed gives the same rates, and a longer one begins as the shorter one does.
"""

from __future__ import annotations

import csv
import gzip
import math
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Final, TextIO

from flink_autoscaler.pipeline.simulator import workloads
from flink_autoscaler.pipeline.simulator.workloads import (
    HOUR,
    MINUTE,
    WEEK,
    WORKLOADS,
    Workload,
    autoregressive,
    from_rates,
    from_shape,
    rng_of,
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
    return from_shape(f"flat-{kind}-{deviation * 100:.0f}", lambda _: LEVEL * next(noise), duration)


def walk(*, seed: int = 0, duration: float = WEEK) -> Workload:
    """Return a random walk that changes by about 1 % a minute and turns back at 30 k and at 150 k."""
    chance, (least, most) = rng_of(seed), map(math.log, WALKED)
    place, rates = (least + most) / 2, []
    for _ in range(max(1, round(duration / MINUTE))):
        rates.append(math.exp(place))
        place += chance.gauss(0, _WALK)
        place = 2 * least - place if place < least else 2 * most - place if place > most else place
    return from_rates("walk", rates)


def counts(*, seed: int = 0, duration: float = WEEK) -> Workload:
    """Return counts of five minutes of which each is far from the one before; rates in between lie on a line.

    The logarithm jumps by 0.3 to 1.4, up or down, more often back to where it usually is. 125 k are the most.
    """
    minutes, chance = max(1, round(duration / MINUTE)), rng_of(seed)
    usual, off = PEAK * math.exp(-_MOST_OFF), 0.0
    points = [usual]
    while (len(points) - 1) * COUNTED < minutes:
        jump = chance.uniform(*JUMPS)
        is_back = chance.random() < _BACK or abs(off) + jump > _MOST_OFF
        off += -math.copysign(jump, off) if is_back else math.copysign(jump, off)
        points.append(usual * math.exp(off))
    return from_rates("counts", between(points, COUNTED)[:minutes])


def between(points: list[float], steps: int) -> list[float]:
    """Return values on the lines from point to point, so many steps for each; the last point itself is left out."""
    lines = pairwise(points)
    return [a + (b - a) * number / steps for a, b in lines for number in range(steps)]


def sparse(*, seed: int = 0, duration: float = WEEK) -> Workload:
    """Return next to nothing, with a burst of one to six minutes every twenty or so, most of them small.

    Their heights have a long tail that ends at 125 k.
    """
    chance, rates = rng_of(seed), list[float]()
    minutes = max(1, round(duration / MINUTE))
    while len(rates) < minutes:
        if chance.random() >= _BURST_CHANCE:
            rates.append(_IDLE * chance.random())
            continue
        height = min(PEAK, _LEAST_BURST * chance.paretovariate(_TAIL))
        rates.extend([height] * chance.randint(1, _LONGEST_BURST))
    return from_rates("sparse", rates[:minutes])


def launch(*, seed: int = 0, duration: float = WEEK) -> Workload:
    """Return 20 k that rise to 140 k between ten and twelve of a Monday and stay there, with slow noise of 1 %."""
    noise = autoregressive(seed, 0.01)
    return from_shape(
        "launch", lambda t: (20e3 + 120e3 * min(max(0.0, t / HOUR - 10) / 2, 1.0)) * next(noise), duration
    )


MADE: Final[Mapping[str, Callable[..., Workload]]] = {
    "launch": launch,
    "flat-white-10": partial(flat, deviation=0.1),
    "flat-white-20": partial(flat, deviation=0.2),
    "flat-correlated-10": partial(flat, deviation=0.1, is_correlated=True),
    "flat-correlated-20": partial(flat, deviation=0.2, is_correlated=True),
    "walk": walk,
    "counts": counts,
    "sparse": sparse,
}
NAMES: Final = (*WORKLOADS, *MADE)
"""Loads that are made, built in or here."""


def made(name: str, seed: int, seconds: float) -> Workload:
    """Make one of ``NAMES`` for so long."""
    return MADE[name](seed=seed, duration=seconds) if name in MADE else workloads.make_workload(name, seed, seconds)


# Recorded elsewhere: counts with their instants, in files of comma-separated values.

COLUMNS: Final = ("timestamp", "value")
_COUNT_SECONDS: Final = 300.0
"""Seconds that a count covers."""

Point = tuple[float, float]
"""Epoch seconds and count."""


def read_trace(path: Path, name: str) -> Workload:
    """Read a series with the columns ``COLUMNS``, compressed or not, as a workload of minutes.

    The rows may be in any order, and those of one instant are one count, of five minutes. Between instants rates
    lie on a line, so that a hole becomes a slope.

    Raises:
        OSError: The file cannot be read.
        ValueError: It has other columns, or less than two counts, or some row is not an instant and a count.
    """
    with _opened(path) as lines:
        points = sorted(_points(lines, path).items())
    if len(points) < 2:
        raise ValueError(f"{path}: a recorded load needs two counts at least")
    return from_rates(name, [count / _COUNT_SECONDS for count in _by_minute(points)])


def _opened(path: Path) -> TextIO:
    if path.suffix == ".gz":
        return gzip.open(path, "rt", encoding="utf-8", newline="")
    return path.open(encoding="utf-8", newline="")


def _points(lines: Iterable[str], path: Path) -> dict[float, float]:
    rows = csv.reader(lines)
    if tuple(next(rows, ())) != COLUMNS:
        raise ValueError(f"{path}: the first line has to be {','.join(COLUMNS)}")
    points: dict[float, float] = {}
    for number, row in enumerate(rows, start=2):
        try:
            instant, count = row
            at, value = datetime.fromisoformat(instant).replace(tzinfo=UTC).timestamp(), float(count)
        except ValueError as error:
            raise ValueError(f"{path}, line {number}: {error}") from error
        points[at] = points.get(at, 0.0) + value
    return points


def _by_minute(points: list[Point]) -> list[float]:
    """Return the value at the beginning of every minute from the first point to the last."""
    instants = [at for at, _ in points]
    minutes = math.floor((instants[-1] - instants[0]) / MINUTE)
    return [_on_line(points, instants, instants[0] + number * MINUTE) for number in range(minutes + 1)]


def _on_line(points: list[Point], instants: list[float], at: float) -> float:
    after = min(max(1, bisect_right(instants, at)), len(points) - 1)
    (before_at, before), (after_at, then) = points[after - 1], points[after]
    return before + (then - before) * (at - before_at) / (after_at - before_at)
