"""The sizes that a job can have, and the demand up to which each keeps pace.

A size is worth as much as its weakest vertex. What alignment would round away is not offered, and where subtasks share
key groups or partitions, a size counts for what its busiest subtask can do.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate
from typing import Final

from flink_autoscaler.core.model.metrics import VertexId
from flink_autoscaler.core.model.value import replace, value
from flink_autoscaler.core.policies.slo.arrivals import ObservedVertex, SloSample
from flink_autoscaler.core.policies.slo.capacity import SubtaskCapacity, effective_subtasks
from flink_autoscaler.core.policies.slo.constants import CONSTANTS

_MAX_SUBTASKS: Final = 32768


@value
class Level:
    """A size of the job.

    Attributes:
        slots: What it holds.
        capacity: Demand up to which it keeps pace.
        parallelism: By vertex.
    """

    slots: int
    capacity: float
    parallelism: Mapping[VertexId, int]


@dataclass(frozen=True, slots=True)
class Levels:
    """Sizes among which to choose.

    Attributes:
        slots: Ascending, each once.
        capacities: Of each of them, ascending.
        vector_of: Gives the parallelism by vertex for a capacity; it takes time, so it is asked when needed.
        is_limited: Whether bounds keep the job from being larger than the last of them.
    """

    slots: tuple[int, ...]
    capacities: tuple[float, ...]
    vector_of: Callable[[float], Mapping[VertexId, int]]
    is_limited: bool = False

    def index(self, slots: int) -> int:
        """Return the place of the least level that has as many slots, the last one if none has."""
        return min(bisect_left(self.slots, slots), len(self.slots) - 1)

    def level(self, index: int) -> Level:
        """Return the level at a place."""
        capacity = self.capacities[index]
        return Level(self.slots[index], capacity, self.vector_of(capacity))


@value
class VertexCapacity:
    """What a vertex can do, in demand of the job.

    Attributes:
        vertex: Its bounds.
        capacity: Of its subtasks.
        share: Records/s that one slot equivalent of demand brings it.
        spare: Times what it needs that it gets where that is free.
    """

    vertex: ObservedVertex
    capacity: SubtaskCapacity
    share: float
    spare: float = CONSTANTS.spare

    def at(self, parallelism: int) -> float:
        """Return the demand up to which it keeps pace."""
        subtasks = effective_subtasks(parallelism, self.vertex.groups)
        return self.capacity.rate(subtasks) * subtasks / self.share

    def series(self, grid: Sequence[int]) -> list[float]:
        """Return the demand up to which it keeps pace with at most as many subtasks, by parallelism."""
        vertex, slope = self.vertex, self.capacity.slope
        one = self.capacity.rate(1.0) / self.share
        usable: Sequence[int] = grid
        if vertex.allowed or grid[-1] > vertex.greatest:
            usable = [max_usable_subtasks(vertex, each) for each in grid]
        subtasks = (
            usable if vertex.groups is None else [effective_subtasks(max(each, 1), vertex.groups) for each in usable]
        )
        reached = [one * each ** (1.0 - slope) for each in subtasks]
        if not usable[0]:
            reached = [each if used else 0.0 for each, used in zip(reached, usable, strict=True)]
        return list(accumulate(reached, max))

    def subtasks_for(self, demand: float) -> int:
        """Return how many subtasks certainly keep pace, bounds aside."""
        one = self.capacity.rate(1.0) / self.share
        exponent = 1.0 / (1.0 - self.capacity.slope)
        needed = exponent * math.log(max(demand / one, 1.0))
        uneven = 1 if self.vertex.groups is None else 2
        return min(uneven * math.ceil(math.exp(min(needed, math.log(_MAX_SUBTASKS)))), _MAX_SUBTASKS)


def max_usable_subtasks(vertex: ObservedVertex, slots: int) -> int:
    """Return how many subtasks a vertex may have at most in that many slots, 0 where alignment leaves none."""
    most = min(slots, vertex.greatest)
    if not vertex.allowed:
        return most
    place = bisect_right(vertex.allowed, most)
    return vertex.allowed[place - 1] if place else 0


@dataclass(frozen=True, slots=True)
class _Group:
    """Vertices that share slots.

    Attributes:
        grid: Slots, ascending.
        reached: Demand up to which the group keeps pace, by slots.
        series: The same by vertex; without those of which nothing is known.
        vertices: All of them.
        spares: Times what they need that vertices get where that is free; of those of which something is known.
    """

    grid: tuple[int, ...]
    reached: Sequence[float]
    series: Mapping[VertexId, Sequence[float]]
    vertices: Mapping[VertexId, ObservedVertex]
    spares: Mapping[VertexId, float] = field(default_factory=dict)

    def place(self, demand: float) -> int:
        """Return the first place in the grid that keeps pace with a demand, the last one if none does."""
        return min(bisect_left(self.reached, demand), len(self.grid) - 1)

    def vector(self, demand: float) -> dict[VertexId, int]:
        """Return the parallelism of every vertex, some more than it needs where that is free."""
        place = self.place(demand)
        return {vertex_id: self._parallelism(vertex_id, demand, place) for vertex_id in self.vertices}

    def _parallelism(self, vertex_id: VertexId, demand: float, place: int) -> int:
        vertex, series = self.vertices[vertex_id], self.series.get(vertex_id)
        if series is None:
            return max(min(vertex.parallelism, self.grid[place]), vertex.least)
        found = self.grid[bisect_left(series, min(self.spares[vertex_id] * demand, series[place]), 0, place)]
        return max(max_usable_subtasks(vertex, found), vertex.least)


def vertex_capacities(
    vertices: Mapping[VertexId, ObservedVertex],
    capacities: Mapping[VertexId, SubtaskCapacity],
    mix: Mapping[VertexId, float],
    max_mix: Mapping[VertexId, float],
) -> dict[VertexId, VertexCapacity]:
    """Return what the vertices can do of which something is known.

    Args:
        vertices: All of the job.
        capacities: Of their subtasks.
        mix: Records/s that one slot equivalent of demand brings to each of them.
        max_mix: The greatest of these lately.
    """
    return {
        key: VertexCapacity(
            vertex, capacities[key], mix[key], CONSTANTS.spare * max(max_mix.get(key, 0.0) / mix[key], 1.0)
        )
        for key, vertex in vertices.items()
        if key in capacities and mix.get(key, 0.0) > 0.0
    }


def levels(
    vertices: Mapping[VertexId, ObservedVertex], known: Mapping[VertexId, VertexCapacity], reach: tuple[float, float]
) -> Levels | None:
    """Return the sizes that the job can have; None where nothing is known of any vertex.

    Args:
        vertices: All of the job.
        known: See :func:`vertex_capacities`.
        reach: Least and greatest demand that is of interest. Bounds of vertices may end the levels before.
    """
    if not known:
        return None
    members: dict[str, dict[VertexId, ObservedVertex]] = defaultdict(dict)
    for vertex_id, vertex in vertices.items():
        members[vertex.slot_group][vertex_id] = vertex
    groups = [_group(each, known, reach) for each in members.values()]
    limit = min(each.reached[-1] for each in groups)
    found = dict(_sizes(groups, reach, limit))
    return Levels(tuple(found), tuple(found.values()), partial(_vector, groups), is_limited=limit < reach[1])


def _vector(groups: Iterable[_Group], demand: float) -> dict[VertexId, int]:
    return {vertex_id: found for group in groups for vertex_id, found in group.vector(demand).items()}


def _sizes(groups: Sequence[_Group], reach: tuple[float, float], limit: float) -> Iterable[tuple[int, float]]:
    """Give slots and capacity of every size, ascending; of equal slots the greatest capacity comes last."""
    demands = sorted({min(each, limit) for group in groups for each in group.reached if each < math.inf} or {limit})
    first = bisect_left(demands, reach[0])
    last = bisect_left(demands, reach[1])
    for demand in demands[min(first, len(demands) - 1) : last + 1]:
        yield sum(group.grid[group.place(demand)] for group in groups), demand


def _group(
    vertices: Mapping[VertexId, ObservedVertex], known: Mapping[VertexId, VertexCapacity], reach: tuple[float, float]
) -> _Group:
    strong = {vertex_id: known[vertex_id] for vertex_id in vertices if vertex_id in known}
    if not strong:
        slots = max(each.parallelism for each in vertices.values())
        return _Group((slots,), (math.inf,), {}, vertices)
    grid = _grid(vertices.values(), strong.values(), reach)
    series = {vertex_id: each.series(grid) for vertex_id, each in strong.items()}
    reached = [min(each) for each in zip(*series.values(), strict=True)]
    start = next((place for place, each in enumerate(reached) if each > 0.0), len(grid) - 1)
    series = {vertex_id: each[start:] for vertex_id, each in series.items()}
    spares = {vertex_id: each.spare for vertex_id, each in strong.items()}
    return _Group(grid[start:], reached[start:], series, vertices, spares)


def _grid(
    vertices: Iterable[ObservedVertex], strong: Iterable[VertexCapacity], reach: tuple[float, float]
) -> tuple[int, ...]:
    vertices, strong = tuple(vertices), tuple(strong)
    least = max([1, *(each.least for each in vertices)])
    greatest = max([least, *(each.greatest for each in vertices)])
    low = max(each.subtasks_for(reach[0]) // (1 if each.vertex.groups is None else 2) for each in strong) - 2
    high = min(max(max(each.subtasks_for(reach[1]) for each in strong) + 1, least), greatest)
    low = max(min(low, high), least)
    found = {high, *_steps(low, high)}
    for each in vertices:
        found.update(range_of(each.allowed or (), low, high))
        found.add(min(max(each.greatest, low), high))
    return tuple(sorted(each for each in found if least <= each <= greatest))


def range_of(parallelisms: Sequence[int], low: int, high: int) -> Sequence[int]:
    """Return those within bounds, and the next one above, since what is allowed may have wide gaps."""
    return parallelisms[bisect_left(parallelisms, low) : bisect_left(parallelisms, high) + 1]


def _steps(low: int, high: int) -> Iterable[int]:
    each = low
    while each < high:
        yield each
        each = each + 1 if each < CONSTANTS.fine else math.ceil(each * CONSTANTS.coarse)


def present_level(vertices: Mapping[VertexId, ObservedVertex], known: Mapping[VertexId, VertexCapacity]) -> Level:
    """Return the size that the job has."""
    slots: dict[str, int] = {}
    for vertex in vertices.values():
        slots[vertex.slot_group] = max(slots.get(vertex.slot_group, 0), vertex.parallelism)
    capacity = min((each.at(each.vertex.parallelism) for each in known.values()), default=math.inf)
    return Level(sum(slots.values()), capacity, {key: each.parallelism for key, each in vertices.items()})


def without_opposite_changes(target: Level, size: Level, now: SloSample) -> Level:
    """Return a size to go to in which no vertex goes the other way where that saves no slot.

    Args:
        target: The size.
        size: The present one.
        now: The job.
    """
    if target.capacity <= size.capacity:  # what each vertex has is enough for less
        kept = {v: min(each, size.parallelism.get(v, each)) for v, each in target.parallelism.items()}
        return replace(target, parallelism=kept)
    slots: dict[str, int] = {}
    for v, each in target.parallelism.items():
        group = now.vertices[v].slot_group
        slots[group] = max(slots.get(group, 0), each)
    kept = {
        v: max(
            each,
            max_usable_subtasks(now.vertices[v], min(size.parallelism.get(v, each), slots[now.vertices[v].slot_group])),
        )
        for v, each in target.parallelism.items()
    }
    return replace(target, parallelism=kept)
