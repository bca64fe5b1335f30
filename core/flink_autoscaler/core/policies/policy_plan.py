"""How the proposal of a policy becomes the plan for every vertex."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from flink_autoscaler.core.model.events import Reason
from flink_autoscaler.core.model.metrics import VertexId
from flink_autoscaler.core.model.policy_values import (
    JobObservation,
    Proposal,
    ProposalDirection,
    VertexSizing,
)
from flink_autoscaler.core.model.quick import quick, replace
from flink_autoscaler.core.policies.base.proposals import abstention, direction_from, direction_of
from flink_autoscaler.core.policies.schedule import SCHEDULE, Planned

POLICY_FAILED: Final = "POLICY_FAILED"


@quick
@dataclass(frozen=True, slots=True)
class PolicyPlan:
    """What the policy would do.

    Attributes:
        targets: Parallelism of every vertex, also of those that stay as they are.
        direction: NONE when nothing changes.
        reasons: Those of the policy, then what became of them; at least one.
        states: What is to be handed back in the next pass, by the name of who remembers it.
        capacity: Records/s by vertex that the targets were sized for, where known.
        sizings: Of the vertices that go where a policy that sizes all of them at once wants them.
        unknown: Vertices that the policy has no opinion on.
        at_once: Vertices that go where a policy wants them that needs no metric window: what exists for those that do
            is skipped for these.
    """

    targets: Mapping[VertexId, int]
    direction: ProposalDirection
    reasons: tuple[Reason, ...]
    states: Mapping[str, Mapping[str, Any]]
    capacity: Mapping[VertexId, float]
    sizings: Mapping[VertexId, VertexSizing] = field(default_factory=dict)
    unknown: frozenset[VertexId] = frozenset()
    at_once: frozenset[VertexId] = frozenset()


def scheduled(plan: PolicyPlan, planned: Planned, obs: JobObservation) -> PolicyPlan:
    """Return the plan within the bounds that schedules set now, whatever the policy wants."""
    bounded = {
        v: planned.bounded(vertex, plan.targets[v])
        for v, vertex in obs.vertices.items()
        if v in plan.targets and (v in planned.floors or v in planned.ceilings)
    }
    moved = {v: target for v, target in bounded.items() if target != plan.targets[v]}
    targets = {**plan.targets, **moved}
    reasons = [
        Reason("PLAN_BOUNDS", f"{obs.vertices[v].name}: {plan.targets[v]} -> {target} as planned", v)
        for v, target in moved.items()
    ]
    return replace(
        plan,
        targets=targets,
        direction=direction_of(obs, targets),
        reasons=(*plan.reasons, *planned.reasons, *reasons),
        states={**plan.states, SCHEDULE: planned.state},
        sizings={v: sizing for v, sizing in plan.sizings.items() if v not in moved},
        unknown=plan.unknown - moved.keys(),
    )


def raised_to_floors(plan: PolicyPlan, floors: Mapping[VertexId, int], current: Mapping[VertexId, int]) -> PolicyPlan:
    """Return the plan with vertices raised to their floors, whatever policies want.

    Args:
        plan: What they want.
        floors: Least parallelism of vertices, within their bounds.
        current: Parallelism of the vertices.
    """
    below = {v: floor for v, floor in floors.items() if plan.targets.get(v, floor) < floor}
    if not below:
        return plan
    targets = {**plan.targets, **below}
    reasons = [Reason("FLOOR", f"at least {floor} subtasks, by floor.sources", v) for v, floor in below.items()]
    return replace(
        plan,
        targets=targets,
        direction=direction_from(current, targets),
        reasons=(*plan.reasons, *reasons),
        sizings={v: sizing for v, sizing in plan.sizings.items() if v not in below},
        unknown=plan.unknown - below.keys(),
    )


def plan_of(proposal: Proposal, current: Mapping[VertexId, int]) -> PolicyPlan:
    """Return what a proposal means for every vertex; where the policy blocks that, none goes down.

    Args:
        proposal: Of a policy; of one that raised, an abstention with that as its reason.
        current: Parallelism of the vertices that it is about.
    """
    sizings = proposal.sizings or {}
    wanted = {v: sizings[v].target if v in sizings else target for v, target in (proposal.targets or {}).items()}
    falling = {v for v, target in wanted.items() if target < current[v]} if proposal.blocks_down else set[VertexId]()
    targets = {**current, **{v: target for v, target in wanted.items() if v not in falling}}
    reasons = list(proposal.reasons)
    if falling:
        reasons.append(Reason("DOWN_BLOCKED", f"{proposal.policy}: no scale-down now"))
    if proposal.targets is None:
        reasons.append(Reason("NO_OPINION", "the policy has no opinion"))
    return PolicyPlan(
        targets=targets,
        direction=direction_from(current, targets),
        reasons=tuple(reasons),
        states={proposal.policy: proposal.state},
        capacity={v: rate for v, rate in proposal.capacity.items() if v in wanted and v not in falling},
        sizings={v: sizing for v, sizing in sizings.items() if v in wanted and v not in falling},
        unknown=frozenset(current.keys() - wanted.keys()),
    )


def failed(policy: str, error: str, state: Mapping[str, Any]) -> Proposal:
    """Return the proposal of a policy that raised: it abstains, and nothing goes down without it.

    Args:
        policy: Its name.
        error: What it raised, for people.
        state: What it was handed, kept for the next pass.
    """
    return abstention(policy, (Reason(POLICY_FAILED, f"the policy {policy} failed: {error}"),), state)
