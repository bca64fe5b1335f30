"""``schedule``: the least and greatest parallelism that people planned for certain times."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from flink_autoscaler.core.model.metrics import VertexId
from flink_autoscaler.core.model.policy_values import JobObservation, PolicyInput, Proposal
from flink_autoscaler.core.model.reason import Reason
from flink_autoscaler.core.policies.base.catch_up import not_running
from flink_autoscaler.core.policies.base.memory import Memory
from flink_autoscaler.core.policies.base.one_number import proposal_of
from flink_autoscaler.core.policies.base.proposals import abstention, not_usable
from flink_autoscaler.core.policies.schedule.bounds import planned


class SchedulePolicy:
    """Raises a job to what was planned before the plan begins, and lowers nothing until the plan ends.

    What a vertex can do is remembered for a day, so that ``min-rate`` works while a job is nearly idle.
    """

    name = "schedule"

    def propose(self, given: PolicyInput) -> Proposal:
        """Return what the plans of this moment say; abstains where there are none.

        Raises:
            ConfigError: A setting is invalid.
        """
        obs, memory = given.obs, _memory(given)
        state = memory.as_json()
        if stopped := not_running(obs):
            return abstention(self.name, stopped, state)
        plan = planned(given, memory)
        if not plan.has_plan:
            return abstention(self.name, (Reason("NO_PLAN", "no plan holds now"),), state)
        targets = {v: plan.applied(vertex) for v, vertex in obs.vertices.items()}
        reasons = (*plan.reasons, *_changes(obs, targets))
        return proposal_of(self.name, obs, targets, reasons, state, blocks_down=plan.blocks_down(obs))


def capped(given: PolicyInput) -> JobObservation:
    """Return the observation in which no vertex may have more than the plans of this moment allow.

    One proposal cannot lower what others propose; with this observation none proposes more than planned.

    Args:
        given: The input of the policy, with its state.

    Raises:
        ConfigError: A setting is invalid.
    """
    plan = planned(given, _memory(given))
    vertices = {v: replace(vertex, max_parallelism=plan.limit(vertex)) for v, vertex in given.obs.vertices.items()}
    return replace(given.obs, vertices=vertices)


def _memory(given: PolicyInput) -> Memory:
    memory = Memory.read(given.state, given.obs)
    return memory if not_usable(given.obs) else memory.learned(given.obs, has_backlog=False)


def _changes(obs: JobObservation, targets: Mapping[VertexId, int]) -> Iterator[Reason]:
    """Yield a reason for every vertex that changes."""
    for vertex_id, target in targets.items():
        vertex = obs.vertices[vertex_id]
        if target != vertex.parallelism:
            code = "SCALE_UP" if target > vertex.parallelism else "SCALE_DOWN"
            yield Reason(code, f"{vertex.name}: {vertex.parallelism} -> {target} as planned", vertex_id)
