"""The slots that a job needs, and whether it shares those of its cluster with others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from flink_autoscaler.core.errors import ConfigError
from flink_autoscaler.core.model.job import JobStatus, SlotNeed
from flink_autoscaler.core.model.metrics import VertexId
from flink_autoscaler.core.model.reading import JobReading
from flink_autoscaler.core.model.supervision import Requirements
from flink_autoscaler.core.model.topology import Vertex, VertexDetails
from flink_autoscaler.core.model.vertex_patterns import matches
from flink_autoscaler.core.options.context import JobAutoScalerContext
from flink_autoscaler.core.options.job import AutoscalerOptions
from flink_autoscaler.core.ports.passes import PassRequest

AnyVertex = Vertex | VertexDetails


def shares_slots(context: JobAutoScalerContext) -> bool:
    """Tell whether the job has to do with the slots that its cluster has, because nobody adds any as it asks."""
    if context.capacity is None or not context.capacity.is_fixed:
        return False
    options = context.options
    try:
        return options.filters_rescales and options.capacity_enabled
    except ConfigError:  # the pass says what is wrong with it
        return False


def waits_for_slots(request: PassRequest) -> bool:
    """Tell whether a job may wait for slots that others have, so that it is to be found out how many it needs."""
    context = request.context
    if context.status is not JobStatus.CREATED or context.job_id is None or not shares_slots(context):
        return False
    return context.options.supervises_rescales


def need_of(request: PassRequest, reading: JobReading) -> SlotNeed | None:
    """Return what a job needs that waits for slots; None where it does not, or that is not known.

    A job whose tasks are just being started counts as not running yet, but has its slots.
    """
    details, facts = reading.details, reading.facts
    if details is None or details.state != JobStatus.CREATED or not details.vertices:
        return None
    return slots_needed(details.vertices, (facts.requirements if facts else None) or {}, request.context.options)


def slots_needed(
    vertices: Iterable[AnyVertex], requirements: Requirements, options: AutoscalerOptions
) -> SlotNeed | None:
    """Return the least slots that a job starts with and the most that it takes; None for one without vertices.

    Args:
        vertices: As they are, or are to be.
        requirements: What the job asks for; a vertex that is missing there wants what it has, and one to start with.
        options: For the least parallelism of the vertices.
    """
    known = list(vertices)
    bounds = {v.vertex_id: requirements.get(v.vertex_id, (1, v.parallelism)) for v in known}
    least = {v.vertex_id: max(bounds[v.vertex_id][0], least_parallelism(v, options)) for v in known}
    most = {vertex_id: upper for vertex_id, (_, upper) in bounds.items()}
    least = {vertex_id: min(parallelism, most[vertex_id]) for vertex_id, parallelism in least.items()}
    return SlotNeed(slots_in_groups(known, least), slots_in_groups(known, most)) if known else None


def least_parallelism(vertex: AnyVertex, options: AutoscalerOptions) -> int:
    """Return the least parallelism that the options allow for a vertex."""
    own = next((each for each in options.vertex_bounds if matches(vertex, each.pattern)), None)
    return options.min_parallelism if own is None or own.least is None else own.least


def slots_in_groups(vertices: Iterable[AnyVertex], parallelism: Mapping[VertexId, int]) -> int:
    """Return the slots that a job takes: the widest vertex of every slot sharing group."""
    return sum(widths(vertices, parallelism).values())


def widths(vertices: Iterable[AnyVertex], parallelism: Mapping[VertexId, int]) -> dict[str | None, int]:
    """Return the greatest parallelism within each slot sharing group; one group where the cluster reports none."""
    groups: dict[str | None, int] = {}
    for vertex in vertices:
        group = vertex.slot_sharing_group
        groups[group] = max(groups.get(group, 0), parallelism[vertex.vertex_id])
    return groups
