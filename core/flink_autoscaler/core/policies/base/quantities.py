"""What policies remember of a job, what every vertex of it has to sustain, and what limits it.

True rate: records per second of useful time, that is, time spent on reading, processing and writing records, without
waiting (Kalavri et al., "Three steps is all you need", OSDI 2018); busy time stands for useful time.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Annotated, Any, Final

from flink_autoscaler.core.evaluate.evaluation import is_residual
from flink_autoscaler.core.model.codec import Codec, Via, row
from flink_autoscaler.core.model.metrics import VertexId
from flink_autoscaler.core.model.policy_values import JobObservation, VertexObs
from flink_autoscaler.core.model.value import replace, value

MIN_BUSY = 0.02
"""Below this share the rate of busy time says nothing: a few records decide it."""
KEPT = 86_400.0
"""Seconds for which a rate is remembered."""

Edge = tuple[VertexId, VertexId]


@row
@value
class RateEstimate:
    """Records/s of one always busy subtask, and when that was last seen."""

    rate: float
    at: float


_EDGES: Final = Via(
    tuple[tuple[VertexId, VertexId, float | None], ...],
    lambda ratios: [(*edge, ratio) for edge, ratio in ratios.items()],
    lambda rows: {(upstream, vertex_id): ratio for upstream, vertex_id, ratio in rows},
)
"""How what is known by edge is stored: as lists of three."""


@value
class RateMemory:
    """What has been learned about a job graph; another graph begins anew.

    Attributes:
        vertices: The ids of the graph.
        rates: By vertex.
        ratios: Records out per record in, by edge; None for an edge along which nothing was ever seen to travel.
        backlog_at: When the job was last seen with a backlog.
    """

    vertices: frozenset[VertexId]
    rates: Mapping[VertexId, RateEstimate] = field(default_factory=dict)
    ratios: Annotated[Mapping[Edge, float | None], _EDGES] = field(default_factory=dict)
    backlog_at: float | None = None

    @classmethod
    def read(cls, state: Mapping[str, Any], obs: JobObservation) -> RateMemory:
        """Read what :meth:`as_json` wrote; empty for another graph and for a state that cannot be read."""
        empty = cls(frozenset(obs.vertices))
        try:
            memory = _MEMORY.read(state)
        except ValueError:
            return empty
        return memory if memory.vertices == empty.vertices else empty

    def as_json(self) -> dict[str, Any]:
        """Return it as JSON values."""
        written: dict[str, Any] = _MEMORY.write(self)
        return written

    def rate_of(self, vertex_id: VertexId) -> float | None:
        """Return the records/s of one always busy subtask; None when that is not known."""
        known = self.rates.get(vertex_id)
        return None if known is None else known.rate

    def with_observation(self, obs: JobObservation, *, has_backlog: bool) -> RateMemory:
        """Return what is known after an observation."""
        recent = {v: known for v, known in self.rates.items() if 0 <= obs.now - known.at <= KEPT}
        fresh = {
            v: RateEstimate(rate, obs.now)
            for v, vertex in obs.vertices.items()
            if (rate := _rate_per_subtask(vertex)) is not None
        }
        return replace(
            self,
            rates={**recent, **fresh},
            ratios={**self.ratios, **_ratios(obs, self.ratios)},
            backlog_at=obs.now if has_backlog else self.backlog_at,
        )

    def is_draining(self, obs: JobObservation) -> bool:
        """Tell whether the window still holds samples of catching up, of which the use of the job tells nothing."""
        if self.backlog_at is None:
            return False
        return abs(obs.now - self.backlog_at) < max(obs.window[1] - obs.window[0], 1.0)


_MEMORY: Final = Codec(RateMemory)


def _rate_per_subtask(vertex: VertexObs) -> float | None:
    busy = vertex.busy_mean if vertex.busy is None else vertex.busy
    if vertex.true_rate is None:
        return None
    is_from_busy_time = vertex.true_rate > (vertex.rate_in or 0.0)  # else the source has shown that it can do no more
    if busy is not None and busy < MIN_BUSY and is_from_busy_time:
        return None
    rate = vertex.true_rate / vertex.parallelism
    return rate if 0 < rate < math.inf else None


def _ratios(obs: JobObservation, known: Mapping[Edge, float | None]) -> dict[Edge, float | None]:
    """Return the ratios of this observation; of an upstream vertex that read nothing, the last known ones."""
    edges: dict[Edge, float | None] = {}
    for upstream, vertex in obs.vertices.items():
        edges |= {(upstream, v): _ratio(rate, vertex) for v, rate in vertex.rate_out.items()}
    edges |= obs.edges
    idle = {v for v, vertex in obs.vertices.items() if vertex.rate_in == 0.0}
    return {
        edge: known.get(edge) if ratio is None or edge[0] in idle else ratio
        for edge, ratio in edges.items()
        if edge[0] in obs.vertices and edge[1] in obs.vertices
    }


def _ratio(rate_out: float, vertex: VertexObs) -> float | None:
    ratio = rate_out / vertex.rate_in if vertex.rate_in else math.inf
    return ratio if ratio < math.inf else None


_ROUNDING = 1e-9
"""Relative excess over a whole number that is taken for noise of the arithmetic."""
GREATEST = sys.float_info.max

_Inputs = dict[VertexId, list[tuple[VertexId, float | None]]]
"""By vertex, what feeds it and the records that arrive per record which that receives, if known."""


def ceil_tolerant(number: float) -> int:
    """Return the next whole number; what is above one by noise of the arithmetic is that one.

    Raises:
        OverflowError, ValueError: The number is infinite or not a number.
    """
    return math.ceil(number - _ROUNDING * max(1.0, abs(number)))


def clamp_parallelism(needed: float, vertex: VertexObs) -> int:
    """Return the parallelism within the bounds of a vertex; the greatest one wins."""
    if not needed < vertex.max_parallelism:
        return vertex.max_parallelism
    return min(max(vertex.min_parallelism, ceil_tolerant(needed)), vertex.max_parallelism)


def has_backlog(obs: JobObservation, threshold: float) -> bool:
    """Tell whether a source or its slowest partition is behind by more than ``threshold`` seconds of what it reads."""
    known = {v for v, vertex in obs.vertices.items() if vertex.lag_records is not None}
    return any(
        lag > threshold * (obs.vertices[v].rate_in or 0.0) for v, lag in lags_to_drain(obs).items() if v in known
    )


def present_arrivals(obs: JobObservation) -> dict[VertexId, float]:
    """Return the records/s that arrive now, of the sources of which it is known."""
    sources = {v: vertex.target_rate for v, vertex in obs.vertices.items() if vertex.is_source}
    return {v: max(0.0, rate) for v, rate in sources.items() if rate is not None}


def source_lags(obs: JobObservation) -> dict[VertexId, float]:
    """Return the backlog of every source, records; what is not known counts as none, as does what is never read."""
    return {v: _backlog(each) for v, each in obs.vertices.items() if each.is_source}


def _backlog(vertex: VertexObs) -> float:
    lag, growth = vertex.lag_records or 0.0, math.nan if vertex.lag_slope is None else vertex.lag_slope
    return 0.0 if is_residual(lag, growth, vertex.spread or 0) else max(0.0, lag)


def lags_to_drain(obs: JobObservation) -> dict[VertexId, float]:
    """Return the backlog that every source has to be sized for, records, as :func:`source_lags` counts it."""
    return {v: max(lag, obs.vertices[v].lag_to_drain or 0.0) if lag else 0.0 for v, lag in source_lags(obs).items()}


@value
class VertexDemand:
    """What one vertex has to sustain.

    Attributes:
        rate: Records/s of one always busy subtask; None when unknown.
        needed: Records/s that it has to sustain; None when unknown.
        sources: Sources whose records reach it.
    """

    vertex: VertexObs
    rate: float | None
    needed: float | None
    sources: frozenset[VertexId] = field(default_factory=frozenset)


def vertex_demands(
    obs: JobObservation, memory: RateMemory, arrivals: Mapping[VertexId, float]
) -> dict[VertexId, VertexDemand]:
    """Return what every vertex has to sustain, in topological order.

    Args:
        obs: The job.
        memory: With this observation learned.
        arrivals: What the sources have to sustain, records/s.
    """
    inputs: _Inputs = {v: [] for v in obs.vertices}
    for (upstream, vertex_id), ratio in memory.ratios.items():
        inputs[vertex_id].append((upstream, ratio))
    needed, sources = _propagate(obs, inputs, arrivals), _sources(obs, inputs)
    # Where the inputs of a vertex do not tell, what was observed of it does.
    return {
        v: VertexDemand(vertex, memory.rate_of(v), vertex.target_rate if needed[v] is None else needed[v], sources[v])
        for v, vertex in obs.vertices.items()
    }


def _propagate(
    obs: JobObservation, inputs: _Inputs, at_sources: Mapping[VertexId, float]
) -> dict[VertexId, float | None]:
    """Carry a quantity from the sources along the edges; None where a ratio is not known."""
    result: dict[VertexId, float | None] = {}
    for vertex_id, vertex in obs.vertices.items():
        if vertex.is_source:
            result[vertex_id] = at_sources.get(vertex_id)
            continue
        parts = [_carry(result.get(upstream), ratio) for upstream, ratio in inputs[vertex_id]]
        known = [part for part in parts if part is not None]
        result[vertex_id] = min(sum(known), GREATEST) if parts and len(known) == len(parts) else None
    return result


def _carry(amount: float | None, ratio: float | None) -> float | None:
    if amount == 0.0:
        return 0.0
    return None if amount is None or ratio is None else amount * ratio


def _sources(obs: JobObservation, inputs: _Inputs) -> dict[VertexId, frozenset[VertexId]]:
    sources: dict[VertexId, frozenset[VertexId]] = {}
    for vertex_id, vertex in obs.vertices.items():
        fed = frozenset().union(*(sources.get(upstream, frozenset()) for upstream, _ in inputs[vertex_id]))
        sources[vertex_id] = frozenset({vertex_id}) if vertex.is_source else fed
    return sources


def shares_of(needs: Mapping[VertexId, VertexDemand], wanted: Mapping[VertexId, float]) -> dict[VertexId, float]:
    """Return which share of its need reaches each vertex past vertices that cannot grow to what they need.

    Args:
        needs: Of all vertices.
        wanted: Parallelism before the bounds, of the vertices for which it is known.

    Returns:
        0..1 for every vertex; a vertex does not limit itself, and only limits those fed by its own sources alone.
    """
    limits = {v: _reachable(needs[v]) for v, much in wanted.items() if is_beyond(much, needs[v].vertex)}
    return {
        v: min((limits[b] for b in limits if b != v and need.sources and need.sources <= needs[b].sources), default=1.0)
        for v, need in needs.items()
    }


def is_beyond(wanted: float, vertex: VertexObs) -> bool:
    """Tell whether a vertex would need more subtasks than it may have."""
    return wanted > GREATEST or ceil_tolerant(wanted) > vertex.max_parallelism


def _reachable(need: VertexDemand) -> float:
    """Return the share of its need that a vertex sustains at its greatest parallelism when always busy."""
    reachable = (need.rate or 0.0) * need.vertex.max_parallelism
    return min(1.0, reachable / need.needed) if need.needed else 1.0


_MIN_SHARE = 0.5
"""Of a window that samples have to span before their slope is taken for that of the window."""


def slope_of(samples: Sequence[tuple[float, float]], window: float) -> float | None:
    """Return the least-squares slope per second; None where the samples span less than half of the window.

    Args:
        samples: Instants in seconds and values, oldest first.
        window: Seconds.
    """
    if not samples or samples[-1][0] - samples[0][0] < _MIN_SHARE * window:
        return None
    middle = sum(at for at, _ in samples) / len(samples)
    spread = sum((at - middle) ** 2 for at, _ in samples)
    return sum((at - middle) / spread * value for at, value in samples)
