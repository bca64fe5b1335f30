"""A bottleneck that cannot grow limits what the rest of the job can use."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from flink_autoscaler.core.metrics import EvaluatedMetric, EvaluatedVertex, ScalingMetric, VertexId
from flink_autoscaler.core.parallelism import Sizing, SizingSettings, size_vertex
from flink_autoscaler.core.topology import JobTopology, Vertex


@dataclass(frozen=True, slots=True)
class Bottleneck:
    """The vertex that limits a job, and the share of the target rates that it can sustain, below 1."""

    vertex_id: VertexId
    share: float


def find_bottleneck(
    topology: JobTopology, metrics: Mapping[VertexId, EvaluatedVertex], sizings: Mapping[VertexId, Sizing]
) -> Bottleneck | None:
    """Return the tightest vertex that cannot grow to what it needs, None when every vertex can.

    Args:
        topology: The job graph.
        metrics: Evaluated metrics of all vertices.
        sizings: Sizings of the vertices that may be scaled; the others keep their parallelism.
    """
    found: Bottleneck | None = None
    for vertex_id, vertex in topology.vertices.items():
        sizing = sizings.get(vertex_id)
        if vertex.is_finished or (sizing is not None and sizing.wanted <= sizing.limits.bound):
            continue
        growth = 1.0 if sizing is None else sizing.limits.bound / sizing.current
        share = _sustainable_share(metrics[vertex_id], growth)
        if share < (1.0 if found is None else found.share):
            found = Bottleneck(vertex_id, share)
    return found


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
    sizing: Sizing,
    bottleneck: Bottleneck,
    coefficient: float,
) -> Sizing:
    """Return the sizing for what gets through the bottleneck; never below the present parallelism."""
    if vertex.vertex_id == bottleneck.vertex_id or sizing.target <= sizing.current:
        return sizing
    limited = size_vertex(vertex, _scaled(metrics, bottleneck.share), settings, coefficient)
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
