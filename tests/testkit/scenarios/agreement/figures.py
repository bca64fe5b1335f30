"""What a run comes to: slot-hours, rescales, minutes late; by Flink's own words, by the history, by the simulator."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean
from typing import Any, Final

from flink_autoscaler.pipeline.simulator import BacktestResult
from testkit.clusters.flink.curve import Curve
from testkit.scenarios.agreement.recording import Look

HOUR: Final = 3600.0
MINUTE: Final = 60.0

_GRID: Final = 0.1
_FEW: Final = 1.0
"""Record that is on its way, and does not wait."""


@dataclass(frozen=True, slots=True)
class Course:
    """How a job was scaled.

    Attributes:
        sizes: Seconds of the curve and the slots that the job held from then on.
        rescales: Seconds of the curve, and slots afterwards.
        lags: Seconds of the curve, and the age in seconds of the oldest record that waited; empty where not known.
    """

    sizes: Sequence[tuple[float, int]]
    rescales: Sequence[tuple[float, int]]
    lags: Sequence[tuple[float, float]] = ()

    def figures(self, end: float, limit: float) -> Figures:
        """Return what it comes to from the second 0 to an end, with a lag in seconds that is acceptable."""
        late = [(at, float(lag > limit)) for at, lag in self.lags]
        return Figures(
            integral(self.sizes, end) / HOUR,
            sum(0 <= at <= end for at, _ in self.rescales),
            integral(late, end) / MINUTE if late else None,
        )


@dataclass(frozen=True, slots=True)
class Figures:
    """What a course comes to.

    Attributes:
        minutes_late: With more lag than is acceptable; None where that cannot be told.
    """

    slot_hours: float
    rescales: int
    minutes_late: float | None


def on_average(runs: Sequence[Figures]) -> Figures:
    """Return the mean of each figure over several runs."""
    late = [each.minutes_late for each in runs if each.minutes_late is not None]
    slot_hours, rescales = fmean(each.slot_hours for each in runs), fmean(each.rescales for each in runs)
    return Figures(slot_hours, round(rescales), fmean(late) if late else None)


def seen(looks: Sequence[Look], curve: Curve) -> Course:
    """Return the course of one job by what Flink said of it; while it did not tell, all was as before."""
    sizes, size = [], 1
    for look in looks:
        size = max(look.parallelism.values(), default=size) or size
        sizes.append((look.at, size))
    running = [(look.at, look.parallelism) for look in looks if look.is_running]
    rescales = [(at, max(after.values())) for (_, before), (at, after) in pairwise(running) if before != after]
    return Course(sizes, rescales, list(lags(looks, curve)))


def by_history(vertices: Iterable[Mapping[str, Any]], rescales: Iterable[Mapping[str, Any]], start: float) -> Course:
    """Return the course of one job by rows of its history, with the epoch seconds of the second 0.

    A pass finds the size that the job has by then; what the history has of lags is records, not their age.
    """
    sizes: dict[float, int] = {}
    for row in vertices:
        at = row["ts"].timestamp() - start
        sizes[at] = max(sizes.get(at, 0), row["parallelism"] or 0)
    reached = {
        row["decided_at"].timestamp() - start: max(each["parallelism"] for each in row["reached"])
        for row in rescales
        if row["stage"] == "reached"
    }
    return Course(sorted(sizes.items()), sorted(reached.items()))


def of_simulation(result: BacktestResult, begin: float) -> Course:
    """Return the course of a simulated job that began at a second of the curve."""
    trace, ends, at = result.trace, list[float](), begin
    for seconds in trace.seconds:
        ends.append(at)
        at += seconds
    rescales = [(begin + each.running, each.slots_after) for each in result.rescales]
    return Course(list(zip(ends, trace.slots, strict=True)), rescales, list(zip(ends, trace.lags, strict=True)))


def lags(looks: Sequence[Look], curve: Curve) -> Iterator[tuple[float, float]]:
    """Yield instants with the age in seconds of the oldest record that waits.

    While Flink does not tell how many wait, nothing is taken in.
    """
    arrival = arrivals(curve, max((look.at for look in looks), default=0.0))
    taken = 0.0
    for look in looks:
        come = curve.arrived(look.at)
        if look.is_running and look.pending is not None:
            taken = max(0.0, come - look.pending)
        elif look.at < 0:
            taken = come
        yield look.at, max(0.0, look.at - arrival(taken)) if come - taken > _FEW else 0.0


def arrivals(curve: Curve, end: float) -> Callable[[float], float]:
    """Return a function that tells when a record arrived, by its number, to a tenth of a second."""
    begin = curve.points[0][0]
    instants = [begin + number * _GRID for number in range(max(0, math.ceil((end - begin) / _GRID)) + 1)]
    arrived = [curve.arrived(instant) for instant in instants]

    def arrival(number: float) -> float:
        return instants[min(bisect_left(arrived, number), len(instants) - 1)]

    return arrival


def integral(points: Iterable[tuple[float, float]], end: float) -> float:
    """Return values, times how long they hold, from 0 to an end: each until the next, the first one from 0 on."""
    ordered = list(points)
    if not ordered:
        return 0.0
    total = ordered[0][1] * max(0.0, min(ordered[0][0], end))
    for (since, value), (until, _) in pairwise([*ordered, (end, 0.0)]):
        total += value * max(0.0, min(until, end) - max(since, 0.0))
    return total
