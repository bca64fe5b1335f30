"""The least and greatest parallelism that people planned for certain times; they hold for every policy."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeVar

from flink_autoscaler.core.model.events import Reason
from flink_autoscaler.core.model.message_catalog import ReasonCode
from flink_autoscaler.core.model.metrics import VertexId
from flink_autoscaler.core.model.policy_values import JobObservation, PolicyInput, VertexObs
from flink_autoscaler.core.model.value import replace
from flink_autoscaler.core.model.vertex_patterns import matches
from flink_autoscaler.core.options.job import AutoscalerOptions
from flink_autoscaler.core.options.policies import ScheduleOptions
from flink_autoscaler.core.options.schedule_plans import SchedulePlan
from flink_autoscaler.core.policies.base.proposals import missing_metric_reason, not_usable
from flink_autoscaler.core.policies.base.quantities import (
    RateMemory,
    VertexDemand,
    clamp_parallelism,
    present_arrivals,
    vertex_demands,
)

SCHEDULE: Final = "schedule"
"""Under which the memory of plans is kept, beside that of the policy."""

_MIN_TARGET: Final = 0.01
"""Stands for a utilization target below it."""

_N = TypeVar("_N", int, float)


@dataclass(frozen=True, slots=True)
class ScheduleBounds:
    """What plans say together: the greatest floor, the least ceiling; where they contradict, the floor wins.

    Attributes:
        floors: Parallelism by vertex, where known.
        ceilings: The same.
        reasons: Which plans hold, and what is missing.
        state: What is known about the rates of the vertices, to be handed back in the next pass.
    """

    floors: Mapping[VertexId, int]
    ceilings: Mapping[VertexId, int]
    reasons: tuple[Reason, ...]
    state: Mapping[str, Any]

    def limit(self, vertex: VertexObs) -> int:
        """Return the greatest parallelism of a vertex; it is never below the least one."""
        ceiling = self.ceilings.get(vertex.vertex_id, vertex.max_parallelism)
        least = max(self.floors.get(vertex.vertex_id, 1), vertex.min_parallelism)
        return min(vertex.max_parallelism, max(ceiling, least))

    def clamp(self, vertex: VertexObs, target: int) -> int:
        """Return the parallelism within the bounds that is next to a target."""
        floor = self.floors.get(vertex.vertex_id, 1)
        return clamp_parallelism(min(max(target, floor), self.limit(vertex)), vertex)

    def applied_to(self, obs: JobObservation) -> JobObservation:
        """Return the observation with these bounds for policies; what a vertex has is never below its least."""
        vertices = {
            v: replace(
                vertex,
                min_parallelism=max(vertex.min_parallelism, min(self.floors.get(v, 1), vertex.parallelism)),
                max_parallelism=self.limit(vertex),
            )
            for v, vertex in obs.vertices.items()
        }
        return replace(obs, vertices=vertices)


def schedule_bounds(given: PolicyInput) -> ScheduleBounds:
    """Return what the plans say.

    Floors hold earlier than planned, by the time that a rescale takes until the job works again. What a vertex can do
    is remembered for a day, so that ``min-rate`` works while a job is nearly idle.

    Args:
        given: The input of a policy, with what the last call remembered.

    Raises:
        ConfigError: A setting is invalid.
    """
    memory, obs, lead = _memory(given), given.obs, given.downtime.delay + given.downtime.q90
    held = (plan for plan in ScheduleOptions.of(given.config).schedule_plans if plan.holds_at(obs.now, lead))
    plans = [plan for plan in held if any(matches(vertex, plan.vertex) for vertex in obs.vertices.values())]
    begun = [plan for plan in plans if plan.holds_at(obs.now)]
    least = [(v, plan.min_parallelism) for v, plan in _about(obs, plans) if plan.min_parallelism is not None]
    rates = [(v, plan.min_rate) for v, plan in _about(obs, plans) if plan.min_rate is not None]
    most = [(v, plan.max_parallelism) for v, plan in _about(obs, begun) if plan.max_parallelism is not None]
    sized, lacking = _sizes_for_rates(given, memory, _by_vertex(rates, max))
    return ScheduleBounds(
        floors=_by_vertex([*least, *sized.items()], max),
        ceilings=_by_vertex(most, min),
        reasons=(*(_active_reason(plan, obs.now) for plan in plans), *lacking),
        state=memory.as_json(),
    )


def _about(obs: JobObservation, plans: Sequence[SchedulePlan]) -> list[tuple[VertexId, SchedulePlan]]:
    """Pair every vertex with the plans that are about it."""
    return [(v, plan) for v, vertex in obs.vertices.items() for plan in plans if matches(vertex, plan.vertex)]


def _by_vertex(pairs: Iterable[tuple[VertexId, _N]], pick: Callable[[_N, _N], _N]) -> dict[VertexId, _N]:
    result: dict[VertexId, _N] = {}
    for vertex_id, number in pairs:
        result[vertex_id] = pick(number, result.get(vertex_id, number))
    return result


def _active_reason(plan: SchedulePlan, now: float) -> Reason:
    return Reason.of(ReasonCode.PLAN_HOLDS if plan.holds_at(now) else ReasonCode.PLAN_BEGINS, plan=plan.text)


def _sizes_for_rates(
    given: PolicyInput, memory: RateMemory, rates: Mapping[VertexId, float]
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
    arriving = {**present_arrivals(given.obs), **sources}
    needs = vertex_demands(given.obs, memory, arriving)
    target = max(AutoscalerOptions.of(given.config).utilization_target, _MIN_TARGET)
    wanted = {v: _wanted(need, target) for v, need in needs.items()}
    lacking = tuple(
        missing_metric_reason(needs[v].vertex, "true processing rate") for v, number in wanted.items() if number is None
    )
    return {v: needs[v].vertex.parallelism if n is None else n for v, n in wanted.items()}, lacking


def _wanted(need: VertexDemand, target: float) -> int | None:
    if need.needed == 0.0:
        return need.vertex.min_parallelism
    return (
        None
        if need.needed is None or need.rate is None
        else clamp_parallelism(need.needed / (need.rate * target), need.vertex)
    )


def _memory(given: PolicyInput) -> RateMemory:
    memory = RateMemory.read(given.state, given.obs)
    return memory if not_usable(given.obs) else memory.with_observation(given.obs, has_backlog=False)
