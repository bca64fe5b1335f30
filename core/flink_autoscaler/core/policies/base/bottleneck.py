"""A bottleneck that cannot grow limits what the rest of the job can use."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from flink_autoscaler.core.model.metrics import EvaluatedMetric, EvaluatedVertex, ScalingMetric, VertexId
from flink_autoscaler.core.model.topology import JobTopology, Vertex
from flink_autoscaler.core.policies.base.parallelism import SizingSettings, VertexSizing, size_vertex


@dataclass(frozen=True, slots=True)
class Bottleneck:
    """A vertex that cannot grow to what it needs.

    Attributes:
        share: Share of the target rates that it can sustain, below 1.
        sources: The sources that feed it and are held back by it.
    """

    vertex_id: VertexId
    share: float
    sources: frozenset[VertexId]


def find_bottlenecks(
    topology: JobTopology, metrics: Mapping[VertexId, EvaluatedVertex], sizings: Mapping[VertexId, VertexSizing]
) -> list[Bottleneck]:
    """Return the vertices that cannot grow to what they need, in topological order.

    Args:
        topology: The job graph.
        metrics: Evaluated metrics of all vertices.
        sizings: Sizings of the vertices that may be scaled; the others keep their parallelism.
    """
    found, sources = [], sources_of(topology)
    for vertex_id, vertex in topology.vertices.items():
        sizing = sizings.get(vertex_id)
        if vertex.is_finished or (sizing is not None and sizing.wanted <= sizing.limits.bound):
            continue
        growth = 1.0 if sizing is None else sizing.limits.bound / sizing.current
        share = _sustainable_share(metrics[vertex_id], growth)
        if share < 1.0:
            found.append(Bottleneck(vertex_id, share, sources[vertex_id]))
    return found


def sources_of(topology: JobTopology) -> dict[VertexId, frozenset[VertexId]]:
    """Return the sources whose records reach each vertex; a source reaches itself."""
    sources: dict[VertexId, frozenset[VertexId]] = {}
    for vertex_id, vertex in topology.vertices.items():
        reached = frozenset().union(*(sources[upstream] for upstream in vertex.inputs))
        sources[vertex_id] = reached or frozenset({vertex_id})
    return sources


def tightest(bottlenecks: Sequence[Bottleneck], vertex_id: VertexId, sources: frozenset[VertexId]) -> Bottleneck | None:
    """Return the bottleneck that limits a vertex most: one that holds back everything which feeds the vertex.

    Args:
        bottlenecks: All of them.
        vertex_id: The vertex; it does not limit itself.
        sources: The sources that feed it.
    """
    holding = [b for b in bottlenecks if sources <= b.sources and b.vertex_id != vertex_id]
    return min(holding, key=lambda bottleneck: bottleneck.share, default=None)


def _sustainable_share(metrics: EvaluatedVertex, growth: float) -> float:
    """Return which share of its target a vertex sustains when always busy; 1 when it is all or not known."""
    needed = metrics[ScalingMetric.TARGET_DATA_RATE].average + metrics[ScalingMetric.CATCH_UP_DATA_RATE].current
    reachable = metrics[ScalingMetric.TRUE_PROCESSING_RATE].average * growth
    if not (math.isfinite(needed) and math.isfinite(reachable)) or needed <= 0 or reachable <= 0:
        return 1.0
    return min(1.0, reachable / needed)


def limited_sizing(
    vertex: Vertex,
    metrics: EvaluatedVertex,
    settings: SizingSettings,
    *,
    sizing: VertexSizing,
    share: float,
    coefficient: float,
) -> VertexSizing:
    """Return the sizing for a share of the target rates; never below the present parallelism.

    Args:
        vertex: The vertex.
        metrics: Its evaluated metrics.
        settings: Option values.
        sizing: Its sizing for the whole target.
        share: What gets through the bottleneck, below 1.
        coefficient: Share of a linear speed-up that the vertex is known to achieve.
    """
    if sizing.target <= sizing.current:
        return sizing
    limited = size_vertex(vertex, _scaled(metrics, share), settings, coefficient)
    if limited is None or limited.target >= sizing.target:
        return sizing
    return replace(limited, target=max(sizing.current, limited.target))


def _scaled(metrics: EvaluatedVertex, share: float) -> EvaluatedVertex:
    target = metrics[ScalingMetric.TARGET_DATA_RATE]
    catch_up = metrics[ScalingMetric.CATCH_UP_DATA_RATE]
    return {
        **metrics,
        ScalingMetric.TARGET_DATA_RATE: EvaluatedMetric(target.current, target.average * share),
        ScalingMetric.CATCH_UP_DATA_RATE: EvaluatedMetric(catch_up.current * share, catch_up.average),
    }
