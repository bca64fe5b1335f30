"""The slots of one job: how many it needs, whether it shares those of its cluster with others, and what it can give."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from flink_autoscaler.core.errors import ConfigError
from flink_autoscaler.core.model.job import JobStatus, SlotNeed
from flink_autoscaler.core.model.metrics import VertexId
from flink_autoscaler.core.model.orders import PauseScope
from flink_autoscaler.core.model.reading import JobReading
from flink_autoscaler.core.model.supervision import Requirements, SupervisionPhase
from flink_autoscaler.core.model.topology import Vertex, VertexDetails
from flink_autoscaler.core.model.vertex_patterns import matches
from flink_autoscaler.core.options import calendar
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


def can_give(request: PassRequest) -> bool:
    """Tell whether a job can be asked for slots: it runs, Flink can rescale it, and nobody wants it left as it is."""
    options, supervision = request.context.options, request.state.supervision
    is_dry = options.dry_run or request.orders.dry_run is not None
    is_allowed = (
        options.enabled
        and options.scaling_enabled
        and options.scale_down_enabled
        and not is_dry
        and request.context.restriction.may_scale_down
    )
    if not is_allowed or not options.supervises_rescales:
        return False
    if request.context.flink_options.scheduler.strip().lower() != "adaptive":
        return False
    if request.context.status is not JobStatus.RUNNING or supervision.edit is not None:
        return False
    if supervision.phase in (SupervisionPhase.ROLLING_BACK, SupervisionPhase.PAUSED):
        return False
    is_paused = request.orders.paused(PauseScope.DOWN, request.now_ms) is not None
    is_reference = not options.is_improved
    return not (is_paused or calendar.is_excluded(options.excluded_periods, request.now_ms, is_reference=is_reference))


def least_slots(vertices: Iterable[AnyVertex], request: PassRequest) -> int:
    """Return the slots that a job keeps whatever it gives: bounds, pins and excluded vertices hold."""
    known = list(vertices)
    return slots_in_groups(known, _floors(known, request))


def shrunk(vertices: Iterable[AnyVertex], request: PassRequest, slots: int) -> dict[VertexId, int]:
    """Return the parallelism of all vertices within so many slots, or as near to that as may be.

    Slot after slot is taken from the widest slot sharing group that has any to give.
    """
    known = list(vertices)
    floors = _floors(known, request)
    groups, least = widths(known, {v.vertex_id: v.parallelism for v in known}), widths(known, floors)
    while sum(groups.values()) > slots:
        givers = [group for group, width in groups.items() if width > least[group]]
        if not givers:
            break
        groups[max(givers, key=lambda group: groups[group])] -= 1
    return {v.vertex_id: max(floors[v.vertex_id], min(v.parallelism, groups[v.slot_sharing_group])) for v in known}


def _floors(vertices: list[AnyVertex], request: PassRequest) -> dict[VertexId, int]:
    """Return the parallelism below which no vertex goes."""
    options, pinned = request.context.options, request.orders.pinned(vertices)
    restriction = request.context.restriction

    def is_fast(vertex: AnyVertex) -> bool:
        is_excluded = vertex.vertex_id in options.vertex_exclude_ids or vertex.vertex_id in restriction.fixed
        names = options.vertex_exclude_names
        return is_excluded or vertex.vertex_id in pinned or any(matches(vertex, name) for name in names)

    least = {
        v.vertex_id: max(1, least_parallelism(v, options), restriction.floors.get(v.vertex_id, 0)) for v in vertices
    }
    return {v.vertex_id: v.parallelism if is_fast(v) else min(v.parallelism, least[v.vertex_id]) for v in vertices}
