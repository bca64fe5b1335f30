"""The policies that a job has chosen: each is asked, and their proposals become one plan."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from flink_autoscaler.core.errors import AutoscalerError, PluginError
from flink_autoscaler.core.model.events import Event, EventType
from flink_autoscaler.core.model.numbers import NAN
from flink_autoscaler.core.model.policy_values import JobObservation, PolicyInput, Proposal, ScalingPolicy
from flink_autoscaler.core.model.state import PolicyMemories
from flink_autoscaler.core.model.topology import Vertex
from flink_autoscaler.core.options.job import AutoscalerOptions
from flink_autoscaler.core.policies.base.parallelism import SizingSettings, VertexSizing, limits_of, rounded_up
from flink_autoscaler.core.policies.combine import Combination, CombinedPlan, combine, failed
from flink_autoscaler.core.policies.hpa import window_filter as hpa_window
from flink_autoscaler.core.policies.registry import chosen_policies
from flink_autoscaler.core.policies.schedule.policy import SchedulePolicy, capped

_LIMITED: Final = "SCALING_LIMITED"
_UNSURE: Final = frozenset({"NO_OPINION", "DOWN_UNSURE"})


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
        return not any(reason.code in _UNSURE for reason in self.plan.reasons)

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
    given: PolicyInput, options: AutoscalerOptions, plugins: Mapping[str, ScalingPolicy], memories: PolicyMemories
) -> Chosen:
    """Ask the policies of a job in the order in which they are configured.

    Args:
        given: What they are shown; each gets its own state.
        options: Of the job.
        plugins: Policies that did not come with the autoscaler, by name.
        memories: What they returned in the last pass.

    Raises:
        ConfigError: There is no such policy, or a setting of the ``hpa_window`` filter is invalid.
    """
    policies = chosen_policies(options.policies, plugins)
    given = _as_scheduled(given, policies, memories)
    proposals, failures = [], {}
    for name, policy in policies.items():
        shown = replace(given, state=memories.get(name, {}))
        try:
            proposals.append(_checked(name, policy.propose(shown), given.obs))
        except Exception as error:
            # Foreign code may fail in any way, and a policy that fails must not stop those that do not.
            failures[name] = f"{type(error).__name__}: {error}"
            proposals.append(failed(name, failures[name], shown.state))
    plan = combine(proposals, given.obs, Combination(options.policies_combine))
    window = memories.get(hpa_window.NAME, {})
    plan, window = hpa_window.hpa_window(plan, given.obs, given.config, window)
    states = {**plan.states, hpa_window.NAME: window}
    return Chosen(plan, {name: state for name, state in states.items() if state}, failures)


def _as_scheduled(given: PolicyInput, policies: Mapping[str, ScalingPolicy], memories: PolicyMemories) -> PolicyInput:
    """Leave policies no more room than the schedule of the job does, where it has one."""
    name = SchedulePolicy.name
    if not isinstance(policies.get(name), SchedulePolicy):
        return given
    try:
        return replace(given, obs=capped(replace(given, state=memories.get(name, {}))))
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


def planned_sizing(vertex: Vertex, target: int, rate: float, settings: SizingSettings) -> VertexSizing:
    """Return the sizing that follows a plan as far as one step and the limits of a vertex allow.

    Args:
        vertex: The vertex.
        target: What the plan gives it.
        rate: Its true processing rate now, records/s; NaN when not known.
        settings: Option values.
    """
    current = vertex.parallelism
    least, most = (rounded_up(factor * current) for factor in (settings.least_factor, settings.greatest_factor))
    limits, wanted = limits_of(vertex, current, settings), min(max(least, target), most)
    return VertexSizing(
        current=current,
        rate=rate,
        capacity=NAN,
        factor=target / current,
        wanted=wanted,
        limits=limits,
        target=limits.clamp(wanted),
    )
