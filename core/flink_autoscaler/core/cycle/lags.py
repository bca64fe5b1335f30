"""Lag from elsewhere in a pass: the first place that knows the lag of a source gives it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from flink_autoscaler.core.model.events import Event, EventType, Reason
from flink_autoscaler.core.model.metrics import Aggregate, FlinkMetric
from flink_autoscaler.core.model.quick import replace
from flink_autoscaler.core.model.reading import JobReading
from flink_autoscaler.core.model.source_lag import FLINK, SourceLag, of_topics, topics_read
from flink_autoscaler.core.model.syntax import Duration, format_list
from flink_autoscaler.core.model.topology import Vertex, build_topology
from flink_autoscaler.core.model.vertex_patterns import matches
from flink_autoscaler.core.options.job import AutoscalerOptions
from flink_autoscaler.core.ports.passes import PassOutcome, PassRequest

UNKNOWN: Final = Aggregate()


@dataclass(frozen=True, slots=True)
class Supplemented:
    """A pass with the lag from elsewhere.

    Attributes:
        request: The same, but for what must not be done in this pass.
        reading: With the lag of the first place that knows it.
        reasons: For the decision.
        events: The same, told once in a while.
    """

    request: PassRequest
    reading: JobReading
    reasons: tuple[Reason, ...] = ()
    events: tuple[Event, ...] = ()


@dataclass(frozen=True, slots=True)
class _Chosen:
    """The answer that counts for a source.

    Attributes:
        partitions: How many the source has, by anybody who was asked; 0 when nobody knows.
    """

    vertex: Vertex
    lag: SourceLag
    partitions: int = 0


def supplemented(request: PassRequest, reading: JobReading) -> Supplemented:
    """Put the lag that others know into a reading.

    While the lag of a source is unknown in all places that were asked, nothing of the job is scaled down. A source
    whose lag is that of one partition is left as it is: more subtasks do not help, and fewer make it worse.

    Raises:
        AutoscalerError: The details of the job make no sense.
    """
    details = reading.details
    if not request.lags or details is None or not reading.aggregates:
        return Supplemented(request, reading)
    sources = [v for v in build_topology(details).vertices.values() if v.is_source and not v.is_finished]
    chosen = [each for v in sources if (each := _first_known(v, request.lags, reading)) is not None]
    reasons = tuple(reason for each in chosen for reason in _reasons(each))
    interval = request.context.options.scaling_event_interval
    events = tuple(event for each in chosen for event in _events(each, interval))
    return Supplemented(_restrained(request, chosen), _filled(reading, chosen), reasons, events)


def told(outcome: PassOutcome, given: Supplemented) -> PassOutcome:
    """Return what a pass came to, with what there is to say about lag."""
    if not given.reasons:
        return outcome
    decision = replace(outcome.decision, reasons=(*outcome.decision.reasons, *given.reasons))
    return replace(outcome, decision=decision, events=(*given.events, *outcome.events))


def _first_known(vertex: Vertex, lags: Sequence[SourceLag], reading: JobReading) -> _Chosen | None:
    """Return the first answer that knows the lag of a source, else the first that does not; None if nobody was asked.

    A source of which Flink has no values yet is left alone.
    """
    asked = [_of_source(vertex, lag, reading) for lag in lags if matches(vertex, lag.pattern)]
    values = reading.aggregates.get(vertex.vertex_id)
    if not asked or not values:
        return None
    partitions = next((lag.partitions for lag in asked if lag.partitions), 0)
    own = values.get(FlinkMetric.PENDING_RECORDS, UNKNOWN).total
    is_own_known = own is not None and math.isfinite(own) and own >= 0
    for lag in asked:
        if is_own_known if lag.origin == FLINK else lag.total is not None:
            return _Chosen(vertex, lag, partitions)
    others = [lag for lag in asked if lag.origin != FLINK]
    nobody = others[0] if others else replace(asked[0], problem="Flink reports no pending records")
    return _Chosen(vertex, nobody, partitions)


def _of_source(vertex: Vertex, lag: SourceLag, reading: JobReading) -> SourceLag:
    """Return the part of an answer that is about the topics of a source, where topics are told apart."""
    if not lag.topics:
        return lag
    seen = reading.memory.topics
    elsewhere = [name for v, names in seen.items() if v != vertex.vertex_id for name in names]
    read = topics_read(lag.topics, seen.get(vertex.vertex_id, ()), elsewhere)
    return replace(lag, problem=read, topics=()) if isinstance(read, str) else of_topics(lag, read)


def _is_known(lag: SourceLag) -> bool:
    return not lag.problem


def _filled(reading: JobReading, chosen: Sequence[_Chosen]) -> JobReading:
    aggregates, origins = {**reading.aggregates}, {v: {**each} for v, each in reading.origins.items()}
    partitions = {**reading.memory.partitions}
    for each in chosen:
        vertex_id, lag = each.vertex.vertex_id, each.lag
        if each.partitions:  # of Flink's metrics a partition is part with its first record only
            partitions[vertex_id] = each.partitions
        if lag.origin == FLINK and _is_known(lag):
            continue
        found = _told_by(lag)
        aggregates[vertex_id] = {**aggregates[vertex_id], **(found or {FlinkMetric.PENDING_RECORDS: UNKNOWN})}
        if found:
            origins[vertex_id] = {**origins.get(vertex_id, {}), **dict.fromkeys(found, lag.origin)}
    memory = replace(reading.memory, partitions=partitions)
    return replace(reading, aggregates=aggregates, origins=origins, memory=memory)


def _told_by(lag: SourceLag) -> dict[FlinkMetric, Aggregate]:
    """Return the metrics that an answer gives; none where it does not know."""
    if not _is_known(lag):
        return {}
    found = {FlinkMetric.PENDING_RECORDS: Aggregate(total=lag.total)}
    return found if lag.most is None else {**found, FlinkMetric.SLOWEST_PARTITION: Aggregate(total=lag.most)}


def _restrained(request: PassRequest, chosen: Sequence[_Chosen]) -> PassRequest:
    options, configuration = request.context.options, {**request.context.configuration}
    hot = [each.vertex.vertex_id for each in chosen if each.lag.hot]
    if hot:
        configuration[AutoscalerOptions.vertex_exclude_ids.key] = format_list([*options.vertex_exclude_ids, *hot])
    may_scale_down = request.context.may_scale_down and all(_is_known(each.lag) for each in chosen)
    if configuration == request.context.configuration and may_scale_down == request.context.may_scale_down:
        return request
    context = replace(request.context, configuration=configuration, may_scale_down=may_scale_down)
    return replace(request, context=context)


def _reasons(chosen: _Chosen) -> Iterator[Reason]:
    vertex, lag = chosen.vertex, chosen.lag
    if not _is_known(lag):
        text = f"the lag is unknown, so nothing is scaled down: {lag.origin}: {lag.problem}"
        yield Reason("SOURCE_LAG_UNKNOWN", text, vertex.vertex_id)
    if lag.hot:
        text = f"{lag.hot} has most of the lag by itself ({lag.origin}); no parallelism helps one partition"
        yield Reason("SKEWED_PARTITION", text, vertex.vertex_id)


def _events(chosen: _Chosen, interval: Duration) -> Iterator[Event]:
    name, lag, key = chosen.vertex.name, chosen.lag, chosen.vertex.vertex_id
    if not _is_known(lag):
        text = f"The lag of {name} is unknown, so nothing of the job is scaled down: {lag.origin}: {lag.problem}"
        yield Event(EventType.WARNING, "LagUnknown", text, key, interval)
    if lag.hot:
        text = f"{lag.hot} has most of the lag of {name} by itself ({lag.origin}); no parallelism helps one partition"
        yield Event(EventType.WARNING, "SkewedPartition", text, key, interval)
