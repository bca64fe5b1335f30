"""The policy that a job has chosen: it is asked by its name, and its proposal becomes a plan within the schedules."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from types import MappingProxyType
from typing import Any, Final

from flink_autoscaler.core.error_boundary import ErrorBoundary
from flink_autoscaler.core.errors import ConfigError, PluginError
from flink_autoscaler.core.memoize import memoize_last
from flink_autoscaler.core.model.events import Event, EventType, Reason
from flink_autoscaler.core.model.message_catalog import ReasonCode
from flink_autoscaler.core.model.metrics import VertexId
from flink_autoscaler.core.model.policy_values import (
    JobObservation,
    PolicyInput,
    Proposal,
    VertexSizing,
)
from flink_autoscaler.core.model.state import PolicyMemories
from flink_autoscaler.core.model.value import replace, value
from flink_autoscaler.core.options.job import AutoscalerOptions
from flink_autoscaler.core.policies.base.proposals import (
    INCOMPLETE_WINDOW,
    abstention,
    not_running_reason,
)
from flink_autoscaler.core.policies.base.sizing import SizingSettings, limits_of
from flink_autoscaler.core.policies.capacity import CapacityPolicy
from flink_autoscaler.core.policies.schedule import SCHEDULE, ScheduleBounds, schedule_bounds
from flink_autoscaler.core.policies.slo.policy import SloPolicy
from flink_autoscaler.core.policies.varga import VargaPolicy
from flink_autoscaler.core.ports.passes import EvaluatedJob
from flink_autoscaler.core.ports.plugins import ScalingPolicy, confirms_plans, is_streaming_policy

POLICY_FAILED: Final = ReasonCode.POLICY_FAILED


_LIMITED: Final = ReasonCode.SCALING_LIMITED
_UNDECIDED: Final = ReasonCode.NO_OPINION

SHADOW: Final = "policies.shadow"
"""Under which the memory of the second policy of a job is kept, beside that of the policy in charge."""


@value
class PolicyPlan:
    """What the policy of a job would do.

    Attributes:
        targets: Parallelism of every vertex, also of those that stay as they are.
        reasons: Those of the policy, then what became of them; at least one.
        states: What is to be handed back in the next pass, by the name of who remembers it.
        sizings: Of the vertices that go where a policy that sizes all of them at once wants them.
        unknown: Vertices that the policy has no opinion on.
        bypasses_damping: Vertices that go where a policy wants them that needs no metric window: what exists for those
            that do is skipped for these.
        failures: What is to be told where it failed, by its name.
        is_confirmed: Whether it confirms its plans over several passes itself.
    """

    targets: Mapping[VertexId, int]
    reasons: tuple[Reason, ...]
    states: Mapping[str, Mapping[str, Any]]
    sizings: Mapping[VertexId, VertexSizing] = field(default_factory=dict)
    unknown: frozenset[VertexId] = frozenset()
    bypasses_damping: frozenset[VertexId] = frozenset()
    failures: Mapping[str, str] = field(default_factory=dict)
    is_confirmed: bool = False

    @property
    def is_sure(self) -> bool:
        """Whether what stays as it is does so for a reason, and not for want of valid metrics."""
        return not any(reason.code == _UNDECIDED for reason in self.reasons)

    @property
    def memories(self) -> PolicyMemories:
        """What to hand back in the next pass, without what is empty."""
        return {name: state for name, state in self.states.items() if state}

    def events(self, options: AutoscalerOptions) -> list[Event]:
        """Return what is to be told: policies that failed, and vertices that cannot grow to what they need."""
        interval, events = options.scaling_event_interval, []
        for name, problem in self.failures.items() if options.is_improved else ():
            text = f"policy {name} failed: {problem}"
            events.append(Event(EventType.WARNING, "PluginProblem", text, f"policy{name}", interval))
        for reason in self.reasons:
            if reason.code == _LIMITED:
                key = f"ScalingLimited{reason.vertex_id or ''}"
                events.append(Event(EventType.WARNING, "ScalingLimited", reason.text, key, interval))
        return events


def within_schedule(plan: PolicyPlan, planned: ScheduleBounds, obs: JobObservation) -> PolicyPlan:
    """Return the plan within the bounds that schedules set now, whatever the policy wants."""
    bounded = {
        v: planned.clamp(vertex, plan.targets[v])
        for v, vertex in obs.vertices.items()
        if v in plan.targets and (v in planned.floors or v in planned.ceilings)
    }
    moved = {v: target for v, target in bounded.items() if target != plan.targets[v]}
    reasons = [
        Reason.of(ReasonCode.PLAN_BOUNDS, v, vertex=obs.vertices[v].name, before=plan.targets[v], after=target)
        for v, target in moved.items()
    ]
    plan = replace(plan, states={**plan.states, SCHEDULE: planned.state})
    return _with_targets(plan, moved, (*planned.reasons, *reasons))


def raise_to_floors(plan: PolicyPlan, job: EvaluatedJob) -> PolicyPlan:
    """Return the plan with vertices raised to the floors that others than Flink gave, as far as bounds allow it."""
    settings, below = SizingSettings.of_job(job), dict[VertexId, int]()
    for vertex_id, floor in job.context.restriction.floors.items():
        if vertex_id not in job.excluded:
            vertex = job.topology.vertices[vertex_id]
            least = min(floor, limits_of(vertex, vertex.working_subtasks, settings).bound)
            if plan.targets.get(vertex_id, least) < least:
                below[vertex_id] = least
    reasons = [Reason.of(ReasonCode.FLOOR, v, floor=floor) for v, floor in below.items()]
    return _with_targets(plan, below, reasons) if below else plan


def _with_targets(plan: PolicyPlan, moved: Mapping[VertexId, int], reasons: Iterable[Reason]) -> PolicyPlan:
    """Return the plan with other targets for some vertices, which are no longer what the policy sized them for."""
    return replace(
        plan,
        targets={**plan.targets, **moved},
        reasons=(*plan.reasons, *reasons),
        sizings={v: sizing for v, sizing in plan.sizings.items() if v not in moved},
        unknown=plan.unknown - moved.keys(),
    )


def plan_of(proposal: Proposal, current: Mapping[VertexId, int]) -> PolicyPlan:
    """Return what a proposal means for every vertex; where the policy blocks that, none goes down.

    Args:
        proposal: Of a policy; of one that raised, an abstention with that as its reason.
        current: Parallelism of the vertices that it is about.
    """
    targets, sizings, falling = dict(current), dict(proposal.sizings or {}), False
    for vertex_id, target in (proposal.targets or {}).items():
        wanted = sizings[vertex_id].target if vertex_id in sizings else target
        if proposal.blocks_down and wanted < current[vertex_id]:
            falling = True
            sizings.pop(vertex_id, None)
        else:
            targets[vertex_id] = wanted
    reasons = list(proposal.reasons)
    if falling:
        reasons.append(Reason.of(ReasonCode.DOWN_BLOCKED, policy=proposal.policy))
    if proposal.targets is None:
        reasons.append(Reason.of(_UNDECIDED))
    unknown = frozenset(current.keys() - (proposal.targets or {}).keys())
    return PolicyPlan(targets, tuple(reasons), {proposal.policy: proposal.state}, sizings, unknown)


def abstention_after_error(policy: str, error: str, state: Mapping[str, Any]) -> Proposal:
    """Return the proposal of a policy that raised: it abstains, and nothing goes down without it.

    Args:
        policy: Its name.
        error: What it raised, for people.
        state: What it was handed, kept for the next pass.
    """
    return abstention(policy, (Reason.of(POLICY_FAILED, policy=policy, error=error),), state)


AnyPolicy = ScalingPolicy | CapacityPolicy

POLICIES: Final[Mapping[str, AnyPolicy]] = MappingProxyType(
    {policy.name: policy for policy in (CapacityPolicy(), VargaPolicy(), SloPolicy())}
)
"""The built-in policies."""


@memoize_last
def known_policies(plugins: Mapping[str, ScalingPolicy]) -> Mapping[str, AnyPolicy]:
    """Return all policies by name; a plug-in with the name of a built-in one replaces it.

    Args:
        plugins: Policies that did not come with the autoscaler, by name; they do not change.
    """
    return MappingProxyType({**POLICIES, **plugins})


def chosen_policy(name: str, plugins: Mapping[str, ScalingPolicy]) -> AnyPolicy:
    """Return the policy with a name.

    Args:
        name: As configured.
        plugins: Policies that did not come with the autoscaler, by name.

    Raises:
        ConfigError: There is no such policy, and the message names all that there are; or it is written for 0.2.0.
    """
    known = known_policies(plugins)
    if name not in known:
        raise ConfigError(
            f"The option {AutoscalerOptions.policy.key} names {name!r}, but the policies are {', '.join(sorted(known))}"
        )
    policy = known[name]
    if hasattr(type(policy), "needs_no_window"):
        raise ConfigError(f"The policy {name!r} declares needs_no_window, which was renamed; declare is_streaming")
    return policy


def unknown_policies(options: AutoscalerOptions, plugins: Mapping[str, ScalingPolicy]) -> str | None:
    """Return what is wrong with the name of the policy of a job, None when it is known."""
    try:
        chosen_policy(options.policy, plugins)
    except ConfigError as error:
        return str(error)
    return None


def run_job_policy(
    observe: Callable[[], PolicyInput], job: EvaluatedJob, plugins: Mapping[str, ScalingPolicy]
) -> PolicyPlan:
    """Ask the policy of a job.

    Args:
        observe: Makes what policies are shown, once one of them looks.
        job: As it was evaluated, with what was handed back in the last pass.
        plugins: Policies that did not come with the autoscaler, by name.

    Raises:
        ConfigError: There is no such policy.
        AutoscalerError: The default policy cannot size the job.
    """
    name, memories, failures = job.context.options.policy, job.state.policies, dict[str, str]()
    policy, memory = chosen_policy(name, plugins), memories.get(name, {})
    is_streaming, given = is_streaming_policy(policy), cache(observe)
    shown, plans = _under_schedule(given, job)
    if not (job.is_window_full or is_streaming):
        reason = Reason.of(INCOMPLETE_WINDOW, policy=name)
        proposal = abstention(name, (reason,), memory)
    elif isinstance(policy, CapacityPolicy):
        # What cannot be sized by its rates is an error of the pass, as in the reference.
        vertices = shown().obs.vertices if plans else {}
        proposal = policy.size(job, {v: vertex.max_parallelism for v, vertex in vertices.items()})
    else:
        proposal, problem = run_policy(name, policy, shown, memory)
        if problem is not None:
            failures[name] = problem
    sizes = {v: each.working_subtasks for v, each in job.topology.vertices.items() if not each.is_finished}
    plan, wanted = plan_of(proposal, sizes), proposal.targets or {}
    plan = replace(
        plan,
        bypasses_damping=frozenset([v for v in wanted if plan.targets[v] == wanted[v]] if is_streaming else ()),
        failures=failures,
        is_confirmed=is_streaming or confirms_plans(policy),
    )
    if plans is not None:
        plan = within_schedule(plan, plans, given().obs)
    return raise_to_floors(plan, job) if job.context.restriction.floors else plan


def _under_schedule(
    shown: Callable[[], PolicyInput], job: EvaluatedJob
) -> tuple[Callable[[], PolicyInput], ScheduleBounds | None]:
    """Return what shows a policy no more room than the schedules of its job leave, and what these say."""
    if not job.context.options.schedule_plans or not_running_reason(shown().obs):
        return shown, None
    given = shown()
    plans = schedule_bounds(replace(given, state=job.state.policies.get(SCHEDULE, {})))
    bounded = replace(given, obs=plans.applied_to(given.obs))
    return lambda: bounded, plans


def run_policy(
    name: str, policy: ScalingPolicy, shown: Callable[[], PolicyInput], state: Mapping[str, Any]
) -> tuple[Proposal, str | None]:
    """Return what a policy proposes, and what is wrong with it: one that fails must not stop those that do not.

    Args:
        name: That it is chosen by.
        policy: The policy.
        shown: Makes what policies are shown.
        state: What it returned in the last pass.
    """
    with ErrorBoundary() as boundary:
        return _validated_proposal(name, policy.propose(replace(shown(), state=state)), shown().obs), None
    problem = str(boundary.error)
    return abstention_after_error(name, problem, state), problem


@dataclass(frozen=True, slots=True)
class PolicyUpdate:
    """What policies say in a pass that holds the job whatever they say.

    Attributes:
        memories: What to hand back to all policies of the job in the next pass.
        reasons: Of those that were asked.
    """

    memories: PolicyMemories
    reasons: tuple[Reason, ...] = ()


def update_policies(
    observe: Callable[[], PolicyInput], job: EvaluatedJob, plugins: Mapping[str, ScalingPolicy]
) -> PolicyUpdate:
    """Ask the policies of a job that need no metric window, so that what they remember has no holes.

    Raises:
        ConfigError: There is no such policy.
    """
    name, memories = job.context.options.policy, dict(job.state.policies)
    policy, reasons = chosen_policy(name, plugins), tuple[Reason, ...]()
    if is_streaming_policy(policy) and not isinstance(policy, CapacityPolicy):
        shown, _ = _under_schedule(cache(observe), job)
        proposal, _ = run_policy(name, policy, shown, memories.get(name, {}))
        memories[proposal.policy], reasons = proposal.state, proposal.reasons
    return PolicyUpdate({name: state for name, state in memories.items() if state}, reasons)


@memoize_last
def streaming_policies(options: AutoscalerOptions, plugins: Mapping[str, ScalingPolicy]) -> frozenset[str]:
    """Return under what the policies of a job that need no metric window keep their memory.

    Returns:
        The name of the policy in charge, and ``SHADOW`` for a second one.

    Raises:
        ConfigError: There is no such policy.
    """
    names = {options.policy} if is_streaming_policy(chosen_policy(options.policy, plugins)) else set[str]()
    second = known_policies(plugins).get(options.policy_shadow) if options.policy_shadow else None
    return frozenset(names | {SHADOW} if second is not None and is_streaming_policy(second) else names)


def _validated_proposal(name: str, proposal: object, obs: JobObservation) -> Proposal:
    """Return a proposal as it can be used: under the name of its policy, with a state that can be stored.

    Raises:
        PluginError: It is not a proposal, or its targets are no parallelism of vertices of the job.
        ValueError, TypeError: Its state is not made of JSON values.
    """
    if not isinstance(proposal, Proposal):
        raise PluginError(f"it returned {type(proposal).__name__}, not a proposal")
    for vertex_id, target in (proposal.targets or {}).items():
        if vertex_id not in obs.vertices or type(target) is not int or target < 1:
            raise PluginError(f"its target {target!r} for {vertex_id!r} is no parallelism of a vertex of the job")
    state: dict[str, Any] = json.loads(json.dumps(dict(proposal.state), allow_nan=False))
    reasons = tuple(reason.attributed_to(name) for reason in proposal.reasons)
    return replace(proposal, policy=name, reasons=reasons, state=state)
