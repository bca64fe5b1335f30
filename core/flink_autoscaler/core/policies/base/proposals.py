"""How proposals are made: why a policy abstains, where targets go, and the wording of reasons."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from flink_autoscaler.core.model.events import Reason
from flink_autoscaler.core.model.job import JobStatus
from flink_autoscaler.core.model.message_catalog import ReasonCode
from flink_autoscaler.core.model.metrics import VertexId
from flink_autoscaler.core.model.policy_values import JobObservation, Proposal, ProposalDirection, VertexObs
from flink_autoscaler.core.policies.base.quantities import VertexDemand

METRIC_MISSING: Final = ReasonCode.METRIC_MISSING
INCOMPLETE_WINDOW: Final = ReasonCode.INCOMPLETE_WINDOW
NOT_RUNNING: Final = ReasonCode.NOT_RUNNING
UNKNOWN_RATE: Final = ReasonCode.UNKNOWN_RATE


def not_usable(obs: JobObservation) -> tuple[Reason, ...]:
    """Return why nothing can be concluded from an observation; empty when something can."""
    if obs.status is not JobStatus.RUNNING or not obs.all_tasks_running or not obs.vertices:
        return (Reason.of(NOT_RUNNING),)
    partly = [vertex for vertex in obs.vertices.values() if not vertex.complete]
    return tuple(Reason.of(INCOMPLETE_WINDOW, vertex.vertex_id, vertex=vertex.name) for vertex in partly)


def not_running_reason(obs: JobObservation) -> tuple[Reason, ...]:
    """Return the reason where the job does not run with all its tasks; empty when it does."""
    return tuple(reason for reason in not_usable(obs) if reason.code == NOT_RUNNING)


def not_sizable(obs: JobObservation) -> tuple[Reason, ...]:
    """Return why nothing can be sized for what arrives; a source of which that is not known is a reason, too."""
    lacking = (vertex for vertex in obs.vertices.values() if vertex.is_source and vertex.target_rate is None)
    return not_usable(obs) or tuple(missing_metric_reason(vertex, "arrival rate") for vertex in lacking)


def missing_metric_reason(vertex: VertexObs, metric: str) -> Reason:
    """Return the reason for having no opinion on a vertex."""
    return Reason.of(METRIC_MISSING, vertex.vertex_id, vertex=vertex.name, metric=metric)


def lacking_rates(obs: JobObservation, needs: Mapping[VertexId, VertexDemand]) -> tuple[Reason, ...]:
    """Return a reason for every vertex whose need or rate is not known, although something arrives at it."""
    reasons = []
    for vertex_id, need in needs.items():
        if need.needed is None:
            reasons.append(missing_metric_reason(obs.vertices[vertex_id], "target rate"))
        elif need.rate is None and need.needed > 0.0:
            reasons.append(missing_metric_reason(obs.vertices[vertex_id], "true processing rate"))
    return tuple(reasons)


def abstention(policy: str, reasons: Iterable[Reason], state: Mapping[str, Any]) -> Proposal:
    """Make the proposal of a policy that has no opinion."""
    return Proposal(policy, None, ProposalDirection.NONE, {}, 0.0, tuple(reasons), state=state)


def direction_of(obs: JobObservation, targets: Mapping[VertexId, int]) -> ProposalDirection:
    """Return where targets go from what is observed."""
    return direction_from({vertex_id: obs.vertices[vertex_id].parallelism for vertex_id in targets}, targets)


def direction_from(current: Mapping[VertexId, int], targets: Mapping[VertexId, int]) -> ProposalDirection:
    """Return where targets go from what vertices have."""
    moves = {
        ProposalDirection.UP if target > current[vertex_id] else ProposalDirection.DOWN
        for vertex_id, target in targets.items()
        if target != current[vertex_id]
    }
    return ProposalDirection.MIXED if len(moves) > 1 else next(iter(moves), ProposalDirection.NONE)


def change_reasons(
    obs: JobObservation, targets: Mapping[VertexId, int], capacity: Mapping[VertexId, float]
) -> Sequence[Reason]:
    """Return a reason for every vertex that changes, with the records/s that it was sized for."""
    return [
        _change(obs.vertices[vertex_id], target, capacity[vertex_id])
        for vertex_id, target in targets.items()
        if target != obs.vertices[vertex_id].parallelism
    ]


def _change(vertex: VertexObs, target: int, capacity: float) -> Reason:
    code = ReasonCode.SCALE_UP if target > vertex.parallelism else ReasonCode.SCALE_DOWN
    figures = (("current", float(vertex.parallelism)), ("target", float(target)), ("capacity", capacity))
    return Reason.of(code, vertex.vertex_id, figures, vertex=vertex.name)


def lag_unknown(obs: JobObservation) -> tuple[Reason, ...]:
    """Return a reason for every source of which the lag is not known."""
    lacking = (vertex for vertex in obs.vertices.values() if vertex.is_source and vertex.lag_records is None)
    return tuple(Reason.of(ReasonCode.LAG_UNKNOWN, each.vertex_id, vertex=each.name) for each in lacking)


def saturation_reason(source: str, vertex_id: VertexId) -> Reason:
    """Return the reason for lowering nothing that a source gives whose lag is not known and that falls behind.

    Args:
        source: Its name.
        vertex_id: The vertex that the reason is about.
    """
    return Reason.of(ReasonCode.HELD_BACK, vertex_id, source=source)


def limited_reason(vertex: VertexObs, wanted: float) -> Reason:
    """Return the reason for a vertex that cannot grow to what it needs."""
    figures = (("limit", float(vertex.max_parallelism)),)
    return Reason.of(ReasonCode.SCALING_LIMITED, vertex.vertex_id, figures, vertex=vertex.name, wanted=wanted)


def nothing_lowered(*, has_backlog: bool) -> Reason:
    """Return the reason for not lowering any vertex."""
    text = "the job processes a backlog" if has_backlog else "the metric window has samples of a backlog"
    return Reason.of(ReasonCode.PROCESSING_BACKLOG, phase=text)
