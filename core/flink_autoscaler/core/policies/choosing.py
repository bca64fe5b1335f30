"""The policies that a job has chosen: by their names, each is asked, and their proposals become one plan."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

from flink_autoscaler.core.border import Border
from flink_autoscaler.core.errors import AutoscalerError, ConfigError, PluginError
from flink_autoscaler.core.last import keeping_last
from flink_autoscaler.core.model.events import Event, EventType, Reason
from flink_autoscaler.core.model.metrics import FlinkMetric, VertexId
from flink_autoscaler.core.model.policy_values import (
    EarlyWish,
    JobObservation,
    PolicyInput,
    Proposal,
)
from flink_autoscaler.core.model.quick import quick, replace
from flink_autoscaler.core.model.state import PolicyMemories
from flink_autoscaler.core.options.job import AutoscalerOptions
from flink_autoscaler.core.policies.base.proposals import (
    INCOMPLETE_WINDOW,
    abstention,
)
from flink_autoscaler.core.policies.base.sizing import SizingSettings, limits_of
from flink_autoscaler.core.policies.capacity import CapacityPolicy
from flink_autoscaler.core.policies.combining import (
    WINDOW_FILTER,
    Combination,
    CombinedPlan,
    combine,
    failed,
    hpa_window,
    raised,
)
from flink_autoscaler.core.policies.ds2.policy import Ds2Policy
from flink_autoscaler.core.policies.hpa.policy import HpaPolicy
from flink_autoscaler.core.policies.proactive import ProactivePolicy
from flink_autoscaler.core.policies.schedule import SchedulePolicy, capped
from flink_autoscaler.core.policies.slo.policy import SloPolicy
from flink_autoscaler.core.policies.varga import VargaPolicy
from flink_autoscaler.core.ports.passes import EvaluatedJob
from flink_autoscaler.core.ports.plugins import ScalingPolicy, confirms_plans, needs_no_window

_ALL: Final[tuple[ScalingPolicy, ...]] = (
    CapacityPolicy(),
    Ds2Policy(),
    ProactivePolicy(),
    HpaPolicy(),
    VargaPolicy(),
    SchedulePolicy(),
    SloPolicy(),
)

POLICIES: Final[Mapping[str, ScalingPolicy]] = MappingProxyType({policy.name: policy for policy in _ALL})
"""The built-in policies."""


@keeping_last
def known_policies(plugins: Mapping[str, ScalingPolicy]) -> Mapping[str, ScalingPolicy]:
    """Return all policies by name; a plug-in with the name of a built-in one replaces it.

    Args:
        plugins: Policies that did not come with the autoscaler, by name; they do not change.
    """
    return MappingProxyType({**POLICIES, **plugins})


def chosen_policies(names: Sequence[str], plugins: Mapping[str, ScalingPolicy]) -> dict[str, ScalingPolicy]:
    """Return the policies with some names, in their order.

    Args:
        names: As configured.
        plugins: Policies that did not come with the autoscaler, by name.

    Raises:
        ConfigError: There is no policy with one of the names; the message names all that there are.
    """
    known = known_policies(plugins)
    if unknown := [name for name in names if name not in known]:
        raise ConfigError(
            f"The option {AutoscalerOptions.policies.key} names {', '.join(map(repr, unknown))}, but the policies are "
            f"{', '.join(sorted(known))}"
        )
    return {name: known[name] for name in names}


@keeping_last
def unknown_policies(options: AutoscalerOptions, plugins: Mapping[str, ScalingPolicy]) -> str | None:
    """Return what is wrong with the names of the policies of a job, None when all of them are known."""
    try:
        chosen_policies(options.policies, plugins)
    except ConfigError as error:
        return str(error)
    return None


_LIMITED: Final = "SCALING_LIMITED"
_UNDECIDED: Final = frozenset({"NO_OPINION", "DOWN_UNSURE"})


@quick
@dataclass(frozen=True, slots=True)
class Chosen:
    """What the policies of a job come to.

    Attributes:
        plan: What to do, with the reasons of all policies.
        memories: What to hand back in the next pass.
        failures: What is to be told about policies that failed, by name.
        confirmed: What those policies propose, by name, that confirm their plans over several passes themselves.
        is_confirmed: Whether all policies of the job do.
        look_again: Which of them wants to look again first, and when; None where none does.
    """

    plan: CombinedPlan
    memories: PolicyMemories
    failures: Mapping[str, str]
    confirmed: Mapping[str, Proposal] = field(default_factory=dict)
    is_confirmed: bool = False
    look_again: EarlyWish | None = None

    @property
    def is_sure(self) -> bool:
        """Whether what stays as it is does so for a reason, and not for want of valid metrics."""
        return not any(reason.code in _UNDECIDED for reason in self.plan.reasons)

    def events(self, options: AutoscalerOptions) -> list[Event]:
        """Return what is to be told: policies that failed, and vertices that cannot grow to what they need."""
        interval, events = options.scaling_event_interval, []
        for name, problem in self.failures.items() if options.improves(options.problem_events) else ():
            text = f"policy {name} failed: {problem}"
            events.append(Event(EventType.WARNING, "PluginProblem", text, f"policy{name}", interval))
        for reason in self.plan.reasons:
            if reason.code == _LIMITED:
                key = f"ScalingLimited{reason.vertex_id or ''}"
                events.append(Event(EventType.WARNING, "ScalingLimited", reason.text, key, interval))
        return events


class _Once:
    """Makes what policies are shown when one of them looks, once for all of them."""

    __slots__ = ("_made", "_make")

    def __init__(self, make: Callable[[], PolicyInput]) -> None:
        self._make = make
        self._made: PolicyInput | None = None

    def __call__(self) -> PolicyInput:
        if self._made is None:
            self._made = self._make()
        return self._made


NOTHING_CONFIRMED: Final[Mapping[str, Proposal]] = MappingProxyType({})


def choose(
    observe: Callable[[], PolicyInput],
    options: AutoscalerOptions,
    plugins: Mapping[str, ScalingPolicy],
    memories: PolicyMemories,
    job: EvaluatedJob | None = None,
    confirmed: Mapping[str, Proposal] = NOTHING_CONFIRMED,
) -> Chosen:
    """Ask the policies of a job in the order in which they are configured.

    Args:
        observe: Makes what they are shown, once one of them looks; each gets its own state.
        options: Of the job.
        plugins: Policies that did not come with the autoscaler, by name.
        memories: What they returned in the last pass.
        job: As it was evaluated, by which the default policy sizes it; None for an observation made by hand.
        confirmed: What policies propose, by name, that are not asked.

    Raises:
        ConfigError: There is no such policy, or a setting of the ``hpa_window`` filter is invalid.
        AutoscalerError: The default policy cannot size the job.
    """
    policies, is_window_full = chosen_policies(options.policies, plugins), job is None or job.is_window_full
    shown = _Once(lambda: _as_scheduled(observe(), policies, memories))
    proposals, failures = list[Proposal](), {}
    for name, policy in policies.items():
        if name in confirmed:
            proposals.append(confirmed[name])
            continue
        if not (is_window_full or needs_no_window(policy)):
            proposals.append(abstention(name, _filling(name), memories.get(name, {})))
            continue
        # What cannot be sized by its rates is an error of the pass, as in the reference.
        if job and isinstance(policy, CapacityPolicy):
            proposals.append(policy.size(job, _ceilings(policies, shown)))
            continue
        proposal, problem = asked(name, policy, shown, memories.get(name, {}))
        proposals.append(proposal)
        if problem is not None:
            failures[name] = problem
    sizes = _sizes(shown, job)
    plan = combine(proposals, sizes, options.derived(_combination))
    if at_once := _at_once(plan, proposals, policies):
        plan = replace(plan, at_once=at_once)
    states = dict(plan.states)
    if options.hpa_filter_enabled:
        window = memories.get(WINDOW_FILTER, {})
        plan, states[WINDOW_FILTER] = hpa_window(plan, shown().obs, options.configuration, window)
    if job is not None:
        plan = raised(plan, _floors(job), sizes)
    sure = {name: each for name, each in zip(policies, proposals, strict=True) if confirms_plans(policies[name])}
    memories = {name: state for name, state in states.items() if state}
    return Chosen(plan, memories, failures, sure, len(sure) == len(policies), _first_wish(proposals))


def _combination(options: AutoscalerOptions) -> Combination:
    return Combination(options.policies_combine)


def _first_wish(proposals: Sequence[Proposal]) -> EarlyWish | None:
    wishes = [EarlyWish(each.policy, each.look_again_at) for each in proposals if each.look_again_at is not None]
    return min(wishes, key=lambda wish: wish.at, default=None)


def asked(
    name: str, policy: ScalingPolicy, shown: Callable[[], PolicyInput], state: Mapping[str, Any]
) -> tuple[Proposal, str | None]:
    """Return what a policy proposes, and what is wrong with it: one that fails must not stop those that do not.

    Args:
        name: That it is chosen by.
        policy: The policy.
        shown: Makes what policies are shown.
        state: What it returned in the last pass.
    """
    with Border() as border:
        return _checked(name, policy.propose(replace(shown(), state=state)), shown().obs), None
    problem = str(border.error)
    return failed(name, problem, state), problem


@dataclass(frozen=True, slots=True)
class Heard:
    """What policies say in a pass that holds the job whatever they say.

    Attributes:
        memories: What to hand back to all policies of the job in the next pass.
        reasons: Of those that were asked.
    """

    memories: PolicyMemories
    reasons: tuple[Reason, ...] = ()


def hear(
    observe: Callable[[], PolicyInput],
    options: AutoscalerOptions,
    plugins: Mapping[str, ScalingPolicy],
    memories: PolicyMemories,
) -> Heard:
    """Ask the policies of a job that need no metric window, so that what they remember has no holes.

    Raises:
        ConfigError: There is no such policy.
    """
    policies = chosen_policies(options.policies, plugins)
    shown = _Once(lambda: _as_scheduled(observe(), policies, memories))
    proposals = [
        asked(name, policy, shown, memories.get(name, {}))[0]
        for name, policy in policies.items()
        if needs_no_window(policy)
    ]
    kept = {**memories, **{proposal.policy: proposal.state for proposal in proposals}}
    reasons = tuple(reason for proposal in proposals for reason in proposal.reasons)
    return Heard({name: state for name, state in kept.items() if state}, reasons)


@keeping_last
def windowless(options: AutoscalerOptions, plugins: Mapping[str, ScalingPolicy]) -> frozenset[str]:
    """Return the names of the policies of a job that need no metric window.

    Raises:
        ConfigError: There is no such policy.
    """
    policies = chosen_policies(options.policies, plugins)
    return frozenset(name for name, policy in policies.items() if needs_no_window(policy))


def _filling(policy: str) -> tuple[Reason, ...]:
    return (Reason(INCOMPLETE_WINDOW, f"{policy}: the metric window is not full yet"),)


def _at_once(
    plan: CombinedPlan, proposals: Sequence[Proposal], policies: Mapping[str, ScalingPolicy]
) -> frozenset[VertexId]:
    """Return the vertices that go where a policy wants them that needs no metric window."""
    wanted = [
        proposal.targets or {}
        for proposal, policy in zip(proposals, policies.values(), strict=True)
        if needs_no_window(policy)
    ]
    if not wanted:
        return frozenset()
    return frozenset(v for v, target in plan.targets.items() if any(each.get(v) == target for each in wanted))


def _sizes(shown: Callable[[], PolicyInput], job: EvaluatedJob | None) -> dict[VertexId, int]:
    """Return the parallelism of the vertices that have not finished."""
    if job is None:
        return {vertex_id: vertex.parallelism for vertex_id, vertex in shown().obs.vertices.items()}
    return {v: vertex.working_subtasks for v, vertex in job.topology.vertices.items() if not vertex.is_finished}


def _floors(job: EvaluatedJob) -> dict[VertexId, int]:
    """Return the least parallelism that others than Flink gave for vertices, as far as their bounds allow it."""
    if not job.reading.origins:  # nobody else gave anything
        return {}
    metric, settings = FlinkMetric.LEAST_PARALLELISM, SizingSettings.of_job(job)
    given = {v: values[metric].total for v, values in job.reading.aggregates.items() if metric in values}
    vertices = {v: job.topology.vertices[v] for v in given if v not in job.excluded}
    bounds = {v: limits_of(vertex, vertex.working_subtasks, settings).bound for v, vertex in vertices.items()}
    return {v: min(math.ceil(given[v] or 0.0), bound) for v, bound in bounds.items()}


def _has_schedule(policies: Mapping[str, ScalingPolicy]) -> bool:
    return isinstance(policies.get(SchedulePolicy.name), SchedulePolicy)


def _ceilings(policies: Mapping[str, ScalingPolicy], shown: Callable[[], PolicyInput]) -> Mapping[VertexId, int]:
    """Return what the schedule of a job allows its vertices at most; nothing for a job without one."""
    vertices = shown().obs.vertices if _has_schedule(policies) else {}
    return {vertex_id: vertex.max_parallelism for vertex_id, vertex in vertices.items()}


def _as_scheduled(given: PolicyInput, policies: Mapping[str, ScalingPolicy], memories: PolicyMemories) -> PolicyInput:
    """Leave policies no more room than the schedule of the job does, where it has one."""
    if not _has_schedule(policies):
        return given
    try:
        return replace(given, obs=capped(replace(given, state=memories.get(SchedulePolicy.name, {}))))
    except AutoscalerError:
        return given  # the policy itself fails for the same reason, and that is told


def _checked(name: str, proposal: object, obs: JobObservation) -> Proposal:
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
    if proposal.look_again_at is not None and not math.isfinite(proposal.look_again_at):
        raise PluginError(f"it wants to look again at {proposal.look_again_at!r}, which is no instant")
    state: dict[str, Any] = json.loads(json.dumps(dict(proposal.state), allow_nan=False))
    reasons = tuple(replace(reason, text=f"{name}: {reason.text}") for reason in proposal.reasons)
    return replace(proposal, policy=name, reasons=reasons, state=state)
