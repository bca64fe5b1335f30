"""What arrives at a job, from the counters of its latest samples, across restarts.

What a source consumed and what began to wait there has arrived, whatever the job could do. A counter begins at zero
with an execution, and what arrived while none ran is waiting, so that an outage is measured like any other time.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from typing import Final

from flink_autoscaler.core.evaluate.evaluation import Sender, edge_rates
from flink_autoscaler.core.model.metrics import VertexId
from flink_autoscaler.core.model.policy_values import LoadProfiles, PolicyInput, VertexObs, VertexSample
from flink_autoscaler.core.model.value import replace, value
from flink_autoscaler.core.policies.slo.constants import CONSTANTS

Edge = tuple[VertexId, VertexId]

_FREE: Final = 0.05
"""Share of time of waiting for vertices downstream up to which a vertex that does little has little to do."""
MIN_DEMAND: Final = 1e-3
"""Demand of a job at which nothing arrives."""
MAX_RATE: Final = 1e15


@value
class SeenVertex:
    """A vertex in the latest sample.

    Attributes:
        parallelism: Subtasks that run.
        records_in: Records read since the execution began; for a source those that it consumed.
        records_out: Records emitted since the execution began.
        busy: Share of time that the busiest subtask is busy, 0..1.
        is_free: Whether it is known not to wait for vertices downstream.
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
    is_free: bool = False
    least: int = 1
    greatest: int = 32768
    slot_group: str = ""
    groups: int | None = None
    allowed: tuple[int, ...] | None = None
    pending: float | None = None
    uneven: float = 0.0
    is_source: bool = False


@value
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
    obs = given.obs
    groups = {vertex_id: name for name, members in obs.slot_groups.items() for vertex_id in members}
    vertices = {
        vertex_id: _vertex(sample.vertices[vertex_id], vertex, groups.get(vertex_id, vertex_id))
        for vertex_id, vertex in obs.vertices.items()
    }
    edges = tuple((start, end) for start, end in obs.edges if start in vertices and end in vertices)
    return Seen(sample.at, sample.began_at, vertices, edges, given.profiles)


def _vertex(sample: VertexSample, vertex: VertexObs, group: str) -> SeenVertex:
    """Join the counters of a vertex and its bounds; counters that do not cover all subtasks count as unknown."""
    is_known, least = sample.is_complete, max(vertex.min_parallelism, 1)
    return SeenVertex(
        parallelism=max(vertex.parallelism, 1),
        records_in=sample.records_in if is_known else None,
        records_out=sample.records_out if is_known else None,
        busy=sample.busy if is_known else None,
        is_free=vertex.backpressured is not None and vertex.backpressured <= _FREE,
        least=least,
        greatest=max(vertex.max_parallelism, least),
        slot_group=group,
        groups=vertex.spread,
        allowed=_allowed(vertex),
        pending=sample.pending if vertex.is_source else None,
        # by how much the lag of the slowest partition exceeds the sum
        uneven=max(0.0, (vertex.lag_to_drain or 0.0) - (vertex.lag_records or 0.0)),
        is_source=vertex.is_source,
    )


def _allowed(vertex: VertexObs) -> tuple[int, ...] | None:
    """Return what alignment comes to within the bounds; None for all within them."""
    if vertex.aligned is None:
        return None
    first, last = (
        bisect_left(vertex.aligned, vertex.min_parallelism),
        bisect_right(vertex.aligned, vertex.max_parallelism),
    )
    return tuple(vertex.aligned[first:last]) or None


def number(value: float | None) -> float | None:
    """Return a number that can be reckoned with; None for what is negative, infinite or NaN."""
    return value if value is not None and 0.0 <= value < math.inf else None


@value
class Tally:
    """Counters of a source since an interval began.

    Attributes:
        base: Consumed when it began; 0 once there was a restart.
        pending: Waiting when it began; None where it is not known.
        latest: Consumed at the latest sample.
        carried: Consumed in this interval by executions that have ended.
    """

    base: float
    pending: float | None
    latest: float
    carried: float = 0.0

    def continued(self, consumed: float, *, is_restart: bool) -> Tally:
        """Return the counters at another sample."""
        if not is_restart:
            return replace(self, latest=consumed)
        return replace(self, base=0.0, latest=consumed, carried=self.carried + self.latest - self.base)

    @property
    def consumed(self) -> float:
        """What was consumed since the interval began."""
        return self.carried + self.latest - self.base


@value
class Interval:
    """What has been counted since the last value of demand.

    Attributes:
        began: Its first sample, epoch seconds.
        at: Its latest sample, epoch seconds.
        execution: Of the latest sample.
        sources: Counters of the sources.
        vertices: Records in and out of every vertex when it began; empty once there was a restart.
    """

    began: float
    at: float
    execution: float
    sources: Mapping[VertexId, Tally]
    vertices: Mapping[VertexId, tuple[float, float | None]]


@value
class Counted:
    """What an interval has shown.

    Attributes:
        seconds: Its length.
        rates: What arrives at every source, records/s.
        flows: Records in and out of every vertex; empty where there was a restart.
        is_blind: Whether what waits at a source is not known.
        is_restart: Whether the execution began in it.
    """

    seconds: float
    rates: Mapping[VertexId, float]
    flows: Mapping[VertexId, tuple[float, float | None]]
    is_blind: bool
    is_restart: bool = False


def begun(seen: Seen) -> Interval | None:
    """Begin an interval at a sample; None where the counter of a source is missing."""
    sources = {}
    for source, vertex in _sources(seen):
        consumed = number(vertex.records_in)
        if consumed is None:
            return None
        sources[source] = Tally(consumed, number(vertex.pending), consumed)
    vertices = {key: (count, number(each.records_out)) for key, each, count in _with_counters(seen)}
    return Interval(seen.at, seen.at, seen.execution, sources, vertices) if sources else None


def _sources(seen: Seen) -> Iterator[tuple[VertexId, SeenVertex]]:
    return ((key, each) for key, each in seen.vertices.items() if each.is_source)


def _with_counters(seen: Seen) -> Iterator[tuple[VertexId, SeenVertex, float]]:
    for key, each in seen.vertices.items():
        count = number(each.records_in)
        if count is not None:
            yield key, each, count


def continued(interval: Interval, seen: Seen) -> Interval | None:
    """Return the interval with another sample.

    Returns:
        The same interval where a counter is missing: the next sample covers its time. None where samples do not follow
        each other: time or a counter went back, or there are other sources.
    """
    if seen.at < interval.at or {key for key, _ in _sources(seen)} != set(interval.sources):
        return None
    is_restart = seen.execution != interval.execution
    tallies = {}
    for source, vertex in _sources(seen):
        consumed = number(vertex.records_in)
        if consumed is None:
            return interval
        if consumed < interval.sources[source].latest and not is_restart:
            return None
        tallies[source] = interval.sources[source].continued(consumed, is_restart=is_restart)
    vertices = {} if is_restart else interval.vertices
    return Interval(interval.began, seen.at, seen.execution, tallies, vertices)


def counted(interval: Interval, seen: Seen, before: Mapping[VertexId, float]) -> Counted | None:
    """Return what an interval has shown that ends with a sample; None where it has no length.

    Args:
        interval: With that sample.
        seen: The sample.
        before: Rates of the interval before, for jobs that do not tell what waits.
    """
    seconds = interval.at - interval.began
    if seconds <= 0.0:
        return None
    blind = [key for key, tally in interval.sources.items() if _grown(tally, seen.vertices[key]) is None]
    rates = {}
    for source, tally in interval.sources.items():
        arrived = tally.consumed + (_grown(tally, seen.vertices[source]) or 0.0)
        rates[source] = min(max(arrived / seconds, 0.0), MAX_RATE)
    if blind and any((number(each.busy) or 0.0) > CONSTANTS.saturated for each in seen.vertices.values()):
        growth = CONSTANTS.blind_growth ** min(seconds / 60.0, 10.0)
        for source in blind:
            assumed = min(before.get(source, 0.0) * growth, rates[source] * CONSTANTS.blind_limit)
            rates[source] = max(rates[source], assumed)
    is_restart = interval.execution >= interval.began
    return Counted(seconds, rates, dict(_flows(interval, seen)), bool(blind), is_restart)


def _grown(tally: Tally, vertex: SeenVertex) -> float | None:
    """Return how much more waits at a source than when the interval began."""
    now = number(vertex.pending)
    return None if now is None or tally.pending is None else now - tally.pending


def _flows(interval: Interval, seen: Seen) -> Iterator[tuple[VertexId, tuple[float, float | None]]]:
    for key, each, count in _with_counters(seen):
        before, out = interval.vertices.get(key), number(each.records_out)
        if before is not None and count >= before[0]:
            emitted = None if out is None or before[1] is None or out < before[1] else out - before[1]
            yield key, (count - before[0], emitted)


def weight(seconds: float) -> float:
    """Return what an interval adds to a smoothed value."""
    return 1.0 - math.pow(1.0 - CONSTANTS.smoothing, min(max(seconds, 0.0), 3600.0) / 60.0)


def smoothed(before: float | None, value: float, share: float) -> float:
    """Return a value that follows another one slowly."""
    return value if before is None else before + share * (value - before)


def learned_gains(before: Mapping[Edge, float], seen: Seen, counts: Counted) -> dict[Edge, float]:
    """Return how many records every edge brings downstream for one record into its upstream vertex, smoothed."""
    outputs = Counter(start for start, _ in seen.edges)
    inputs: dict[VertexId, dict[VertexId, Sender]] = defaultdict(dict)
    for start, end in seen.edges:
        _, emitted = counts.flows.get(start, (0.0, None))
        inputs[end][start] = Sender(math.nan if emitted is None else emitted, outputs[start])
    edges, share = frozenset(seen.edges), weight(counts.seconds)
    found = {key: each for key, each in before.items() if key in edges}
    for end, senders in inputs.items():
        arrived, _ = counts.flows.get(end, (math.nan, None))
        for start, flow in edge_rates(arrived, senders).items():
            read, _ = counts.flows.get(start, (0.0, None))
            if read > 0.0 and not math.isnan(flow):
                found[start, end] = min(smoothed(found.get((start, end)), flow / read, share), MAX_RATE)
    return found


def reaching(
    arriving: Mapping[VertexId, float], edges: Iterable[Edge], gain: Mapping[Edge, float]
) -> dict[VertexId, float]:
    """Return what reaches every vertex, records/s, in a graph without circles.

    Args:
        arriving: At the sources.
        edges: All of the job.
        gain: See :func:`learned_gains`; an edge of which nothing is known passes on what it gets.
    """
    following: dict[VertexId, list[VertexId]] = defaultdict(list)
    missing: dict[VertexId, int] = defaultdict(int)
    for start, end in edges:
        following[start].append(end)
        missing[end] += 1
    rates = dict(arriving)
    ready = [key for key in (*arriving, *following) if not missing[key]]
    for vertex in dict.fromkeys(ready):
        _pass_on(vertex, rates, following, missing, gain)
    return rates


def _pass_on(
    first: VertexId,
    rates: dict[VertexId, float],
    following: Mapping[VertexId, list[VertexId]],
    missing: dict[VertexId, int],
    gain: Mapping[Edge, float],
) -> None:
    """Add what a vertex and those that become complete by it bring downstream."""
    waiting = [first]
    while waiting:
        vertex = waiting.pop()
        for end in following.get(vertex, ()):
            brought = rates.get(vertex, 0.0) * gain.get((vertex, end), 1.0)
            rates[end] = min(rates.get(end, 0.0) + brought, MAX_RATE)
            missing[end] -= 1
            if missing[end] == 0:
                waiting.append(end)


def in_slots(
    rates: Mapping[VertexId, float], units: Mapping[VertexId, float], vertices: Mapping[VertexId, SeenVertex]
) -> float | None:
    """Return demand in slot equivalents; None while nothing is known of any vertex.

    Args:
        rates: What reaches the vertices, records/s.
        units: Rate of a subtask by vertex that was estimated first; it stays, so that demand keeps its meaning.
        vertices: All of the job.
    """
    groups: dict[str, float] = {}
    for key, vertex in vertices.items():
        if key in units:
            need = rates.get(key, 0.0) / units[key]
            groups[vertex.slot_group] = max(groups.get(vertex.slot_group, 0.0), need)
    return max(sum(groups.values()), MIN_DEMAND) if groups else None


def mixed(
    before: Mapping[VertexId, float], rates: Mapping[VertexId, float], value: float, share: float
) -> dict[VertexId, float]:
    """Return the records/s that one slot equivalent of demand brings to every vertex, smoothed.

    Args:
        before: The same before.
        rates: What reaches the vertices.
        value: Demand.
        share: See :func:`weight`.
    """
    if value <= MIN_DEMAND:
        return dict(before)
    return {key: smoothed(before.get(key), rate / value, share) for key, rate in rates.items()}
