"""What all policies together come to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from flink_autoscaler.core.model.metrics import VertexId
from flink_autoscaler.core.model.policy_values import JobObservation, Proposal, ProposalDirection
from flink_autoscaler.core.model.reason import Reason
from flink_autoscaler.core.policies.base.proposals import INVALID_METRICS, abstention, direction_of

POLICY_FAILED: Final = "POLICY_FAILED"
_UNSURE: Final = INVALID_METRICS | {POLICY_FAILED}


class Combination(StrEnum):
    """How several proposals become one plan."""

    MAX = "max"
    FIRST = "first"


@dataclass(frozen=True, slots=True)
class CombinedPlan:
    """What all policies together would do.

    Attributes:
        targets: Parallelism of every vertex, also of those that stay as they are.
        direction: NONE when nothing changes.
        reasons: Those of all policies in their order, then what became of them; at least one.
        states: What each policy is to be handed back in the next pass, by its name.
        capacity: Records/s by vertex that the targets were sized for, where known.
    """

    targets: Mapping[VertexId, int]
    direction: ProposalDirection
    reasons: tuple[Reason, ...]
    states: Mapping[str, Mapping[str, Any]]
    capacity: Mapping[VertexId, float]


@dataclass(frozen=True, slots=True)
class _Choice:
    target: int
    capacity: float | None

    def rank(self) -> tuple[int, float]:
        return self.target, -1.0 if self.capacity is None else self.capacity


def combine(
    proposals: Sequence[Proposal], obs: JobObservation, combination: Combination = Combination.MAX
) -> CombinedPlan:
    """Return the plan.

    ``max`` takes the greatest target of each vertex from all policies that do not abstain, as the Kubernetes
    HorizontalPodAutoscaler does with several metrics; ``first`` takes the targets of the first of them. In both, no
    vertex goes down where a policy blocks that, or where one abstained because its metrics were invalid.

    Args:
        proposals: In the order of configuration; of a policy that raised, an abstention with that as its reason.
        obs: What they are about.
        combination: How to choose.
    """
    opinions = [proposal for proposal in proposals if proposal.targets is not None]
    chosen = _chosen(opinions[:1] if combination is Combination.FIRST else opinions)
    current = {v: vertex.parallelism for v, vertex in obs.vertices.items()}
    objections = _objections(proposals) if any(choice.target < current[v] for v, choice in chosen.items()) else ()
    settled = {v: choice for v, choice in chosen.items() if not objections or choice.target >= current[v]}
    targets = current | {v: choice.target for v, choice in settled.items()}
    said = [reason for proposal in proposals for reason in proposal.reasons]
    nothing = () if opinions else (Reason("NO_OPINION", "no policy has an opinion"),)
    return CombinedPlan(
        targets=targets,
        direction=direction_of(obs, targets),
        reasons=(*said, *objections, *nothing),
        states={proposal.policy: proposal.state for proposal in proposals},
        capacity={v: choice.capacity for v, choice in settled.items() if choice.capacity is not None},
    )


def _chosen(opinions: Sequence[Proposal]) -> dict[VertexId, _Choice]:
    """Return the greatest target of each vertex, with the greatest capacity that it was sized for."""
    chosen: dict[VertexId, _Choice] = {}
    for proposal in opinions:
        for vertex_id, target in (proposal.targets or {}).items():
            choice = _Choice(target, proposal.capacity.get(vertex_id))
            chosen[vertex_id] = max(chosen.get(vertex_id, choice), choice, key=_Choice.rank)
    return chosen


def _objections(proposals: Sequence[Proposal]) -> tuple[Reason, ...]:
    """Return why nothing may go down; empty when nothing speaks against it."""
    blocking = [proposal.policy for proposal in proposals if proposal.blocks_down]
    unsure = [proposal.policy for proposal in proposals if proposal.targets is None and _is_unsure(proposal)]
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
