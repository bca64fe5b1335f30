"""Shadow mode: what a second policy would do about a job beside those in charge, on the same samples; nothing is done.

The policy is shown the job as it is, with the size that those in charge have given it, and keeps a memory of its own.
Whatever it raises stays here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from flink_autoscaler.core.decide.slots import slots_of
from flink_autoscaler.core.error_boundary import ErrorBoundary
from flink_autoscaler.core.model.events import Event, EventType, Reason
from flink_autoscaler.core.model.metrics import VertexId
from flink_autoscaler.core.model.policy_values import Proposal, ShadowProposal
from flink_autoscaler.core.model.state import JobState, PolicyMemories
from flink_autoscaler.core.model.value import replace
from flink_autoscaler.core.options.job import AutoscalerOptions
from flink_autoscaler.core.policies.base.proposals import direction_from
from flink_autoscaler.core.policies.base.sizing import SizingSettings, limits_of
from flink_autoscaler.core.policies.capacity import CapacityPolicy
from flink_autoscaler.core.policies.policy_input import policy_input
from flink_autoscaler.core.policies.policy_runner import (
    POLICY_FAILED,
    SHADOW,
    AnyPolicy,
    abstention_after_error,
    known_policies,
    plan_of,
    run_policy,
)
from flink_autoscaler.core.ports.passes import EvaluatedJob, PassRequest
from flink_autoscaler.core.ports.plugins import Plugins, is_streaming_policy

_POLICY: Final = "policy"
_STATE: Final = "state"


@dataclass(frozen=True, slots=True)
class ShadowResult:
    """What comes of a second policy in one pass.

    Attributes:
        proposal: What it would do.
        state: What to hand back to it in the next pass.
        events: To be raised.
    """

    proposal: ShadowProposal
    state: Mapping[str, Any]
    events: tuple[Event, ...] = ()


def run_shadow_policy(name: str, job: EvaluatedJob, plugins: Plugins) -> ShadowResult | None:
    """Ask the second policy of a job; None where it waits for the metric window.

    Args:
        name: Of the policy.
        job: As it was evaluated.
        plugins: Of the pass.
    """
    state = _state_of(job.state.policies)
    with ErrorBoundary() as boundary:
        policy = known_policies(plugins.policies).get(name)
        if policy is not None and not (job.is_window_full or is_streaming_policy(policy)):
            return None
        proposal, problem = _propose(name, policy, job, state)
        events = () if problem is None else _problem_event(name, problem, job.context.options)
        return ShadowResult(_within_bounds(proposal, job), proposal.state, events)
    problem, held = str(boundary.error), _slots(job, _sizes(job))
    reason = Reason.of(POLICY_FAILED, policy=name, error=problem)
    return ShadowResult(
        ShadowProposal(name, held, (reason,)), state, _problem_event(name, problem, job.context.options)
    )


def _propose(
    name: str, policy: AnyPolicy | None, job: EvaluatedJob, state: Mapping[str, Any]
) -> tuple[Proposal, str | None]:
    if policy is None:
        problem = "there is no such policy"
        return abstention_after_error(name, problem, state), problem
    if isinstance(policy, CapacityPolicy):
        return policy.size(job, {}), None
    return run_policy(name, policy, cache(lambda: policy_input(job)), state)


def _within_bounds(proposal: Proposal, job: EvaluatedJob) -> ShadowProposal:
    """Return a proposal within the bounds of the vertices; no filter and no limit of the job is asked."""
    current = _sizes(job)
    held = _slots(job, current)
    if proposal.targets is None:
        return ShadowProposal(proposal.policy, held, proposal.reasons)
    settings = SizingSettings.of_job(job)
    targets = {
        v: target if target == current[v] else limits_of(job.topology.vertices[v], current[v], settings).clamp(target)
        for v, target in plan_of(proposal, current).targets.items()
        if v not in job.excluded
    }
    return ShadowProposal(
        policy=proposal.policy,
        held=held,
        reasons=proposal.reasons,
        direction=direction_from(current, targets),
        wanted=_slots(job, {**current, **targets}),
        changes={v: target for v, target in targets.items() if target != current[v]},
    )


def _sizes(job: EvaluatedJob) -> dict[VertexId, int]:
    return {v: vertex.parallelism for v, vertex in job.topology.vertices.items() if not vertex.is_finished}


def _slots(job: EvaluatedJob, sizes: Mapping[VertexId, int]) -> int:
    """Return the slots that vertices of some sizes take, those that have finished none."""
    return slots_of(job.topology, {vertex_id: sizes.get(vertex_id, 0) for vertex_id in job.topology.vertices})


def _problem_event(name: str, problem: str, options: AutoscalerOptions) -> tuple[Event, ...]:
    if not options.is_improved:
        return ()
    text = f"policy {name}, which runs beside those in charge, failed: {problem}"
    return (Event(EventType.WARNING, "PluginProblem", text, f"shadow{name}", options.scaling_event_interval),)


def _state_of(memories: PolicyMemories) -> Mapping[str, Any]:
    match memories.get(SHADOW):
        case {"state": dict(state)}:
            return state
    return {}


def with_policy_roles(request: PassRequest) -> PassRequest:
    """Return a request in which policies remember what belongs to the parts that they have now.

    One that was second and is put in charge goes on with what it has learned, and so does one that steps aside.

    Raises:
        ValueParseError: The choice of policies cannot be read.
    """
    options, memories = request.context.options, request.state.policies
    name, before = options.policy_shadow or None, memories.get(SHADOW, {}).get(_POLICY)
    if before == name:
        return request
    chosen, left = {options.policy}, {key: state for key, state in memories.items() if key != SHADOW}
    if before in chosen and before not in left:
        left[before] = _state_of(memories)
    if name is not None and name not in chosen and name in left:
        left[SHADOW] = {_POLICY: name, _STATE: left[name]}
    return request if memories == left else replace(request, state=replace(request.state, policies=left))


def with_shadow_memory(state: JobState, request: PassRequest, shadow: ShadowResult | None) -> JobState:
    """Return a state with what the second policy of a job remembers, whatever becomes of the decision.

    Args:
        state: Of which the policies in charge have made what they wanted.
        request: With what was remembered at the beginning of the pass.
        shadow: What came of the second policy in the pass; None where it was not asked.
    """
    name = request.context.options.policy_shadow
    memory = request.state.policies.get(SHADOW, {})
    if shadow is not None:
        memory = {_POLICY: shadow.proposal.policy, _STATE: dict(shadow.state)} if shadow.state else {}
    others = {key: each for key, each in state.policies.items() if key != SHADOW}
    policies = {**others, SHADOW: memory} if name and memory else others
    return state if policies == state.policies else replace(state, policies=policies)
