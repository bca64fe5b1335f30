"""The filter ``hpa_window``: windows and rate limits of ``hpa`` for what all policies together come to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from flink_autoscaler.core.model.policy_values import JobObservation
from flink_autoscaler.core.model.reason import Reason
from flink_autoscaler.core.options.hpa import HpaOptions, behavior_of
from flink_autoscaler.core.options.job import AutoscalerOptions
from flink_autoscaler.core.policies.base.proposals import direction_of
from flink_autoscaler.core.policies.base.quantities import subtasks
from flink_autoscaler.core.policies.combine import CombinedPlan
from flink_autoscaler.core.policies.hpa.behavior import Track, behave
from flink_autoscaler.core.policies.hpa.memory import behavior_reasons

NAME = "hpa_window"


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
