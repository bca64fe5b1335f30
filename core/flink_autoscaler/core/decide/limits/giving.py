"""What a job can give of its slots, so that others run at all."""

from __future__ import annotations

from collections.abc import Iterable

from flink_autoscaler.core.decide.limits.needs import AnyVertex, least_parallelism, slots_in_groups, widths
from flink_autoscaler.core.model.job import JobStatus
from flink_autoscaler.core.model.metrics import VertexId
from flink_autoscaler.core.model.orders import PauseScope
from flink_autoscaler.core.model.supervision import SupervisionPhase
from flink_autoscaler.core.model.vertex_patterns import matches
from flink_autoscaler.core.options import calendar
from flink_autoscaler.core.ports.passes import PassRequest


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
