"""``schedule``: the least and greatest parallelism that people planned for certain times."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from flink_autoscaler.core.model.events import Reason
from flink_autoscaler.core.model.metrics import VertexId
from flink_autoscaler.core.model.policy_values import JobObservation, PolicyInput, Proposal, VertexObs
from flink_autoscaler.core.model.quick import replace
from flink_autoscaler.core.model.vertex_patterns import matches
from flink_autoscaler.core.options.job import AutoscalerOptions
from flink_autoscaler.core.options.policies import ScheduleOptions
from flink_autoscaler.core.options.schedule_plans import SchedulePlan
from flink_autoscaler.core.policies.base.proposals import abstention, missing, not_usable
from flink_autoscaler.core.policies.base.quantities import (
    Memory,
    Need,
    SourceRates,
    needs_of,
    present_arrivals,
    subtasks,
)
from flink_autoscaler.core.policies.base.whole_job import not_running, proposal_of

_LEAST_TARGET: Final = 0.01
"""Stands for a utilization target below it."""

_N = TypeVar("_N", int, float)


@dataclass(frozen=True, slots=True)
class Planned:
    """What plans say together: the greatest floor, the least ceiling; where they contradict, the floor wins.

    Attributes:
        has_plan: Whether any plan holds that is about a vertex of the job.
        has_floor: Whether any of them asks for a least parallelism or rate.
        floors: Parallelism by vertex, where known.
        ceilings: The same.
        reasons: Which plans hold, and what is missing.
    """

    has_plan: bool
    has_floor: bool
    floors: Mapping[VertexId, int]
    ceilings: Mapping[VertexId, int]
    reasons: tuple[Reason, ...]

    def limit(self, vertex: VertexObs) -> int:
        """Return the greatest parallelism of a vertex; it is never below the least one."""
        ceiling = self.ceilings.get(vertex.vertex_id, vertex.max_parallelism)
        least = max(self.floors.get(vertex.vertex_id, 1), vertex.min_parallelism)
        return min(vertex.max_parallelism, max(ceiling, least))

    def applied(self, vertex: VertexObs) -> int:
        """Return the parallelism of a vertex that is next to what it has."""
        floor = self.floors.get(vertex.vertex_id, 1)
        return subtasks(min(max(vertex.parallelism, floor), self.limit(vertex)), vertex)

    def blocks_down(self, obs: JobObservation) -> bool:
        """Tell whether nothing may go down: a floor holds, and nothing is above what it may have."""
        return self.has_floor and all(vertex.parallelism <= self.limit(vertex) for vertex in obs.vertices.values())


def planned(given: PolicyInput, memory: Memory) -> Planned:
    """Return what the plans say.

    Floors hold earlier than planned, by the time that a rescale takes until the job works again.

    Args:
        given: The input of a policy.
        memory: What is known about the rates of the vertices.

    Raises:
        ConfigError: A setting is invalid.
    """
    obs, lead = given.obs, given.downtime.delay + given.downtime.q90
    held = (plan for plan in ScheduleOptions.of(given.config).schedule_plans if plan.holds_at(obs.now, lead))
    plans = [plan for plan in held if any(matches(vertex, plan.vertex) for vertex in obs.vertices.values())]
    begun = [plan for plan in plans if plan.holds_at(obs.now)]
    least = [(v, plan.min_parallelism) for v, plan in _about(obs, plans) if plan.min_parallelism is not None]
    rates = [(v, plan.min_rate) for v, plan in _about(obs, plans) if plan.min_rate is not None]
    most = [(v, plan.max_parallelism) for v, plan in _about(obs, begun) if plan.max_parallelism is not None]
    sized, lacking = _sized(given, memory, _by_vertex(rates, max))
    return Planned(
        has_plan=bool(plans),
        has_floor=bool(least or rates),
        floors=_by_vertex([*least, *sized.items()], max),
        ceilings=_by_vertex(most, min),
        reasons=(*(_holding(plan, obs.now) for plan in plans), *lacking),
    )


def _about(obs: JobObservation, plans: Sequence[SchedulePlan]) -> list[tuple[VertexId, SchedulePlan]]:
    """Pair every vertex with the plans that are about it."""
    return [(v, plan) for v, vertex in obs.vertices.items() for plan in plans if matches(vertex, plan.vertex)]


def _by_vertex(pairs: Iterable[tuple[VertexId, _N]], pick: Callable[[_N, _N], _N]) -> dict[VertexId, _N]:
    result: dict[VertexId, _N] = {}
    for vertex_id, number in pairs:
        result[vertex_id] = pick(number, result.get(vertex_id, number))
    return result


def _holding(plan: SchedulePlan, now: float) -> Reason:
    if plan.holds_at(now):
        return Reason("PLAN_HOLDS", f"planned: {plan.text}")
    return Reason("PLAN_BEGINS", f"planned, and a rescale takes until then: {plan.text}")


def _sized(
    given: PolicyInput, memory: Memory, rates: Mapping[VertexId, float]
) -> tuple[dict[VertexId, int], tuple[Reason, ...]]:
    """Return the parallelism by vertex that sustains rates of sources, and what is missing.

    A vertex of which something is missing keeps what it has.

    Args:
        given: The input.
        memory: What is known about the rates of the vertices.
        rates: Records/s by source; other sources are taken to read what arrives now.
    """
    sources = {v: rate for v, rate in rates.items() if given.obs.vertices[v].is_source}
    if not sources:
        return {}, ()
    arriving = {**present_arrivals(given.obs).up, **sources}
    needs = needs_of(given.obs, memory, SourceRates(arriving, arriving), {})
    target = max(AutoscalerOptions.of(given.config).utilization_target, _LEAST_TARGET)
    wanted = {v: _wanted(need, target) for v, need in needs.items()}
    lacking = tuple(missing(needs[v].vertex, "true processing rate") for v, number in wanted.items() if number is None)
    return {v: needs[v].vertex.parallelism if n is None else n for v, n in wanted.items()}, lacking


def _wanted(need: Need, target: float) -> int | None:
    if need.up == 0.0:
        return need.vertex.min_parallelism
    return None if need.up is None or need.rate is None else subtasks(need.up / (need.rate * target), need.vertex)


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
        plan = planned(given, memory)
        if obs.vertices and not plan.has_plan:
            return abstention(self.name, (Reason("NO_PLAN", "no plan holds now"),), state)
        if stopped := not_running(obs):
            return abstention(self.name, stopped, state)
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
