"""How proposals of several policies become one plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
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
from flink_autoscaler.core.options.hpa import HpaOptions, behavior_of
from flink_autoscaler.core.options.job import AutoscalerOptions
from flink_autoscaler.core.policies.base.proposals import INVALID_METRICS, abstention, direction_from, direction_of
from flink_autoscaler.core.policies.base.quantities import subtasks
from flink_autoscaler.core.policies.hpa.behavior import Track, behave, behavior_reasons

POLICY_FAILED: Final = "POLICY_FAILED"
_UNSURE: Final = INVALID_METRICS | {POLICY_FAILED}


class Combination(StrEnum):
    """How several proposals become one plan."""

    MAX = "max"
    FIRST = "first"


@quick
@dataclass(frozen=True, slots=True)
class CombinedPlan:
    """What all policies together would do.

    Attributes:
        targets: Parallelism of every vertex, also of those that stay as they are.
        direction: NONE when nothing changes.
        reasons: Those of all policies in their order, then what became of them; at least one.
        states: What each policy is to be handed back in the next pass, by its name.
        capacity: Records/s by vertex that the targets were sized for, where known.
        sizings: Of the vertices that go where a policy that sizes all of them at once wants them.
        unknown: Vertices that no policy has an opinion on.
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


def raised(plan: CombinedPlan, floors: Mapping[VertexId, int], current: Mapping[VertexId, int]) -> CombinedPlan:
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


@quick
@dataclass(frozen=True, slots=True)
class _Choice:
    target: int
    capacity: float | None
    sizing: VertexSizing | None

    def rank(self) -> tuple[int, float]:
        return self.target, -1.0 if self.capacity is None else self.capacity


def combine(
    proposals: Sequence[Proposal], current: Mapping[VertexId, int], combination: Combination = Combination.MAX
) -> CombinedPlan:
    """Return the plan.

    ``max`` takes the greatest target of each vertex from all policies that do not abstain, as the Kubernetes
    HorizontalPodAutoscaler does with several metrics; ``first`` takes the targets of the first of them. In both, no
    vertex goes down where a policy blocks that, or where one abstained because its metrics were invalid.

    Args:
        proposals: In the order of configuration; of a policy that raised, an abstention with that as its reason.
        current: Parallelism of the vertices that they are about.
        combination: How to choose.
    """
    opinions = [proposal for proposal in proposals if proposal.targets is not None]
    chosen = _chosen(opinions[:1] if combination is Combination.FIRST else opinions)
    objections = _objections(proposals) if any(choice.target < current[v] for v, choice in chosen.items()) else ()
    settled = {v: choice for v, choice in chosen.items() if not objections or choice.target >= current[v]}
    targets = {**current, **{v: choice.target for v, choice in settled.items()}}
    said = [reason for proposal in proposals for reason in proposal.reasons]
    nothing = () if opinions else (Reason("NO_OPINION", "no policy has an opinion"),)
    return CombinedPlan(
        targets=targets,
        direction=direction_from(current, targets),
        reasons=(*said, *objections, *nothing),
        states={proposal.policy: proposal.state for proposal in proposals},
        capacity={v: choice.capacity for v, choice in settled.items() if choice.capacity is not None},
        sizings={v: choice.sizing for v, choice in settled.items() if choice.sizing is not None},
        unknown=frozenset(current.keys() - chosen.keys()),
    )


def _chosen(opinions: Sequence[Proposal]) -> dict[VertexId, _Choice]:
    """Return the greatest target of each vertex, with the greatest capacity that it was sized for."""
    chosen: dict[VertexId, _Choice] = {}
    for proposal in opinions:
        sizings = proposal.sizings or {}
        for vertex_id, target in (proposal.targets or {}).items():
            sizing = sizings.get(vertex_id)
            wanted = target if sizing is None else sizing.target
            choice, other = _Choice(wanted, proposal.capacity.get(vertex_id), sizing), chosen.get(vertex_id)
            chosen[vertex_id] = choice if other is None else max(other, choice, key=_Choice.rank)
    return chosen


def _objections(proposals: Sequence[Proposal]) -> tuple[Reason, ...]:
    """Return why nothing may go down; empty when nothing speaks against it."""
    blocking = [proposal.policy for proposal in proposals if proposal.blocks_down]
    unsure = [proposal.policy for proposal in proposals if not proposal.targets and _is_unsure(proposal)]
    objections = []
    if blocking:
        objections.append(Reason("DOWN_BLOCKED", f"{', '.join(blocking)}: no scale-down now"))
    if unsure:
        text = f"{', '.join(unsure)}: abstained without valid metrics, so nothing is scaled down"
        objections.append(Reason("DOWN_UNSURE", text))
    return tuple(objections)


def _is_unsure(proposal: Proposal) -> bool:
    return any(reason.code in _UNSURE for reason in proposal.reasons)


def failed(policy: str, error: str, state: Mapping[str, Any]) -> Proposal:
    """Return the proposal of a policy that raised: it abstains, and nothing goes down without it.

    Args:
        policy: Its name.
        error: What it raised, for people.
        state: What it was handed, kept for the next pass.
    """
    return abstention(policy, (Reason(POLICY_FAILED, f"the policy {policy} failed: {error}"),), state)


WINDOW_FILTER: Final = "hpa_window"
"""The name under which :func:`hpa_window` is handed back what it remembers."""


def hpa_window(
    plan: CombinedPlan, obs: JobObservation, configuration: Mapping[str, str], state: Mapping[str, Any]
) -> tuple[CombinedPlan, Mapping[str, Any]]:
    """Return what is left of a plan, vertex by vertex, and what to remember.

    It has to see every plan, also those that change nothing: what they say counts in its windows.

    Args:
        plan: What is wanted.
        obs: The job.
        configuration: Of the job; unless ``hpa.filter.enabled``, the plan stays as it is and nothing is remembered.
        state: What it returned in the last pass; JSON values.

    Raises:
        ConfigError: A setting is invalid.
    """
    options = HpaOptions.of(configuration)
    if not options.hpa_filter_enabled:
        return plan, {}
    behavior = behavior_of(options, AutoscalerOptions.of(configuration).metrics_window.exact_seconds)
    targets, reasons, tracks = dict(plan.targets), list[Reason](), dict[str, Any]()
    for vertex_id, wanted in plan.targets.items():
        vertex = obs.vertices[vertex_id]
        behaved = behave(wanted, vertex.parallelism, obs.now, Track.read(state.get(vertex_id)), behavior)
        targets[vertex_id] = subtasks(behaved.number, vertex)
        reasons += behavior_reasons(wanted, behaved, vertex_id)
        tracks[vertex_id] = behaved.track.saved()
    capacity = {v: rate * targets[v] / plan.targets[v] for v, rate in plan.capacity.items()}
    direction = direction_of(obs, targets)
    return replace(
        plan, targets=targets, direction=direction, reasons=(*plan.reasons, *reasons), capacity=capacity
    ), tracks
