"""Which vertices are asked for their metric names, and what is remembered of the answers."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Final, NamedTuple

from flink_autoscaler.core.errors import MissingMetricError
from flink_autoscaler.core.model.decision import PassRequest
from flink_autoscaler.core.model.metrics import FlinkMetric, VertexId
from flink_autoscaler.core.model.reading import EMPTY_MEMORY, CollectorMemory, VertexAggregates
from flink_autoscaler.core.model.topology import JobDetails, JobTopology
from flink_autoscaler.core.observe.metric_names import choose_names, count_partitions

REFRESH_MS: Final = 300_000
"""How long the names of sources are used; new partitions and topics show up in them."""

REFRESH_WITHOUT_LAG_MS: Final = 60_000
"""The same while a source reports no pending records: Kafka's reader registers them with the first record only."""


class NamesRead(NamedTuple):
    """The memory after the names were read, and the first required metric that was not offered."""

    memory: CollectorMemory
    missing: MissingMetricError | None = None


def current_memory(request: PassRequest, details: JobDetails) -> CollectorMemory:
    """Return what is remembered about this execution of the job: nothing after a restart or for another job."""
    state = request.state
    is_other_job = state.job_id not in (None, request.context.job_id)
    oldest_ms = state.samples[0].at_ms if state.samples else None
    has_restarted = oldest_ms is not None and (details.running_at_ms or 0) > oldest_ms
    return EMPTY_MEMORY if is_other_job or has_restarted else request.memory


def vertices_to_ask(
    topology: JobTopology, memory: CollectorMemory, *, now_ms: int, is_cached: bool
) -> tuple[VertexId, ...]:
    """Return the vertices whose names are read in this pass.

    Args:
        topology: The job as it is now.
        memory: What is remembered about it.
        now_ms: The instant of the pass.
        is_cached: With it names are used for a while, and finished vertices are left alone. Without, as in the
            Java autoscaler: sources in every pass, also finished ones, and all vertices while one has finished.
    """
    vertices = topology.vertices.values()
    if is_cached:
        is_due = not 0 <= now_ms - memory.names_at_ms < _refresh_ms(topology, memory)
        return tuple(
            v.vertex_id
            for v in vertices
            if not v.is_finished and (v.vertex_id not in memory.names or (is_due and v.is_source))
        )
    only_sources = memory.names.keys() == topology.vertices.keys()
    return tuple(v.vertex_id for v in vertices if v.is_source or not (only_sources or v.is_finished))


def _refresh_ms(topology: JobTopology, memory: CollectorMemory) -> int:
    names = [memory.names.get(v.vertex_id, {}) for v in topology.vertices.values() if v.is_source and not v.is_finished]
    all_report_lag = all(FlinkMetric.PENDING_RECORDS in chosen.values() for chosen in names)
    return REFRESH_MS if all_report_lag else REFRESH_WITHOUT_LAG_MS


def remember(
    topology: JobTopology,
    memory: CollectorMemory,
    offered: Mapping[VertexId, Collection[str]],
    *,
    now_ms: int,
    is_cached: bool,
) -> NamesRead:
    """Choose names from what the vertices offer.

    Args:
        topology: The job as it is now.
        memory: What is remembered about it.
        offered: Metric ids per vertex that was asked; empty where none is known at the moment.
        now_ms: The instant of the pass.
        is_cached: As for :func:`vertices_to_ask`; with it an empty offer does not replace what is remembered.
    """
    active = topology.vertices.keys() - topology.finished
    names = {vertex_id: chosen for vertex_id, chosen in memory.names.items() if vertex_id in active}
    partitions = {**memory.partitions} if is_cached else {}
    missing: MissingMetricError | None = None
    for vertex_id, available in offered.items():
        if is_cached and not available and vertex_id in names:
            continue
        vertex = topology.vertices[vertex_id]
        if vertex.is_source:
            partitions[vertex_id] = count_partitions(available)
        try:
            if vertex_id in active:
                names[vertex_id] = choose_names(vertex, available)
        except MissingMetricError as error:
            names.pop(vertex_id, None)
            missing = missing or error
    has_asked_source = any(topology.vertices[vertex_id].is_source for vertex_id in offered)
    memory = replace(
        memory,
        names=names,
        partitions={vertex_id: count for vertex_id, count in partitions.items() if count},
        names_at_ms=now_ms if has_asked_source else memory.names_at_ms,
    )
    return NamesRead(memory, missing)


def forget_unanswered(
    memory: CollectorMemory, aggregates: Mapping[VertexId, VertexAggregates], asked: Collection[VertexId]
) -> CollectorMemory:
    """Forget remembered names that brought no values: one of them may be gone, which empties the whole answer.

    Names that were read in this very pass stay: their values are just not there yet.
    """
    stale = {vertex_id for vertex_id, values in aggregates.items() if not values and vertex_id not in asked}
    if not stale:
        return memory
    return replace(memory, names={v: chosen for v, chosen in memory.names.items() if v not in stale})
