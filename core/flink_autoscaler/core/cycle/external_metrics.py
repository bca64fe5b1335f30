"""What others than Flink know about a job: the lag of sources, what arrives there, and least parallelisms.

The first place that knows a value gives it. While one is unknown in all places that were asked, nothing of the job is
scaled down: a lag may grow, more may arrive than is read, and a floor may hold.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from flink_autoscaler.core.model.events import Event, EventType, Reason
from flink_autoscaler.core.model.job import Restriction
from flink_autoscaler.core.model.message_catalog import ReasonCode
from flink_autoscaler.core.model.metrics import Aggregate, FlinkMetric, VertexId
from flink_autoscaler.core.model.reading import JobReading
from flink_autoscaler.core.model.source_lag import (
    FLINK,
    ExternalMetric,
    ExternalMetricKind,
    SourceLag,
    lag_of_topics,
    topics_read,
)
from flink_autoscaler.core.model.syntax import Duration
from flink_autoscaler.core.model.topology import Vertex, build_topology
from flink_autoscaler.core.model.value import replace
from flink_autoscaler.core.model.vertex_patterns import bounds_of, matches
from flink_autoscaler.core.observe.plausibility import is_possible
from flink_autoscaler.core.options.job import AutoscalerOptions
from flink_autoscaler.core.ports.passes import PassRequest

UNKNOWN: Final = Aggregate()

_METRICS: Final = {
    ExternalMetricKind.ARRIVAL_RATE: (FlinkMetric.ARRIVAL_RATE, "arrival rate", ReasonCode.ARRIVAL_RATE_UNKNOWN),
    ExternalMetricKind.FLOOR: (FlinkMetric.MIN_PARALLELISM, "minimum parallelism", ReasonCode.FLOOR_UNKNOWN),
}
"""What a number is in a reading, for people, and the reason where it is unknown."""


class _Note(NamedTuple):
    """What is to be said: with the decision, and once in a while."""

    reason: Reason
    event: Event


@dataclass(frozen=True, slots=True)
class ExternalMetrics:
    """A pass with what others know.

    Attributes:
        request: With the restrictions that they bring.
        reading: With their values.
        reasons: What is to be said with the decision.
        events: What is to be said once in a while.
    """

    request: PassRequest
    reading: JobReading
    reasons: tuple[Reason, ...] = ()
    events: tuple[Event, ...] = ()


def external_metrics(request: PassRequest, reading: JobReading) -> ExternalMetrics:
    """Put what others know into a reading, and what must not be done for that into the request.

    A source whose lag is that of one partition is left as it is: more subtasks do not help, and fewer make it worse.

    Raises:
        AutoscalerError: The details of the job make no sense.
    """
    details = reading.details
    if not (request.lags or request.numbers) or details is None or not reading.aggregates:
        return ExternalMetrics(request, reading)
    vertices = [v for v in build_topology(details).vertices.values() if not v.is_finished]
    sources = [v for v in vertices if v.is_source]
    lags = [lag for v in sources if (lag := _lag_of(v, request.lags, reading)) is not None]
    asked = {ExternalMetricKind.ARRIVAL_RATE: sources, ExternalMetricKind.FLOOR: vertices}
    numbers = [
        (v, each)
        for kind in _METRICS
        for v in asked[kind]
        if (each := _metric_of(v, kind, request.numbers)) is not None
    ]
    options = request.context.options
    notes = (*_lag_notes(lags, options), *_metric_notes(numbers, options))
    restriction = Restriction(
        may_scale_down=not any(each.lag.problem for each in lags) and all(n.value is not None for _, n in numbers),
        fixed=frozenset(each.vertex.vertex_id for each in lags if each.lag.hot),
        floors=_floors(numbers, options),
    )
    request = replace(request, context=replace(request.context, restriction=restriction))
    reading = _with_metrics(_with_lags(reading, lags), numbers)
    return ExternalMetrics(request, reading, tuple(note.reason for note in notes), tuple(note.event for note in notes))


class _Lag(NamedTuple):
    """The answer about lag that counts for a source.

    Attributes:
        partitions: How many the source has, by anybody who was asked; 0 when nobody knows.
    """

    vertex: Vertex
    lag: SourceLag
    partitions: int


def _lag_of(vertex: Vertex, lags: Sequence[SourceLag], reading: JobReading) -> _Lag | None:
    """Return the first answer that knows the lag of a source, else the first that does not; None if nobody was asked.

    A source of which Flink has no values yet is not changed.
    """
    asked = [_lag_of_topics(vertex, lag, reading) for lag in lags if matches(vertex, lag.pattern)]
    values = reading.aggregates.get(vertex.vertex_id)
    if not asked or not values:
        return None
    partitions = next((lag.partitions for lag in asked if lag.partitions), 0)
    own = values.get(FlinkMetric.PENDING_RECORDS, UNKNOWN).total
    is_own_known = own is not None and math.isfinite(own) and own >= 0
    for lag in asked:
        if is_own_known if lag.origin == FLINK else lag.total is not None:
            return _Lag(vertex, lag, partitions)
    others = [lag for lag in asked if lag.origin != FLINK]
    nobody = others[0] if others else replace(asked[0], problem="Flink reports no pending records")
    return _Lag(vertex, nobody, partitions)


def _lag_of_topics(vertex: Vertex, lag: SourceLag, reading: JobReading) -> SourceLag:
    """Return the part of an answer that is about the topics of a source, where topics are told apart."""
    if not lag.topics:
        return lag
    seen = reading.memory.topics
    elsewhere = [name for v, names in seen.items() if v != vertex.vertex_id for name in names]
    read = topics_read(lag.topics, seen.get(vertex.vertex_id, ()), elsewhere)
    return replace(lag, problem=read, topics=()) if isinstance(read, str) else lag_of_topics(lag, read)


def _with_lags(reading: JobReading, lags: Sequence[_Lag]) -> JobReading:
    partitions = {**reading.memory.partitions}
    for vertex, lag, count in lags:
        if count:  # of Flink's metrics a partition is part with its first record only
            partitions[vertex.vertex_id] = count
        if lag.problem:
            reading = _with_values(reading, vertex.vertex_id, {FlinkMetric.PENDING_RECORDS: None}, "")
        elif lag.origin != FLINK:
            slowest = {} if lag.most is None else {FlinkMetric.SLOWEST_PARTITION: lag.most}
            values = {FlinkMetric.PENDING_RECORDS: lag.total, **slowest}
            reading = _with_values(reading, vertex.vertex_id, values, lag.origin)
    return replace(reading, memory=replace(reading.memory, partitions=partitions))


def _lag_notes(lags: Sequence[_Lag], options: AutoscalerOptions) -> Iterator[_Note]:
    for vertex, lag, _ in lags:
        if lag.problem:
            cause = f"{lag.origin}: {lag.problem}"
            text = f"No scale-down of the job: the lag of {vertex.name} is unknown: {cause}"
            reason = Reason.of(ReasonCode.SOURCE_LAG_UNKNOWN, vertex.vertex_id, cause=cause)
            yield _Note(reason, _warning("LagUnknown", text, vertex.vertex_id, options.scaling_event_interval))
        if lag.hot:
            reason = Reason.of(ReasonCode.SKEWED_PARTITION, vertex.vertex_id, partition=lag.hot, origin=lag.origin)
            text = f"{vertex.name}: {reason.text}"
            yield _Note(reason, _warning("SkewedPartition", text, vertex.vertex_id, options.scaling_event_interval))


def _metric_of(vertex: Vertex, kind: ExternalMetricKind, numbers: Sequence[ExternalMetric]) -> ExternalMetric | None:
    """Return the first answer that knows a number of a vertex, else the first of all; None if nobody was asked."""
    asked = [_validate(each) for each in numbers if each.kind is kind and matches(vertex, each.pattern)]
    return next((each for each in asked if each.value is not None), asked[0] if asked else None)


def _validate(number: ExternalMetric) -> ExternalMetric:
    if number.value is None or is_possible(number.value):
        return number
    return replace(number, value=None, problem=f"it is {number.value:g}, which cannot be")


def _with_metrics(reading: JobReading, numbers: Sequence[tuple[Vertex, ExternalMetric]]) -> JobReading:
    for vertex, number in numbers:
        # A vertex of which Flink has no values yet stays without any.
        if number.value is not None and reading.aggregates.get(vertex.vertex_id):
            values = {_METRICS[number.kind][0]: number.value}
            reading = _with_values(reading, vertex.vertex_id, values, number.origin)
    return reading


def _floors(numbers: Sequence[tuple[Vertex, ExternalMetric]], options: AutoscalerOptions) -> dict[VertexId, int]:
    """Return the least parallelism of vertices, at most what people allow."""
    floors = {}
    for vertex, number in numbers:
        if number.kind is ExternalMetricKind.FLOOR and number.value:
            own = bounds_of(vertex, options.vertex_bounds)
            most = options.max_parallelism if own is None or own.maximum is None else own.maximum
            floors[vertex.vertex_id] = min(math.ceil(number.value), most)
    return floors


def _metric_notes(numbers: Sequence[tuple[Vertex, ExternalMetric]], options: AutoscalerOptions) -> Iterator[_Note]:
    for vertex, number in numbers:
        if number.value is None:
            _, name, code = _METRICS[number.kind]
            what, cause = f"{name} of {vertex.name}", f"{number.origin}: {number.problem}"
            reason = Reason.of(code, vertex.vertex_id, what=what, cause=cause)
            key = f"{number.kind}{vertex.vertex_id}"
            event = _warning("NumberUnknown", f"N{reason.text[1:]}", key, options.scaling_event_interval)
            yield _Note(reason, event)


def _with_values(
    reading: JobReading, vertex_id: VertexId, values: Mapping[FlinkMetric, float | None], origin: str
) -> JobReading:
    """Return a reading in which somebody gave metrics of a vertex; without an origin they are unknown."""
    told = {metric: Aggregate(total=value) for metric, value in values.items()}
    origins = reading.origins
    if origin:
        origins = {**origins, vertex_id: {**origins.get(vertex_id, {}), **dict.fromkeys(values, origin)}}
    aggregates = {**reading.aggregates, vertex_id: {**reading.aggregates[vertex_id], **told}}
    return replace(reading, aggregates=aggregates, origins=origins)


def _warning(reason: str, text: str, key: str, interval: Duration) -> Event:
    return Event(EventType.WARNING, reason, text, key, interval)
