"""Values that the parts of the policy ``slo`` hand to each other.

Demand and capacity are *slot equivalents*: slots that the load keeps busy, at the capacity that was estimated first.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from flink_autoscaler.core.model.metrics import VertexId
from flink_autoscaler.core.model.policy_values import (
    JobObservation,
    JobSample,
    LoadProfiles,
    PolicyInput,
    VertexObs,
    VertexSample,
)
from flink_autoscaler.core.model.quick import quick

BUCKET: Final = 300.0
"""Seconds of a bucket of history and of a forecast path."""
HORIZON: Final = 96
"""Buckets of a forecast path: 8 hours."""
LEAST_DEMAND: Final = 1e-3
"""Demand of a job at which nothing arrives."""


@quick
@dataclass(frozen=True, slots=True)
class SeenVertex:
    """A vertex in the latest sample.

    Attributes:
        parallelism: Subtasks that run.
        records_in: Records read since the execution began; for a source those that it consumed.
        records_out: Records emitted since the execution began.
        busy: Share of time that the busiest subtask is busy, 0..1.
        least: Least parallelism that may be asked for.
        greatest: Greatest parallelism that may be asked for.
        slot_group: Slot sharing group.
        groups: Key groups or partitions that its subtasks share; None where records are spread evenly.
        allowed: Parallelisms that alignment comes to, ascending; None for all within the bounds.
        pending: Records that wait at the source; None for other vertices and where it is not known.
        uneven: Records on top of these that the lag of its slowest partition amounts to; 0 where partitions lag alike.
        is_source: Whether it reads from outside.
    """

    parallelism: int
    records_in: float | None = None
    records_out: float | None = None
    busy: float | None = None
    least: int = 1
    greatest: int = 32768
    slot_group: str = ""
    groups: int | None = None
    allowed: tuple[int, ...] | None = None
    pending: float | None = None
    uneven: float = 0.0
    is_source: bool = False


@quick
@dataclass(frozen=True, slots=True)
class Seen:
    """One pass, the latest sample alone.

    Attributes:
        at: When it was taken, epoch seconds.
        execution: When the execution began, epoch seconds; another value is another execution.
        vertices: All of the job.
        edges: Upstream and downstream vertex of every edge.
        profiles: What sources usually have to take; of those of which it is known.
    """

    at: float
    execution: float
    vertices: Mapping[VertexId, SeenVertex]
    edges: tuple[tuple[VertexId, VertexId], ...] = ()
    profiles: LoadProfiles = field(default_factory=dict)


def seen(given: PolicyInput) -> Seen | None:
    """Return the latest sample; None where there is none of the vertices that are observed."""
    sample = given.samples[-1] if given.samples else None
    if sample is None or not given.obs.vertices or not given.obs.vertices.keys() <= sample.vertices.keys():
        return None
    return _joined(sample, given.obs, given.profiles)


def _joined(sample: JobSample, obs: JobObservation, profiles: LoadProfiles) -> Seen:
    groups = {vertex_id: name for name, members in obs.slot_groups.items() for vertex_id in members}
    vertices = {
        vertex_id: _vertex(sample.vertices[vertex_id], vertex, groups.get(vertex_id, vertex_id))
        for vertex_id, vertex in obs.vertices.items()
    }
    edges = tuple((start, end) for start, end in obs.edges if start in vertices and end in vertices)
    return Seen(sample.at, sample.began_at, vertices, edges, profiles)


def _vertex(sample: VertexSample, vertex: VertexObs, group: str) -> SeenVertex:
    """Join the counters of a vertex and its bounds; counters that do not cover all subtasks count as unknown."""
    is_known = sample.is_complete
    return SeenVertex(
        parallelism=vertex.parallelism,
        records_in=sample.records_in if is_known else None,
        records_out=sample.records_out if is_known else None,
        busy=sample.busy if is_known else None,
        least=vertex.min_parallelism,
        greatest=max(vertex.max_parallelism, vertex.min_parallelism),
        slot_group=group,
        groups=vertex.spread,
        allowed=_allowed(vertex),
        pending=sample.pending if vertex.is_source else None,
        uneven=_uneven(vertex),
        is_source=vertex.is_source,
    )


def _uneven(vertex: VertexObs) -> float:
    """Return by how many records the lag of a source, as its slowest partition demands it, exceeds the sum."""
    return max(0.0, (vertex.lag_to_drain or 0.0) - (vertex.lag_records or 0.0))


def _allowed(vertex: VertexObs) -> tuple[int, ...] | None:
    """Return what alignment comes to within the bounds; None for all within them."""
    if vertex.aligned is None:
        return None
    first, last = (
        bisect_left(vertex.aligned, vertex.min_parallelism),
        bisect_right(vertex.aligned, vertex.max_parallelism),
    )
    return tuple(vertex.aligned[first:last]) or None


@quick
@dataclass(frozen=True, slots=True)
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
        vector_of: Gives the parallelism by vertex for slots and a capacity; it takes time, so it is asked when needed.
        present: The size that the job has; it need not be among the others, nor have their capacity at equal slots.
        is_limited: Whether bounds keep the job from being larger than the last of them.
    """

    slots: tuple[int, ...]
    capacities: tuple[float, ...]
    vector_of: Callable[[int, float], Mapping[VertexId, int]] | None = None
    present: Level | None = None
    is_limited: bool = False

    def index(self, slots: int) -> int:
        """Return the place of the least level that has as many slots, the last one if none has."""
        return min(bisect_left(self.slots, slots), len(self.slots) - 1)

    def level(self, index: int) -> Level:
        """Return the level at a place."""
        slots, capacity = self.slots[index], self.capacities[index]
        return Level(slots, capacity, self.vector_of(slots, capacity) if self.vector_of else {})

    def vector(self, slots: int) -> Mapping[VertexId, int]:
        """Return the parallelism by vertex of the least level that has as many slots."""
        return self.level(self.index(slots)).parallelism

    def next_to(self, demand: float) -> Level:
        """Return the least level that keeps pace with a demand, the last one if none does."""
        return self.level(min(bisect_left(self.capacities, demand), len(self.capacities) - 1))


Deviation = Callable[[Level], float]
"""Standard deviation of the logarithm of a level's capacity, ``s_cap``."""


@quick
@dataclass(frozen=True, slots=True)
class Noise:
    """How far demand strays from its forecast.

    Attributes:
        s: Standard deviation of demand within minutes, relative to it.
        v: Half the growth per second of the variance of the relative arrivals that have accumulated, seconds.
        s_p: Standard deviation of the forecast of 15 minutes, without noise.
    """

    s: float
    v: float
    s_p: float


class Mix(NamedTuple):
    """Records/s that one slot equivalent of demand brings to a vertex.

    Attributes:
        soon: At most, within the next half hour.
        ever: At most, within the hours of a forecast.
    """

    soon: float
    ever: float


@dataclass(frozen=True, slots=True)
class Forecasts:
    """What the next hours may bring.

    Attributes:
        paths: By expert the mean demand of each of the next 96 buckets of five minutes.
        weights: By expert how much it is believed; they sum to 1.
        since: Minutes since the load jumped; None where it has not.
        surprise: Minutes since a jump that nobody had foreseen; None where there was none lately.
        mixes: By vertex; empty where all that arrives comes from one source, so that they stay as they are.
    """

    paths: Mapping[str, Sequence[float]]
    weights: Mapping[str, float]
    since: float | None = None
    surprise: float | None = None
    mixes: Mapping[VertexId, Mix] = field(default_factory=dict)
    mixed: tuple[float, ...] = field(init=False)

    def __post_init__(self) -> None:
        """Mix the paths: the weighted mean of all experts."""
        object.__setattr__(self, "mixed", _mixed(self.paths, self.weights))


def _mixed(paths: Mapping[str, Sequence[float]], weights: Mapping[str, float]) -> tuple[float, ...]:
    total = [0.0] * HORIZON
    for name, path in paths.items():
        weight = weights.get(name, 0.0)
        total = [sum_ + weight * each for sum_, each in zip(total, path, strict=True)]
    return tuple(total)
