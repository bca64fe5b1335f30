"""The arithmetic of the policy ``ds2``: one traversal of the job graph gives all parallelisms.

Source: Kalavri et al., "Three steps is all you need", OSDI 2018, section 3.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from flink_autoscaler.core.model.metrics import VertexId
from flink_autoscaler.core.model.policy_values import JobObservation, VertexObs
from flink_autoscaler.core.policies.base.quantities import GREATEST, Need, is_beyond, shares_of, skew_of, subtasks
from flink_autoscaler.core.policies.ds2.settings import Ds2Settings
from flink_autoscaler.core.policies.ds2.state import Demand, Ds2Evaluation

MOST_FOR_SKEW: Final = 1.5
"""Growth that skew may account for: where one key is hot, more subtasks do not help."""


@dataclass(frozen=True, slots=True)
class Ds2Plan:
    """What an evaluation comes to.

    Attributes:
        targets: Parallelism within the bounds.
        capacity: Records/s that each vertex is sized for.
        wanted: Subtasks before any limit.
        raised_by: The ratio by which everything was raised because sources cannot keep up; 1 where it was not.
    """

    targets: Mapping[VertexId, int]
    capacity: Mapping[VertexId, float]
    wanted: Mapping[VertexId, float]
    raised_by: float = 1.0


def evaluate(obs: JobObservation, needs: Mapping[VertexId, Need], settings: Ds2Settings) -> Ds2Evaluation:
    """Return how many subtasks are just enough for each vertex; it needs no rate where nothing arrives."""
    demands = {v: demand for v, need in needs.items() if (demand := _demand(need, settings)) is not None}
    behind = (_shortfall(vertex) for vertex in obs.vertices.values() if vertex.is_source)
    return Ds2Evaluation(demands, max(behind, default=1.0))


def _demand(need: Need, settings: Ds2Settings) -> Demand | None:
    if need.up is None or need.down is None:
        return None
    down = max(need.up, need.down)
    if down == 0.0:
        return Demand(0.0, 0.0)
    if need.rate is None:
        return None
    skew = min(skew_of(need.vertex), MOST_FOR_SKEW) if settings.is_skew_aware else 1.0
    return Demand(min(need.up / need.rate * skew, GREATEST), min(down / need.rate * skew, GREATEST))


def _shortfall(source: VertexObs) -> float:
    """Return how many times the records that a source reads arrive at it; 1 when it reads nothing."""
    if not source.rate_in or not source.target_rate:
        return 1.0
    return min(source.target_rate / source.rate_in, GREATEST)


def sized(
    evaluation: Ds2Evaluation, needs: Mapping[VertexId, Need], settings: Ds2Settings, *, may_lower: bool
) -> Ds2Plan:
    """Turn an evaluation into parallelisms with head-room; none goes up beyond what a bottleneck can feed or take.

    Where that scales nothing up although sources cannot keep up, an overhead that busy time does not show is at work:
    everything is sized for as much more as arrives, and nothing is lowered.
    """
    head = 1.0 + settings.factor
    wanted = {v: min(demand.up * head, GREATEST) for v, demand in evaluation.demands.items()}
    kept = {v: min(max(demand.up, demand.down) * head, GREATEST) for v, demand in evaluation.demands.items()}
    shares = shares_of(needs, wanted, 0.0)
    targets = {v: _target(needs[v].vertex, wanted[v], kept[v], shares[v], may_lower) for v in wanted}
    raised_by = _raise(evaluation, needs, wanted, targets, settings)
    if raised_by > 1.0:
        targets = {v: _raised(needs[v].vertex, much, raised_by) for v, much in wanted.items()}
    factors = {v: kept[v] if targets[v] < needs[v].vertex.parallelism else much for v, much in wanted.items()}
    capacity = {v: min(much * raised_by * (needs[v].rate or 0.0), GREATEST) for v, much in factors.items()}
    return Ds2Plan(targets, capacity, wanted, raised_by)


def _target(vertex: VertexObs, wanted: float, kept: float, share: float, may_lower: bool) -> int:
    current, rising = vertex.parallelism, subtasks(wanted, vertex)
    if rising > current:
        return min(rising, max(current, subtasks(wanted * share, vertex)))
    least = subtasks(kept, vertex) if may_lower else current
    return min(max(rising, least), current, vertex.max_parallelism)


def _raise(
    evaluation: Ds2Evaluation,
    needs: Mapping[VertexId, Need],
    wanted: Mapping[VertexId, float],
    targets: Mapping[VertexId, int],
    settings: Ds2Settings,
) -> float:
    is_explained = any(
        target > needs[v].vertex.parallelism or is_beyond(wanted[v], needs[v].vertex) for v, target in targets.items()
    )
    return evaluation.shortfall if evaluation.shortfall > settings.ratio and not is_explained else 1.0


def _raised(vertex: VertexObs, wanted: float, ratio: float) -> int:
    return max(subtasks(subtasks(wanted, vertex) * ratio, vertex), subtasks(vertex.parallelism, vertex))
