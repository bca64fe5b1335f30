"""What arrives at a job, from the counters of its latest samples, across restarts.

What a source consumed and what began to wait there has arrived, whatever the job could do. A counter begins at zero
with an execution, and what arrived while none ran is waiting, so that an outage is measured like any other time.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from flink_autoscaler.core.evaluate.evaluation import Sender, edge_rates
from flink_autoscaler.core.model.metrics import VertexId
from flink_autoscaler.core.model.quick import quick, replace
from flink_autoscaler.core.policies.slo.model import LEAST_DEMAND, Seen, SeenVertex

Edge = tuple[VertexId, VertexId]

SMOOTHING: Final = 0.1
"""What a minute adds to gains and to the mix."""
SATURATED: Final = 0.95
"""Busy share above which a job without lag metric may consume less than arrives."""
BLIND_GROWTH: Final = 1.1
"""How much more is assumed to arrive then, by minute."""
BLIND_LIMIT: Final = 4.0
"""And no more than so many times what is consumed."""
GREATEST_RATE: Final = 1e15


def number(value: float | None) -> float | None:
    """Return a number that can be reckoned with; None for what is negative, infinite or NaN."""
    return value if value is not None and 0.0 <= value < math.inf else None


@quick
@dataclass(frozen=True, slots=True)
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


@quick
@dataclass(frozen=True, slots=True)
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


@dataclass(frozen=True, slots=True)
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
    vertices = {key: (count, number(each.records_out)) for key, each, count in _counted(seen)}
    return Interval(seen.at, seen.at, seen.execution, sources, vertices) if sources else None


def _sources(seen: Seen) -> Iterator[tuple[VertexId, SeenVertex]]:
    return ((key, each) for key, each in seen.vertices.items() if each.is_source)


def _counted(seen: Seen) -> Iterator[tuple[VertexId, SeenVertex, float]]:
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
    blind = [key for key, tally in interval.sources.items() if _waiting(tally, seen.vertices[key]) is None]
    rates = {}
    for source, tally in interval.sources.items():
        arrived = tally.consumed + (_waiting(tally, seen.vertices[source]) or 0.0)
        rates[source] = min(max(arrived / seconds, 0.0), GREATEST_RATE)
    if blind and any((number(each.busy) or 0.0) > SATURATED for each in seen.vertices.values()):
        growth = BLIND_GROWTH ** min(seconds / 60.0, 10.0)
        for source in blind:
            assumed = min(before.get(source, 0.0) * growth, rates[source] * BLIND_LIMIT)
            rates[source] = max(rates[source], assumed)
    is_restart = interval.execution >= interval.began
    return Counted(seconds, rates, dict(_flows(interval, seen)), bool(blind), is_restart)


def _waiting(tally: Tally, vertex: SeenVertex) -> float | None:
    """Return how much more waits at a source than when the interval began."""
    now = number(vertex.pending)
    return None if now is None or tally.pending is None else now - tally.pending


def _flows(interval: Interval, seen: Seen) -> Iterator[tuple[VertexId, tuple[float, float | None]]]:
    for key, each, count in _counted(seen):
        before, out = interval.vertices.get(key), number(each.records_out)
        if before is not None and count >= before[0]:
            emitted = None if out is None or before[1] is None or out < before[1] else out - before[1]
            yield key, (count - before[0], emitted)


def weight(seconds: float) -> float:
    """Return what an interval adds to a smoothed value."""
    return 1.0 - math.pow(1.0 - SMOOTHING, min(max(seconds, 0.0), 3600.0) / 60.0)


def smoothed(before: float | None, value: float, share: float) -> float:
    """Return a value that follows another one slowly."""
    return value if before is None else before + share * (value - before)


def gains(before: Mapping[Edge, float], seen: Seen, counts: Counted) -> dict[Edge, float]:
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
                found[start, end] = min(smoothed(found.get((start, end)), flow / read, share), GREATEST_RATE)
    return found


def reaching(
    arriving: Mapping[VertexId, float], edges: Iterable[Edge], gain: Mapping[Edge, float]
) -> dict[VertexId, float]:
    """Return what reaches every vertex, records/s, in a graph without circles.

    Args:
        arriving: At the sources.
        edges: All of the job.
        gain: See :func:`gains`; an edge of which nothing is known passes on what it gets.
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
            rates[end] = min(rates.get(end, 0.0) + brought, GREATEST_RATE)
            missing[end] -= 1
            if missing[end] == 0:
                waiting.append(end)


def demand(
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
    return max(sum(groups.values()), LEAST_DEMAND) if groups else None


@dataclass(frozen=True, slots=True)
class Needs:
    """How demand follows from what arrives, at the sources or at some of them together.

    Attributes:
        brought: Of every arrival what a record/s of it brings to the vertices, records/s.
        groups: By slot sharing group its vertices, without those that never need most; of each the slots that
            a record/s of every arrival keeps busy.
    """

    brought: tuple[Mapping[VertexId, float], ...]
    groups: tuple[tuple[tuple[float, ...], ...], ...]

    @classmethod
    def of(
        cls,
        seen: Seen,
        gain: Mapping[Edge, float],
        units: Mapping[VertexId, float],
        arriving: Iterable[Mapping[VertexId, float]],
    ) -> Needs:
        """Return them for a job.

        Args:
            seen: The job.
            gain: See :func:`reaching`.
            units: See :func:`demand`.
            arriving: Of every arrival how a record/s of it divides between sources.
        """
        brought = tuple(reaching(each, seen.edges, gain) for each in arriving)
        groups: dict[str, list[tuple[float, ...]]] = defaultdict(list)
        for key, vertex in seen.vertices.items():
            if key in units:
                groups[vertex.slot_group].append(tuple(each.get(key, 0.0) / units[key] for each in brought))
        return cls(brought, tuple(_greatest(each) for each in groups.values()))

    @property
    def alone(self) -> list[float]:
        """Demand of a record/s of each arrival without the others."""
        return [sum(max(row[place] for row in group) for group in self.groups) for place in range(len(self.brought))]

    def demand(self, rates: Sequence[Sequence[float]]) -> list[float]:
        """Return demand in slot equivalents at some instants.

        Args:
            rates: Of every arrival what comes at these instants, records/s.
        """
        found = [0.0] * len(rates[0])
        for group in self.groups:
            needed = [_summed(row, rates) for row in group]
            most = needed[0] if len(needed) == 1 else map(max, *needed)
            found = [total + each for total, each in zip(found, most, strict=True)]
        return [max(each, LEAST_DEMAND) for each in found]

    def reached(self, vertex: VertexId, rates: Sequence[Sequence[float]]) -> list[float]:
        """Return what comes to a vertex at some instants, records/s."""
        return _summed([each.get(vertex, 0.0) for each in self.brought], rates)


def _greatest(rows: Sequence[tuple[float, ...]]) -> tuple[tuple[float, ...], ...]:
    """Leave out rows that another one is nowhere below."""
    kept: list[tuple[float, ...]] = []
    for row in sorted(set(rows), reverse=True):
        if not any(all(x >= y for x, y in zip(other, row, strict=True)) for other in kept):
            kept.append(row)
    return tuple(kept)


def _summed(row: Sequence[float], rates: Sequence[Sequence[float]]) -> list[float]:
    total = [0.0] * len(rates[0])
    for factor, series in zip(row, rates, strict=True):
        if factor:
            total = [sum_ + factor * each for sum_, each in zip(total, series, strict=True)]
    return total


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
    if value <= LEAST_DEMAND:
        return dict(before)
    return {key: smoothed(before.get(key), rate / value, share) for key, rate in rates.items()}
