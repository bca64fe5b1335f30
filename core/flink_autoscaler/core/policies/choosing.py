"""The policies that a job has chosen: by their names, each is asked, and their proposals become one plan."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cache
from types import MappingProxyType
from typing import Any, Final

from flink_autoscaler.core.errors import AutoscalerError, ConfigError, PluginError
from flink_autoscaler.core.model.events import Event, EventType, Reason
from flink_autoscaler.core.model.metrics import VertexId
from flink_autoscaler.core.model.policy_values import (
    JobObservation,
    PolicyInput,
    Proposal,
    ProposalDirection,
    VertexSizing,
)
from flink_autoscaler.core.model.state import PolicyMemories
from flink_autoscaler.core.options.hpa import HpaOptions, behavior_of
from flink_autoscaler.core.options.job import AutoscalerOptions
from flink_autoscaler.core.policies.backlog_time import BacklogTimePolicy
from flink_autoscaler.core.policies.base.proposals import INVALID_METRICS, abstention, direction_from, direction_of
from flink_autoscaler.core.policies.base.quantities import subtasks
from flink_autoscaler.core.policies.capacity import CapacityPolicy
from flink_autoscaler.core.policies.ds2.policy import Ds2Policy
from flink_autoscaler.core.policies.hpa.behavior import Track, behave, behavior_reasons
from flink_autoscaler.core.policies.hpa.policy import HpaPolicy
from flink_autoscaler.core.policies.proactive import ProactivePolicy
from flink_autoscaler.core.policies.schedule import SchedulePolicy, capped
from flink_autoscaler.core.policies.threshold import ThresholdPolicy
from flink_autoscaler.core.policies.varga import VargaPolicy
from flink_autoscaler.core.ports.passes import EvaluatedJob
from flink_autoscaler.core.ports.plugins import ScalingPolicy

_ALL: Final[tuple[ScalingPolicy, ...]] = (
    CapacityPolicy(),
    Ds2Policy(),
    ProactivePolicy(),
    HpaPolicy(),
    VargaPolicy(),
    BacklogTimePolicy(),
    ThresholdPolicy(),
    SchedulePolicy(),
)

POLICIES: Final[Mapping[str, ScalingPolicy]] = MappingProxyType({policy.name: policy for policy in _ALL})
"""The built-in policies."""


def known_policies(plugins: Mapping[str, ScalingPolicy]) -> dict[str, ScalingPolicy]:
    """Return all policies by name; a plug-in with the name of a built-in one replaces it."""
    return {**POLICIES, **plugins}


def chosen_policies(names: Sequence[str], plugins: Mapping[str, ScalingPolicy]) -> dict[str, ScalingPolicy]:
    """Return the policies with some names, in their order.

    Args:
        names: As configured.
        plugins: Policies that did not come with the autoscaler, by name.

    Raises:
        ConfigError: There is no policy with one of the names; the message names all that there are.
    """
    known = known_policies(plugins)
    unknown = [name for name in names if name not in known]
    if unknown:
        raise ConfigError(
            f"The option {AutoscalerOptions.policies.key} names {', '.join(map(repr, unknown))}, but the policies are "
            f"{', '.join(sorted(known))}"
        )
    return {name: known[name] for name in names}


def unknown_policies(options: AutoscalerOptions, plugins: Mapping[str, ScalingPolicy]) -> str | None:
    """Return what is wrong with the names of the policies of a job, None when all of them are known."""
    try:
        chosen_policies(options.policies, plugins)
    except ConfigError as error:
        return str(error)
    return None


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
        sizings: Of the vertices that go where a policy that sizes all of them at once wants them.
        unknown: Vertices that no policy has an opinion on.
    """

    targets: Mapping[VertexId, int]
    direction: ProposalDirection
    reasons: tuple[Reason, ...]
    states: Mapping[str, Mapping[str, Any]]
    capacity: Mapping[VertexId, float]
    sizings: Mapping[VertexId, VertexSizing] = field(default_factory=dict)
    unknown: frozenset[VertexId] = frozenset()


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
            choice = _Choice(wanted, proposal.capacity.get(vertex_id), sizing)
            chosen[vertex_id] = max(chosen.get(vertex_id, choice), choice, key=_Choice.rank)
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

_LIMITED: Final = "SCALING_LIMITED"
_UNDECIDED: Final = frozenset({"NO_OPINION", "DOWN_UNSURE"})


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
    options = HpaOptions(configuration)
    if not options.hpa_filter_enabled:
        return plan, {}
    behavior = behavior_of(options, AutoscalerOptions(configuration).metrics_window.exact_seconds)
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


@dataclass(frozen=True, slots=True)
class Chosen:
    """What the policies of a job come to.

    Attributes:
        plan: What to do, with the reasons of all policies.
        memories: What to hand back in the next pass.
        failures: What is to be told about policies that failed, by name.
    """

    plan: CombinedPlan
    memories: PolicyMemories
    failures: Mapping[str, str]

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


def choose(
    observe: Callable[[], PolicyInput],
    options: AutoscalerOptions,
    plugins: Mapping[str, ScalingPolicy],
    memories: PolicyMemories,
    job: EvaluatedJob | None = None,
) -> Chosen:
    """Ask the policies of a job in the order in which they are configured.

    Args:
        observe: Makes what they are shown, once one of them looks; each gets its own state.
        options: Of the job.
        plugins: Policies that did not come with the autoscaler, by name.
        memories: What they returned in the last pass.
        job: As it was evaluated, by which the default policy sizes it; None for an observation made by hand.

    Raises:
        ConfigError: There is no such policy, or a setting of the ``hpa_window`` filter is invalid.
        AutoscalerError: The default policy cannot size the job.
    """
    policies = chosen_policies(options.policies, plugins)
    shown = cache(lambda: _as_scheduled(observe(), policies, memories))
    proposals, failures = [], {}
    for name, policy in policies.items():
        # What cannot be sized by its rates is an error of the pass, as in the reference.
        sized = policy.size(job, _ceilings(policies, shown)) if job and isinstance(policy, CapacityPolicy) else None
        if sized is not None:
            proposals.append(sized)
            continue
        state = memories.get(name, {})
        try:
            proposals.append(_checked(name, policy.propose(replace(shown(), state=state)), shown().obs))
        except Exception as error:
            # Foreign code may fail in any way, and a policy that fails must not stop those that do not.
            failures[name] = f"{type(error).__name__}: {error}"
            proposals.append(failed(name, failures[name], state))
    plan = combine(proposals, _sizes(shown, job), Combination(options.policies_combine))
    states = dict(plan.states)
    if options.hpa_filter_enabled:
        window = memories.get(WINDOW_FILTER, {})
        plan, states[WINDOW_FILTER] = hpa_window(plan, shown().obs, options.configuration, window)
    return Chosen(plan, {name: state for name, state in states.items() if state}, failures)


def _sizes(shown: Callable[[], PolicyInput], job: EvaluatedJob | None) -> dict[VertexId, int]:
    """Return the parallelism of the vertices that have not finished."""
    if job is None:
        return {vertex_id: vertex.parallelism for vertex_id, vertex in shown().obs.vertices.items()}
    return {v: vertex.parallelism for v, vertex in job.topology.vertices.items() if not vertex.is_finished}


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
    state: dict[str, Any] = json.loads(json.dumps(dict(proposal.state), allow_nan=False))
    reasons = tuple(replace(reason, text=f"{name}: {reason.text}") for reason in proposal.reasons)
    return replace(proposal, policy=name, reasons=reasons, state=state)
