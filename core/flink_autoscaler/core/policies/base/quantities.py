"""Quantities that policies share: subtasks, skew, what every vertex has to sustain, and what limits a job.

True rate: records per second of useful time, that is, time spent on reading, processing and writing records, without
waiting (Kalavri et al., "Three steps is all you need", OSDI 2018); busy time stands for useful time.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from flink_autoscaler.core.model.metrics import VertexId
from flink_autoscaler.core.model.policy_values import JobObservation, VertexObs
from flink_autoscaler.core.policies.base.memory import Memory

_ROUNDING = 1e-9
"""Relative excess over a whole number that is taken for noise of the arithmetic."""
GREATEST = sys.float_info.max

_Inputs = dict[VertexId, list[tuple[VertexId, float | None]]]
"""By vertex, what feeds it and the records that arrive per record which that receives, if known."""


def rounded_up(number: float) -> int:
    """Return the next whole number; what is above one by noise of the arithmetic is that one.

    Raises:
        OverflowError, ValueError: The number is infinite or not a number.
    """
    return math.ceil(number - _ROUNDING * max(1.0, abs(number)))


def subtasks(needed: float, vertex: VertexObs) -> int:
    """Return the parallelism within the bounds of a vertex; the greatest one wins."""
    if not needed < vertex.max_parallelism:
        return vertex.max_parallelism
    return min(max(vertex.min_parallelism, rounded_up(needed)), vertex.max_parallelism)


def skew_factor(rates: Sequence[float]) -> float:
    """Return how much more the fastest subtask does than the average one, at least 1; 1 when that is not known."""
    total = sum(rates)
    return max(1.0, max(rates) * len(rates) / total) if 0 < total <= GREATEST else 1.0


def skew_of(vertex: VertexObs) -> float:
    """Return how much more the fastest subtask does than the average one, at least 1; 1 when that is not known."""
    return skew_factor(vertex.subtask_rates) if vertex.skew is None else vertex.skew


def has_backlog(obs: JobObservation, threshold: float) -> bool:
    """Tell whether a source is behind by more than ``threshold`` seconds of what it reads."""
    return any(
        vertex.is_source and vertex.lag_records is not None and vertex.lag_records > threshold * (vertex.rate_in or 0.0)
        for vertex in obs.vertices.values()
    )


@dataclass(frozen=True, slots=True)
class SourceRates:
    """Records/s by source that a job is sized for.

    Attributes:
        up: For whether to scale up, and how far.
        down: For how far a vertex may be lowered; never less than ``up`` counts.
    """

    up: Mapping[VertexId, float]
    down: Mapping[VertexId, float]


def present_arrivals(obs: JobObservation) -> SourceRates:
    """Return what arrives now, of the sources of which it is known."""
    rates = {v: max(0.0, x.target_rate) for v, x in obs.vertices.items() if x.is_source and x.target_rate is not None}
    return SourceRates(rates, rates)


def lags(obs: JobObservation) -> dict[VertexId, float]:
    """Return the backlog of every source, records; what is not known counts as none."""
    return {v: max(0.0, each.lag_records or 0.0) for v, each in obs.vertices.items() if each.is_source}


@dataclass(frozen=True, slots=True)
class Need:
    """What one vertex has to sustain.

    Attributes:
        rate: Records/s of one always busy subtask; None when unknown.
        up: Records/s for whether to scale up; None when unknown.
        down: Records/s for how far it may be lowered, at least ``up``.
        lag: Records of the backlog that will come along.
        sources: Sources whose records reach it.
    """

    vertex: VertexObs
    rate: float | None
    up: float | None
    down: float | None
    lag: float = 0.0
    sources: frozenset[VertexId] = field(default_factory=frozenset)


def needs_of(
    obs: JobObservation, memory: Memory, arrivals: SourceRates, backlog: Mapping[VertexId, float]
) -> dict[VertexId, Need]:
    """Return what every vertex has to sustain, in topological order.

    Args:
        obs: The job.
        memory: With this observation learned.
        arrivals: What the sources have to sustain.
        backlog: Records by source.
    """
    inputs: _Inputs = {v: [] for v in obs.vertices}
    for (upstream, vertex_id), ratio in memory.ratios.items():
        inputs[vertex_id].append((upstream, ratio))
    up = _propagated(obs, inputs, arrivals.up)
    down = _propagated(obs, inputs, arrivals.down)
    lag = _propagated(obs, inputs, backlog)
    sources = _sources(obs, inputs)
    needs = {}
    for vertex_id, vertex in obs.vertices.items():
        rates = [each for each in (up[vertex_id], down[vertex_id]) if each is not None]
        needs[vertex_id] = Need(
            vertex=vertex,
            rate=memory.rate_of(vertex_id),
            up=_or_target(up[vertex_id], vertex),
            down=_or_target(max(rates, default=None), vertex),
            lag=lag[vertex_id] or 0.0,
            sources=sources[vertex_id],
        )
    return needs


def _or_target(rate: float | None, vertex: VertexObs) -> float | None:
    """Return the rate, or what the observation says of a vertex whose inputs do not tell."""
    return vertex.target_rate if rate is None else rate


def _propagated(
    obs: JobObservation, inputs: _Inputs, at_sources: Mapping[VertexId, float]
) -> dict[VertexId, float | None]:
    """Carry a quantity from the sources along the edges; None where a ratio is not known."""
    result: dict[VertexId, float | None] = {}
    for vertex_id, vertex in obs.vertices.items():
        if vertex.is_source:
            result[vertex_id] = at_sources.get(vertex_id)
            continue
        parts = [_carried(result.get(upstream), ratio) for upstream, ratio in inputs[vertex_id]]
        known = [part for part in parts if part is not None]
        result[vertex_id] = min(sum(known), GREATEST) if parts and len(known) == len(parts) else None
    return result


def _carried(amount: float | None, ratio: float | None) -> float | None:
    if amount == 0.0:
        return 0.0
    return None if amount is None or ratio is None else amount * ratio


def _sources(obs: JobObservation, inputs: _Inputs) -> dict[VertexId, frozenset[VertexId]]:
    sources: dict[VertexId, frozenset[VertexId]] = {}
    for vertex_id, vertex in obs.vertices.items():
        fed = frozenset().union(*(sources.get(upstream, frozenset()) for upstream, _ in inputs[vertex_id]))
        sources[vertex_id] = frozenset({vertex_id}) if vertex.is_source else fed
    return sources


def shares_of(
    needs: Mapping[VertexId, Need], wanted: Mapping[VertexId, float], catch_up: float
) -> dict[VertexId, float]:
    """Return which share of its need reaches each vertex past vertices that cannot grow to what they need.

    Args:
        needs: Of all vertices.
        wanted: Parallelism before the bounds, of the vertices for which it is known.
        catch_up: Seconds in which a backlog should be gone; 0 plans nothing for it.

    Returns:
        0..1 for every vertex; a vertex does not limit itself, and only limits those fed by its own sources alone.
    """
    limits = {v: _reachable(needs[v], catch_up) for v, much in wanted.items() if is_beyond(much, needs[v].vertex)}
    return {
        v: min((limits[b] for b in limits if b != v and need.sources and need.sources <= needs[b].sources), default=1.0)
        for v, need in needs.items()
    }


def is_beyond(wanted: float, vertex: VertexObs) -> bool:
    """Tell whether a vertex would need more subtasks than it may have."""
    return wanted > GREATEST or rounded_up(wanted) > vertex.max_parallelism


def _reachable(need: Need, catch_up: float) -> float:
    """Return the share of its need that a vertex sustains at its greatest parallelism when always busy."""
    needed = (need.up or 0.0) + (need.lag / catch_up if catch_up > 0 else 0.0)
    reachable = (need.rate or 0.0) * need.vertex.max_parallelism
    return min(1.0, reachable / needed) if needed > 0 else 1.0
