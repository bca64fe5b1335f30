"""What the policy ``slo`` remembers of a job: bounded, as JSON; what was damaged is forgotten rather than misread."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Final

from flink_autoscaler.core.model.metrics import VertexId
from flink_autoscaler.core.model.quick import quick
from flink_autoscaler.core.policies.slo import packing
from flink_autoscaler.core.policies.slo.arrivals import Edge, Interval, Tally
from flink_autoscaler.core.policies.slo.capacity import Capacity
from flink_autoscaler.core.policies.slo.experts.echoes import NO_ECHOES, Echoes
from flink_autoscaler.core.policies.slo.experts.forecasts import PROFILE, Match
from flink_autoscaler.core.policies.slo.experts.trust import MIX, SCORED, SCORES_LENGTH, Score, Trust, due_length
from flink_autoscaler.core.policies.slo.history import KEPT, LONG_AGO, MINUTES, PER_BUCKET, SURPRISED, History
from flink_autoscaler.core.policies.slo.model import Seen
from flink_autoscaler.core.policies.slo.noise import DISTANCES as DIFFERENCES
from flink_autoscaler.core.policies.slo.noise import Differences
from flink_autoscaler.core.policies.slo.sources.streams import MINUTES as MINUTES_OF_STREAM
from flink_autoscaler.core.policies.slo.sources.streams import NO_STREAMS, PER_SHARE, SHARES, Stream, Streams

FORMAT: Final = 1
FORESEEN: Final = 4
"""Buckets of the last mix that are kept, to tell surprises."""
HALF_MINUTE: Final = 0.5
LEAST_LEFT: Final = 0.5
"""Of a bucket, at its beginning, however steeply demand grows."""
ROOM: Final = 7850
"""Characters of all of it, which the older history must fit into."""
FIXED: Final = 2490
PROFILED: Final = 250
PER_VERTEX: Final = 115
PER_STREAM: Final = MINUTES_OF_STREAM * packing.LONG + 30
PER_SOURCE: Final = 60
PER_EDGE: Final = 10
LEAST_BUCKETS: Final = 600
"""Buckets that are kept however many vertices a job has: two days."""
GREATEST: Final = 1e300


@lru_cache(maxsize=1024)
def _mark(names: tuple[Any, ...]) -> int:
    return zlib.crc32(repr(names).encode())


@quick
@dataclass(frozen=True, slots=True)
class Graph:
    """What a state belongs to.

    Attributes:
        vertices: Ascending.
        sources: Ascending.
        edges: Ascending.
    """

    vertices: tuple[VertexId, ...]
    sources: tuple[VertexId, ...]
    edges: tuple[Edge, ...]

    @classmethod
    def of(cls, seen: Seen) -> Graph:
        """Return the graph of a job."""
        sources = sorted(key for key, each in seen.vertices.items() if each.is_source)
        return cls(tuple(sorted(seen.vertices)), tuple(sources), tuple(sorted(set(seen.edges))))

    @property
    def mark(self) -> int:
        """A number that another graph hardly has."""
        return _mark((self.vertices, self.sources, self.edges))

    @property
    def mark_of_sources(self) -> int:
        """A number that other sources hardly have."""
        return _mark(self.sources)

    def buckets_to_keep(self, trust: Trust, streams: Streams) -> int:
        """Return how much history there is room for beside what experts said and what arrived at each source."""
        used = FIXED + PER_VERTEX * len(self.vertices) + PER_SOURCE * len(self.sources) + PER_EDGE * len(self.edges)
        used += (PROFILED if PROFILE in trust.due else 0) + PER_STREAM * len(streams.each)
        each = packing.SHORT + len(streams.each) / PER_SHARE
        return min(max(int((ROOM - used) / each), LEAST_BUCKETS), KEPT)


@quick
@dataclass(frozen=True, slots=True)
class SloState:
    """What is known of a job.

    Attributes:
        graph: Of the job.
        clock: Until when demand is known, epoch seconds; None before the first sample.
        interval: What has been counted since then.
        rates: What arrived at the sources in the last interval, records/s.
        capacities: Of the vertices.
        units: Rate of a subtask that was estimated first, by vertex.
        gains: See :func:`arrivals.gains`.
        mix: See :func:`arrivals.mixed`.
        history: Demand of the past.
        differences: Of it, for its noise.
        trust: In the experts.
        matches: Hours of the past that were like the last one.
        foreseen: Mix of the buckets after the last forecast.
        foreseen_ago: Minutes since the last forecast.
        streams: What has arrived at each of several sources.
        echoes: What became of jumps.
    """

    graph: Graph
    clock: float | None = None
    interval: Interval | None = None
    rates: Mapping[VertexId, float] = field(default_factory=dict)
    capacities: Mapping[VertexId, Capacity] = field(default_factory=dict)
    units: Mapping[VertexId, float] = field(default_factory=dict)
    gains: Mapping[Edge, float] = field(default_factory=dict)
    mix: Mapping[VertexId, float] = field(default_factory=dict)
    history: History = field(default_factory=History)
    differences: Differences = field(default_factory=Differences)
    trust: Trust = field(default_factory=Trust)
    matches: tuple[Match, ...] = ()
    foreseen: tuple[float, ...] = ()
    foreseen_ago: float = 0.0
    streams: Streams = NO_STREAMS
    echoes: Echoes = NO_ECHOES

    @property
    def foreseen_now(self) -> float | None:
        """Demand that the last forecast expects of this minute; None where that was too long ago."""
        return self.foreseen_in(0.0)

    def foreseen_in(self, minutes: float) -> float | None:
        """Return the demand that the last forecast expects of a minute, on the line between the middles of its buckets.

        Args:
            minutes: From now to the end of that minute.

        Returns:
            None where it does not look that far.
        """
        ahead, last = self.foreseen_ago + minutes, len(self.foreseen) - 1
        if ahead >= PER_BUCKET * len(self.foreseen):
            return None
        place = (ahead - HALF_MINUTE) / PER_BUCKET - 0.5
        left = min(max(int(place), 0), max(last - 1, 0))
        before, after = self.foreseen[left], self.foreseen[min(left + 1, last)]
        return max(before + (place - left) * (after - before), LEAST_LEFT * min(before, after))

    def as_json(self) -> dict[str, Any]:
        """Return the state as JSON values, for :meth:`read`."""
        graph, trust = self.graph, self.trust
        return {
            "format": FORMAT,
            "graph": graph.mark,
            "sources": graph.mark_of_sources,
            "clock": self.clock,
            "interval": None if self.interval is None else _interval_json(self.interval, graph),
            "rates": _numbers(self.rates.get(key) for key in graph.sources),
            "capacities": [_of(self.capacities.get(key)) for key in graph.vertices],
            "units": _numbers(self.units.get(key) for key in graph.vertices),
            "mix": _numbers(self.mix.get(key) for key in graph.vertices),
            "gains": _numbers(self.gains.get(key) for key in graph.edges),
            "history": _history_json(self.history),
            "differences": packing.longs((*self.differences.sums, *self.differences.counts)),
            "due": dict(trust.due),
            "scores": dict(trust.scores),
            "mixed": packing.longs((trust.mix.total, trust.mix.count)),
            "matches": [[each.age, _rounded(each.weight)] for each in self.matches],
            "foreseen": [_numbers(self.foreseen), self.foreseen_ago],
            "echoes": self.echoes.as_json(),
            **({"streams": _streams_json(self.streams, graph)} if self.streams.each else {}),
        }

    @classmethod
    def read(cls, stored: Any, graph: Graph) -> SloState:
        """Read what :meth:`as_json` wrote.

        Args:
            stored: Whatever the store has.
            graph: Of the job now. Of another graph only the history of its demand is kept, if its sources are the same.

        Returns:
            An empty state for what cannot be read.
        """
        try:
            if stored["format"] != FORMAT or stored["sources"] != graph.mark_of_sources:
                return cls(graph)
            if stored["graph"] != graph.mark:
                history = _history(stored["history"])
                streams = _streams(stored, graph).without_minutes()
                whole = History(buckets=history.buckets).with_day()
                return cls(graph, history=whole, trust=_trust({}, stored), streams=streams)
            return _read(stored, graph)
        except (TypeError, ValueError, KeyError, IndexError, AttributeError, OverflowError):
            return cls(graph)


def _rounded(value: float) -> float:
    return float(f"{value:.6g}")


def _numbers(values: Iterable[float | None]) -> list[float | None]:
    return [None if each is None else _rounded(each) for each in values]


def _of(capacity: Capacity | None) -> list[float] | None:
    return None if capacity is None else capacity.as_json()


def _interval_json(interval: Interval, graph: Graph) -> list[Any]:
    sources = (interval.sources[key] for key in graph.sources)
    return [
        *(interval.began, interval.at, interval.execution),
        [[each.base, each.pending, each.latest, each.carried] for each in sources],
        [_list(interval.vertices.get(key)) for key in graph.vertices],
    ]


def _list(counters: tuple[float, float | None] | None) -> list[float | None] | None:
    return None if counters is None else list(counters)


def _history_json(history: History) -> list[Any]:
    numbers = (history.filling, history.since, history.surprise)
    return [history.packed, history.buckets, *numbers, *_numbers((history.day_mean, history.day_greatest))]


def _streams_json(streams: Streams, graph: Graph) -> list[Any]:
    places = {key: place for place, key in enumerate(graph.sources)}
    return [
        streams.due,
        [[[places[key] for key in one.sources], one.packed, one.since, one.shares] for one in streams.each],
    ]


def _finite(value: Any, low: float = 0.0, high: float = GREATEST) -> float:
    """Return a number within bounds.

    Raises:
        ValueError: It is not within them.
        TypeError: It is no number.
    """
    if type(value) is not float and (isinstance(value, bool) or not isinstance(value, (int, float))):
        raise TypeError
    if not low <= value <= high:
        raise ValueError
    return float(value)


def _optional(value: Any, low: float = 0.0, high: float = GREATEST) -> float | None:
    return None if value is None else _finite(value, low, high)


def _by_key(keys: Sequence[Any], values: Sequence[Any], read: Callable[[Any], Any | None]) -> dict[Any, Any]:
    pairs = zip(keys, map(read, values), strict=True)
    return {key: each for key, each in pairs if each is not None}


def _read(stored: Mapping[str, Any], graph: Graph) -> SloState:
    foreseen, ago = stored["foreseen"]
    if len(foreseen) > FORESEEN or len(stored["matches"]) > FORESEEN:
        raise ValueError
    return SloState(
        graph,
        _optional(stored["clock"], -GREATEST),
        None if stored["interval"] is None else _interval(stored["interval"], graph),
        _by_key(graph.sources, stored["rates"], _optional),
        _by_key(graph.vertices, stored["capacities"], Capacity.read),
        _by_key(graph.vertices, stored["units"], lambda each: _optional(each, 1e-12)),
        _by_key(graph.edges, stored["gains"], _optional),
        _by_key(graph.vertices, stored["mix"], _optional),
        _history(stored["history"]),
        _differences(stored["differences"]),
        _trust(stored["due"], stored),
        tuple(Match(int(_finite(age, 0, KEPT)), _finite(weight)) for age, weight in stored["matches"]),
        tuple(_finite(each) for each in foreseen),
        _finite(ago),
        _streams(stored, graph),
        Echoes.read(stored.get("echoes")),
    )


def _interval(stored: Any, graph: Graph) -> Interval:
    began, at, execution, sources, vertices = stored
    return Interval(
        _finite(began, -GREATEST),
        _finite(at, -GREATEST),
        _finite(execution, -GREATEST),
        {key: _tally(each) for key, each in zip(graph.sources, sources, strict=True)},
        _by_key(graph.vertices, vertices, lambda each: None if each is None else _counters(each)),
    )


def _tally(stored: Any) -> Tally:
    base, pending, latest, carried = stored
    return Tally(_finite(base), _optional(pending), _finite(latest), _finite(carried))


def _counters(stored: Any) -> tuple[float, float | None]:
    read, emitted = stored
    return _finite(read), _optional(emitted)


def _history(stored: Any) -> History:
    minutes, buckets, filling, since, surprise, mean, greatest = stored
    if not packing.is_long_series(minutes) or not packing.is_series(buckets):
        raise ValueError
    values, count = tuple(packing.from_longs(minutes)), int(_finite(filling, 0, PER_BUCKET - 1))
    if len(values) > MINUTES or len(buckets) > KEPT * packing.SHORT or count > len(values) or 0.0 in values:
        raise ValueError
    ages = _optional(since, 0.0, LONG_AGO), _optional(surprise, 0.0, SURPRISED)
    return History(values, count, buckets, *ages, _finite(mean), _finite(greatest), minutes)


def _streams(stored: Mapping[str, Any], graph: Graph) -> Streams:
    """Return what was written; nothing where a job had one source, or was written before sources were told apart."""
    if "streams" not in stored:
        return NO_STREAMS
    due, each = stored["streams"]
    streams = Streams(tuple(_stream(one, graph) for one in each), int(_finite(due, 0, PER_SHARE - 1)))
    if sorted(key for one in streams.each for key in one.sources) != list(graph.sources):
        raise ValueError
    return streams


def _stream(stored: Any, graph: Graph) -> Stream:
    places, minutes, since, shares = stored
    if not packing.is_long_series(minutes) or not packing.is_text(shares) or len(shares) > SHARES:
        raise ValueError
    values = tuple(packing.from_longs(minutes))
    if len(values) > MINUTES_OF_STREAM:
        raise ValueError
    sources = tuple(graph.sources[int(_finite(place, 0))] for place in places)
    return Stream(sources, values, minutes, _optional(since, 0.0, LONG_AGO), shares)


def _differences(stored: Any) -> Differences:
    if not packing.is_long_series(stored):
        raise ValueError
    values = packing.from_longs(stored)
    sums, counts = tuple(values[: len(DIFFERENCES)]), tuple(values[len(DIFFERENCES) :])
    if len(counts) != len(DIFFERENCES) or min(counts) <= 0.0:
        raise ValueError
    return Differences(sums, counts)


def _trust(due: Mapping[str, Any], stored: Mapping[str, Any]) -> Trust:
    scores = {name: stored["scores"][name] for name in SCORED if name in stored["scores"]}
    said = {name: due[name] for name in (*SCORED, MIX) if name in due}
    if not packing.is_text("".join((*scores.values(), *said.values()))):
        raise ValueError
    if not all(len(text) == SCORES_LENGTH for text in scores.values()):
        raise ValueError
    if not all(len(text) == due_length(name) for name, text in said.items()):
        raise ValueError
    if not packing.is_long_series(stored["mixed"]):
        raise ValueError
    total, count = packing.from_longs(stored["mixed"])
    return Trust(said, scores, Score(total, count))
