"""A streaming job as a fluid: records flow at rates, and what cannot be processed yet waits at the sources.

The vertices have no buffers between them, so that one that is too slow holds back its sources at once. Sources that
share a bottleneck are held back in proportion; Flink's credits would divide it in another way, of the same sum.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from operator import mul
from typing import Final

from flink_autoscaler.core.model.metrics import VertexId
from flink_autoscaler.core.model.topology import ShipStrategy

Edge = tuple[VertexId, VertexId]
"""Upstream and downstream vertex."""

_TOLERANCE: Final = 1e-9


@dataclass(frozen=True, slots=True)
class VertexModel:
    """Speed of one vertex.

    Attributes:
        rate: Records/s of one subtask that is always busy and alone.
        skew: Rate of the hottest subtask over the mean of all, at least 1.
        contention: Share of the work that only one subtask can do at a time, such as a lock (alpha of Gunther's
            universal scalability law); 0 scales linearly.
        coherence: Share that every pair of subtasks spends on each other (beta of the same law).
        partitions: Of a source; 0 when it has none.
        ship: How records come to it; of a source without meaning.
        group: Slot-sharing group.
        key_groups: Key groups, or partitions of a source, over which records are spread evenly and of which every
            subtask has whole ones; 0 spreads the records themselves evenly.
        hot_key: Share of the records that have one and the same key, which one subtask gets however many there are.
    """

    vertex_id: VertexId
    name: str
    rate: float
    skew: float = 1.0
    contention: float = 0.0
    coherence: float = 0.0
    max_parallelism: int = 128
    partitions: int = 0
    ship: ShipStrategy = ShipStrategy.HASH
    group: str = "default"
    key_groups: int = 0
    hot_key: float = 0.0

    def __post_init__(self) -> None:
        least = min(self.contention, self.coherence, self.key_groups, self.hot_key)
        if self.rate <= 0 or self.skew < 1 or least < 0 or self.max_parallelism < 1 or self.hot_key > 1:
            raise ValueError(f"impossible vertex: {self}")

    def capacity(self, parallelism: int) -> float:
        """Return the records/s at which the hottest of so many subtasks is always busy."""
        others = parallelism - 1
        slowdown = 1 + self.contention * others + self.coherence * parallelism * others
        return parallelism * self.rate / (slowdown * self.hottest(parallelism))

    def hottest(self, parallelism: int) -> float:
        """Return the rate of the hottest of so many subtasks over the mean of all.

        Flink gives some subtasks one key group more than others, which is why 43 of 128 take as much as 63.
        """
        hottest = self.skew
        if self.key_groups:
            hottest *= math.ceil(self.key_groups / parallelism) * parallelism / self.key_groups
        return self.hot_key * parallelism + (1 - self.hot_key) * hottest


@dataclass(frozen=True)
class JobModel:
    """A job graph with the speed of its vertices.

    Attributes:
        vertices: Inputs before outputs.
        edges: Records that travel along an edge per record that its upstream vertex receives (selectivity).
    """

    vertices: tuple[VertexModel, ...]
    edges: Mapping[Edge, float]

    def __post_init__(self) -> None:
        place = {vertex.vertex_id: number for number, vertex in enumerate(self.vertices)}
        for (upstream, downstream), selectivity in self.edges.items():
            if selectivity < 0 or place.get(upstream, len(place)) >= place.get(downstream, -1):
                raise ValueError(f"impossible edge {upstream} -> {downstream} with selectivity {selectivity}")
        if not self.vertices or len(place) != len(self.vertices):
            raise ValueError("a job needs at least one vertex, and every vertex an id of its own")

    @classmethod
    def chain(cls, vertices: Sequence[VertexModel], selectivities: Sequence[float] = ()) -> JobModel:
        """Make a job of vertices one behind the other; selectivities left out are 1."""
        ids = [vertex.vertex_id for vertex in vertices]
        given = (*selectivities, *(1.0 for _ in vertices))
        return cls(tuple(vertices), dict(zip(pairwise(ids), given, strict=False)))

    @cached_property
    def sources(self) -> tuple[VertexId, ...]:
        """Vertices that nothing feeds, in the order of the vertices; arrival rates come in this order."""
        fed = {downstream for _, downstream in self.edges}
        return tuple(vertex.vertex_id for vertex in self.vertices if vertex.vertex_id not in fed)

    @cached_property
    def source_numbers(self) -> Mapping[VertexId, int]:
        """Places of the sources among arrival rates."""
        return {source: number for number, source in enumerate(self.sources)}

    @cached_property
    def outgoing(self) -> Mapping[VertexId, tuple[float, ...]]:
        """Selectivities of the edges that leave a vertex, by vertex."""
        return {v.vertex_id: tuple(s for (up, _), s in self.edges.items() if up == v.vertex_id) for v in self.vertices}

    @cached_property
    def names(self) -> Mapping[VertexId, str]:
        """Names for people by vertex."""
        return {vertex.vertex_id: vertex.name for vertex in self.vertices}

    @cached_property
    def inputs(self) -> Mapping[VertexId, tuple[VertexId, ...]]:
        """Upstream vertices by vertex."""
        return {v.vertex_id: tuple(up for up, down in self.edges if down == v.vertex_id) for v in self.vertices}

    @cached_property
    def gains(self) -> Mapping[VertexId, tuple[float, ...]]:
        """Records that reach a vertex per record of each source."""
        gains: dict[VertexId, tuple[float, ...]] = {}
        for vertex_id, inputs in self.inputs.items():
            if not inputs:
                gains[vertex_id] = tuple(float(source == vertex_id) for source in self.sources)
                continue
            columns = zip(*([g * self.edges[up, vertex_id] for g in gains[up]] for up in inputs), strict=True)
            gains[vertex_id] = tuple(sum(column) for column in columns)
        return gains

    @cached_property
    def behind(self) -> Mapping[VertexId, frozenset[VertexId]]:
        """Vertices that a vertex feeds, directly or through others."""
        behind: dict[VertexId, frozenset[VertexId]] = {}
        for vertex in reversed(self.vertices):
            following = [down for up, down in self.edges if up == vertex.vertex_id]
            behind[vertex.vertex_id] = frozenset(following).union(*(behind[down] for down in following))
        return behind

    @cached_property
    def groups(self) -> tuple[tuple[VertexId, ...], ...]:
        """Vertices by slot-sharing group."""
        names = dict.fromkeys(vertex.group for vertex in self.vertices)
        return tuple(tuple(v.vertex_id for v in self.vertices if v.group == name) for name in names)

    def slots(self, parallelism: Mapping[VertexId, int]) -> int:
        """Return the slots that the job takes: of every slot-sharing group the largest vertex."""
        return sum(max(parallelism[vertex_id] for vertex_id in group) for group in self.groups)

    def demand(self, arrivals: Sequence[float]) -> dict[VertexId, float]:
        """Return the records/s that every vertex has to take for nothing to wait; arrivals by source."""
        if len(arrivals) != len(self.sources):
            raise ValueError(f"{len(arrivals)} arrival rates for {len(self.sources)} sources")
        return {v: sum(map(mul, arrivals, gains)) for v, gains in self.gains.items()}


class FluidJob:
    """The state of a job while records flow.

    What has arrived is piecewise linear in time, so that the age of the oldest record that waits is exact.

    Attributes:
        now: Seconds since the beginning.
        parallelism: By vertex.
        is_running: Whether anything is processed.
        backlog: Records that wait, by source.
        arrived: Records that have come in all, by source.
        served: Records that were taken in and need not be taken again, by source.
    """

    def __init__(self, model: JobModel, parallelism: Mapping[VertexId, int]) -> None:
        self.model = model
        self.now = 0.0
        self.is_running = True
        count = len(model.sources)
        self.backlog, self.arrived, self.served = [0.0] * count, [0.0] * count, [0.0] * count
        self._rates: tuple[float, ...] = ()
        self._instants: list[float] = []
        self._arrivals: list[list[float]] = [[] for _ in range(count)]
        self.run_with(parallelism)

    def run_with(self, parallelism: Mapping[VertexId, int]) -> None:
        """Run with another parallelism from now on."""
        self.parallelism = dict(parallelism)
        self.capacity = {v.vertex_id: v.capacity(parallelism[v.vertex_id]) for v in self.model.vertices}
        self._source_capacity = [self.capacity[source] for source in self.model.sources]
        self._limits = self._tightest()
        self._taken_whole: tuple[float, ...] | None = None

    def _tightest(self) -> list[list[tuple[int, float]]]:
        """Return, per vertex that may hold anything back, the share of it that a record/s of each source takes."""
        alone: dict[int, float] = {}
        shared = []
        for vertex_id, gains in self.model.gains.items():
            shares = [(s, gain / self.capacity[vertex_id]) for s, gain in enumerate(gains) if gain > 0]
            if len(shares) == 1:
                source, share = shares[0]
                alone[source] = max(share, alone.get(source, 0.0))
            elif shares:
                shared.append(shares)
        return [*([pair] for pair in alone.items()), *shared]

    def flow(self, seconds: float, arrivals: tuple[float, ...]) -> None:
        """Let time pass, with constant arrival rates by source in records/s."""
        if arrivals != self._rates:
            self._bend(arrivals)
        taken = self.taken(seconds, arrivals) if self.is_running else None
        for source, rate in enumerate(arrivals):
            come = rate * seconds
            self.arrived[source] += come
            if taken is None:
                self.backlog[source] += come
                continue
            waiting = self.backlog[source] + come
            gone = min(taken[source] * seconds, waiting)
            self.served[source] += gone
            self.backlog[source] = waiting - gone
        self.now += seconds

    def flow_unhindered(self, seconds: float, count: int, arrivals: tuple[float, ...]) -> bool:
        """Let so many steps pass if nothing waits, nor will; else nothing happens.

        What comes of it is what :meth:`flow` comes to, step by step, to the last digit.

        Returns:
            Whether the steps have passed.
        """
        if not self.is_running or any(self.backlog) or not self._takes_whole(seconds, arrivals):
            return False
        if arrivals != self._rates:
            self._bend(arrivals)
        steps = range(count)
        for source, rate in enumerate(arrivals):
            come, arrived, served = rate * seconds, self.arrived[source], self.served[source]
            for _ in steps:
                arrived += come
                served += come
            self.arrived[source], self.served[source] = arrived, served
        for _ in steps:
            self.now += seconds
        return True

    def _takes_whole(self, seconds: float, arrivals: tuple[float, ...]) -> bool:
        """Tell whether all that arrives is taken in while nothing waits."""
        if arrivals != self._taken_whole:
            if self.taken(seconds, arrivals) != list(arrivals):
                return False
            self._taken_whole = arrivals
        return True

    def taken(self, seconds: float, arrivals: Sequence[float]) -> list[float]:
        """Return the records/s that each source takes in during the next seconds."""
        taken = [
            min(capacity, backlog / seconds + rate)
            for capacity, backlog, rate in zip(self._source_capacity, self.backlog, arrivals, strict=True)
        ]
        for _ in self.model.vertices:
            worst, load = None, 1 + _TOLERANCE
            for shares in self._limits:
                share_sum = 0.0
                for source, share in shares:
                    share_sum += taken[source] * share
                if share_sum > load:
                    worst, load = shares, share_sum
            if worst is None:
                break
            for source, _ in worst:
                taken[source] /= load
        return taken

    def _bend(self, arrivals: tuple[float, ...]) -> None:
        """Remember a point at which the arrival rates change."""
        self._rates = arrivals
        self._instants.append(self.now)
        for points, arrived in zip(self._arrivals, self.arrived, strict=True):
            points.append(arrived)

    def replay(self, seconds: float) -> float:
        """Put what arrived within so many seconds back, because a checkpoint of that age is restored.

        Returns:
            Records that will be processed again.
        """
        replayed = 0.0
        for source, rate in enumerate(self._rates):
            again = min(rate * seconds, self.served[source])
            self.served[source] -= again
            self.backlog[source] += again
            replayed += again
        return replayed

    def lag(self) -> float:
        """Return the age in seconds of the oldest record that waits; 0 when none does."""
        oldest = 0.0
        for source, backlog in enumerate(self.backlog):
            if backlog > _TOLERANCE * self.arrived[source]:
                oldest = max(oldest, self.now - self._came(source))
        return oldest

    def _came(self, source: int) -> float:
        """Return when the record arrived that is the next to be served: the inverse of what has arrived by then."""
        points, served = self._arrivals[source], self.served[source]
        before = max(0, bisect_right(points, served) - 1)
        is_last = before + 1 == len(points)
        until = self.now if is_last else self._instants[before + 1]
        rise = (self.arrived[source] if is_last else points[before + 1]) - points[before]
        since = self._instants[before]
        return since + (until - since) * (served - points[before]) / rise if rise > 0 else until
