"""Bounds for the slot time that a workload takes: one that no autoscaler beats, and one that every one should beat."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from typing import Final

from flink_autoscaler.core.decide.filters import late_seconds
from flink_autoscaler.core.model.metrics import VertexId
from flink_autoscaler.pipeline.simulator.model import JobModel, VertexModel
from flink_autoscaler.pipeline.simulator.workloads import Workload

_TOLERANCE: Final = 1e-9


def area(job: JobModel, workload: Workload) -> float:
    """Return the slot-seconds that the work itself takes; nobody who serves everything needs less."""
    return math.fsum(busy_slots(job, workload)) * workload.step


def busy_slots(job: JobModel, workload: Workload) -> list[float]:
    """Return the slots that the work itself keeps busy, by step: of every group those of its most laborious vertex."""
    rates = {vertex.vertex_id: vertex.capacity(1) for vertex in job.vertices}
    busy = [{v: demand / rates[v] for v, demand in job.demand(row).items()} for row in workload.rows]
    work = {v: math.fsum(step[v] for step in busy) for v in rates}
    most = [max(group, key=work.__getitem__) for group in job.groups]
    return [sum(step[v] for v in most) for step in busy]


def instant(job: JobModel, workload: Workload) -> float:
    """Return the slot-seconds of somebody who rescales at any time, at once and for nothing, so that nothing waits.

    Raises:
        ValueError: Some demand is more than a vertex can take.
    """
    return sum(slots_for(job, row) for row in workload.rows) * workload.step


def static_peak(job: JobModel, workload: Workload) -> float:
    """Return the slot-seconds of somebody who never rescales and is always large enough.

    Raises:
        ValueError: Some demand is more than a vertex can take.
    """
    return max(slots_for(job, row) for row in workload.rows) * workload.duration


def slots_for(job: JobModel, arrivals: Sequence[float]) -> int:
    """Return the least slots with which nothing waits.

    Raises:
        ValueError: The demand is more than a vertex can take.
    """
    demand = job.demand(arrivals)
    return job.slots({v.vertex_id: parallelism_for(v, demand[v.vertex_id]) for v in job.vertices})


def parallelism_for(vertex: VertexModel, demand: float) -> int:
    """Return the least parallelism whose capacity is a demand in records/s.

    Raises:
        ValueError: There is none up to the greatest parallelism.
    """
    for parallelism, capacity in enumerate(_capacities(vertex), start=1):
        if capacity >= demand * (1 - _TOLERANCE):
            return parallelism
    raise ValueError(f"{vertex.name} cannot take {demand:.0f} records/s at any parallelism")


@cache
def _capacities(vertex: VertexModel) -> tuple[float, ...]:
    return tuple(vertex.capacity(parallelism) for parallelism in range(1, vertex.max_parallelism + 1))


@dataclass(frozen=True, slots=True)
class OracleTerms:
    """Cost of rescales for the oracle, which knows the future.

    Attributes:
        bucket: Seconds for which a size is kept at least.
        outage: Seconds that the job is away for a rescale.
        replay: Age in seconds of the checkpoint that is restored.
        late_weight: Slot-seconds that a second above the lag limit costs; 0 minds slots only.
        slo_lag: That limit, seconds.
    """

    bucket: float = 300.0
    outage: float = 60.0
    replay: float = 0.0
    late_weight: float = 0.0
    slo_lag: float = 30.0


@dataclass(frozen=True, slots=True)
class OraclePlan:
    """The cheapest sizes for a known future.

    Attributes:
        cost: Slot-seconds, with those that outages and lateness are charged.
        sizes: Slots by bucket.
        bucket_steps: Steps of the workload in a bucket.
    """

    cost: float
    sizes: tuple[int, ...]
    bucket_steps: int

    @property
    def rescales(self) -> int:
        """Number of changes of size."""
        return sum(1 for _ in groupby(self.sizes)) - 1

    def by_step(self, steps: int) -> list[int]:
        """Return the slots in so many steps of the workload."""
        return [self.sizes[step // self.bucket_steps] for step in range(steps)]


def oracle(job: JobModel, workload: Workload, terms: OracleTerms = OracleTerms()) -> OraclePlan:
    """Return the cheapest sequence of sizes in which no bucket's peak ever waits, by dynamic programming.

    All vertices have the same parallelism, which costs nothing extra where they share slots.

    Args:
        job: In one slot-sharing group.
        workload: Known in advance.
        terms: What rescales cost.

    Raises:
        ValueError: The job has several slot-sharing groups, or a demand is more than a vertex can take.
    """
    if len(job.groups) != 1:
        raise ValueError("the oracle knows jobs of one slot-sharing group only")
    bucket_steps = max(1, round(terms.bucket / workload.step))
    buckets = list(_buckets(job, workload, bucket_steps))
    sizes = range(1, _greatest(job, buckets, terms) + 1)
    capacities = [{v.vertex_id: v.capacity(size) for v in job.vertices} for size in sizes]
    costs = [0.0] * len(sizes)
    came_from: list[list[int]] = []
    for number, (seconds, demand) in enumerate(buckets):
        loads = [max(demand[v] / capacity for v, capacity in each.items()) for each in capacities]
        costs, origins = _extend(costs, loads, seconds, terms, is_first=number == 0)
        came_from.append(origins)
    return OraclePlan(min(costs), _traced(costs, came_from), bucket_steps)


def _buckets(job: JobModel, workload: Workload, count: int) -> Iterator[tuple[float, Mapping[VertexId, float]]]:
    """Yield the length of every bucket, of which the last may be shorter, and the peak demand in it by vertex."""
    for first in range(0, len(workload.rows), count):
        demands = [job.demand(row) for row in workload.rows[first : first + count]]
        yield len(demands) * workload.step, {v: max(demand[v] for demand in demands) for v in demands[0]}


def _greatest(job: JobModel, buckets: Sequence[tuple[float, Mapping[VertexId, float]]], terms: OracleTerms) -> int:
    """Return a size with which a rescale is possible in every bucket, or at least no rescale is needed."""
    peaks = {v: max(demand[v] for _, demand in buckets) for v in buckets[0][1]}
    least = _all_for(job, peaks)
    share = max(terms.bucket - terms.outage, 0.0) / terms.bucket
    if not share:
        return least
    most = min(v.max_parallelism for v in job.vertices)
    try:
        while_away = _all_for(job, {v: peak / share for v, peak in peaks.items()})
    except ValueError:
        while_away = most
    return max(least, min(most, max(while_away, math.ceil(least / share))))


def _all_for(job: JobModel, demand: Mapping[VertexId, float]) -> int:
    """Return the least parallelism at which all vertices can take what they have to."""
    return max(parallelism_for(v, demand[v.vertex_id]) for v in job.vertices)


def _extend(
    costs: Sequence[float], loads: Sequence[float], seconds: float, terms: OracleTerms, *, is_first: bool
) -> tuple[list[float], list[int]]:
    """Return the least cost of ending a bucket with every size, and the size before it."""
    cheapest = min(range(len(costs)), key=costs.__getitem__)
    extended, origins = [], []
    for number, load in enumerate(loads):
        size = number + 1
        stay = costs[number] if load <= 1 + _TOLERANCE else math.inf
        change = math.inf if is_first else costs[cheapest] + _change_cost(size, load, seconds, terms)
        extended.append(min(stay, change) + size * seconds)
        origins.append(number if stay <= change else cheapest)
    return extended, origins


def _change_cost(size: int, load: float, seconds: float, terms: OracleTerms) -> float:
    """Return what a rescale to a size costs at the beginning of a bucket; infinite where its backlog would stay."""
    if load * seconds > (seconds - terms.outage) * (1 + _TOLERANCE):
        return math.inf
    late = late_seconds(load, 1.0, terms.outage + terms.replay, terms.slo_lag) if terms.late_weight else 0.0
    return size * terms.outage + terms.late_weight * late


def _traced(costs: Sequence[float], came_from: Sequence[Sequence[int]]) -> tuple[int, ...]:
    number = min(range(len(costs)), key=costs.__getitem__)
    sizes = []
    for origins in reversed(came_from):
        sizes.append(number + 1)
        number = origins[number]
    return tuple(reversed(sizes))
