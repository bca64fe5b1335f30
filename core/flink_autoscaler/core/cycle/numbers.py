"""Arrival rates and least parallelisms from elsewhere in a pass: the first place that knows one gives it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from flink_autoscaler.core.cycle.lags import Supplemented
from flink_autoscaler.core.model.events import Event, EventType, Reason
from flink_autoscaler.core.model.metrics import Aggregate, FlinkMetric
from flink_autoscaler.core.model.outside_number import NumberKind, OutsideNumber
from flink_autoscaler.core.model.reading import JobReading
from flink_autoscaler.core.model.syntax import format_list
from flink_autoscaler.core.model.topology import Vertex, build_topology
from flink_autoscaler.core.model.vertex_patterns import VertexBounds, bounds_of, format_bounds, matches
from flink_autoscaler.core.observe.possible import is_possible
from flink_autoscaler.core.options.job import AutoscalerOptions
from flink_autoscaler.core.ports.passes import PassRequest

METRICS: Final = {
    NumberKind.ARRIVAL_RATE: FlinkMetric.ARRIVAL_RATE,
    NumberKind.FLOOR: FlinkMetric.LEAST_PARALLELISM,
}
_NAMES: Final = {NumberKind.ARRIVAL_RATE: "arrival rate", NumberKind.FLOOR: "least parallelism"}


@dataclass(frozen=True, slots=True)
class _Chosen:
    vertex: Vertex
    number: OutsideNumber

    @property
    def value(self) -> float | None:
        return self.number.value

    @property
    def unknown(self) -> str:
        """What is to be said about it."""
        what = f"the {_NAMES[self.number.kind]} of {self.vertex.name} is unknown"
        return f"{what}, so nothing is scaled down: {self.number.origin}: {self.number.problem}"


def with_numbers(given: Supplemented) -> Supplemented:
    """Put the numbers that others know into a pass.

    While a number is unknown in all places that were asked, nothing of the job is scaled down: what arrives may be more
    than what is read, and a floor may hold.

    Raises:
        AutoscalerError: The details of the job make no sense.
    """
    request, reading = given.request, given.reading
    if not request.numbers or reading.details is None or not reading.aggregates:
        return given
    vertices = [v for v in build_topology(reading.details).vertices.values() if not v.is_finished]
    chosen = [
        each
        for kind in METRICS
        for vertex in vertices
        if vertex.is_source or kind is not NumberKind.ARRIVAL_RATE
        if (each := _first_known(vertex, kind, request.numbers)) is not None
    ]
    unknown = [each for each in chosen if each.value is None]
    return Supplemented(
        _restrained(request, chosen),
        _filled(reading, chosen),
        (*given.reasons, *map(_reason, unknown)),
        (*given.events, *_events(unknown, request.context.options)),
    )


def _first_known(vertex: Vertex, kind: NumberKind, numbers: Sequence[OutsideNumber]) -> _Chosen | None:
    """Return the first answer that knows a number of a vertex, else the first of all; None if nobody was asked."""
    asked = [_checked(each) for each in numbers if each.kind is kind and matches(vertex, each.pattern)]
    if not asked:
        return None
    return _Chosen(vertex, next((each for each in asked if each.value is not None), asked[0]))


def _checked(number: OutsideNumber) -> OutsideNumber:
    if number.value is None or is_possible(number.value):
        return number
    return replace(number, value=None, problem=f"it is {number.value:g}, which cannot be")


def _filled(reading: JobReading, chosen: Sequence[_Chosen]) -> JobReading:
    aggregates, origins = {**reading.aggregates}, {**reading.origins}
    for each in chosen:
        vertex_id, metric = each.vertex.vertex_id, METRICS[each.number.kind]
        # A vertex of which Flink has no values yet stays without any.
        if each.value is not None and aggregates.get(vertex_id):
            aggregates[vertex_id] = {**aggregates[vertex_id], metric: Aggregate(total=each.value)}
            origins[vertex_id] = {**origins.get(vertex_id, {}), metric: each.number.origin}
    return replace(reading, aggregates=aggregates, origins=origins)


def _restrained(request: PassRequest, chosen: Sequence[_Chosen]) -> PassRequest:
    """Bound vertices from below, and hold scale-downs where something is unknown."""
    options, configuration = request.context.options, {**request.context.configuration}
    floors = [_floor(each, options) for each in chosen if each.number.kind is NumberKind.FLOOR and each.value]
    if floors:
        bounds = [format_bounds(each) for each in (*floors, *options.vertex_bounds)]
        configuration[AutoscalerOptions.vertex_bounds.key] = format_list(bounds)
    may_scale_down = request.context.may_scale_down and all(each.value is not None for each in chosen)
    if configuration == request.context.configuration and may_scale_down == request.context.may_scale_down:
        return request
    context = replace(request.context, configuration=configuration, may_scale_down=may_scale_down)
    return replace(request, context=context)


def _floor(chosen: _Chosen, options: AutoscalerOptions) -> VertexBounds:
    """Return the bounds of a vertex with a floor under it, within what people allow."""
    vertex, own = chosen.vertex, bounds_of(chosen.vertex, options.vertex_bounds)
    least = options.min_parallelism if own is None or own.least is None else own.least
    most = options.max_parallelism if own is None or own.greatest is None else own.greatest
    floor = min(max(least, math.ceil(chosen.value or 0.0)), most)
    return VertexBounds(vertex.vertex_id, floor, most)


def _reason(chosen: _Chosen) -> Reason:
    if chosen.number.kind is NumberKind.FLOOR:
        return Reason("FLOOR_UNKNOWN", chosen.unknown, chosen.vertex.vertex_id)
    return Reason("ARRIVAL_RATE_UNKNOWN", chosen.unknown, chosen.vertex.vertex_id)


def _events(unknown: Sequence[_Chosen], options: AutoscalerOptions) -> Iterator[Event]:
    for each in unknown:
        text, key = f"{each.unknown[:1].upper()}{each.unknown[1:]}", f"{each.number.kind}{each.vertex.vertex_id}"
        yield Event(EventType.WARNING, "NumberUnknown", text, key, options.scaling_event_interval)
