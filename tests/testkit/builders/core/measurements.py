"""Samples, evaluated metrics and history entries."""

from __future__ import annotations

from collections.abc import Mapping

from flink_autoscaler.core.model.metrics import (
    EvaluatedMetric,
    EvaluatedVertex,
    MetricSample,
    ScalingMetric,
    VertexId,
    VertexMetrics,
    avg,
    of,
)
from flink_autoscaler.core.model.state import HistoryEntry, ScalingSummary


def a_sample(
    at_ms: int = 0,
    vertices: Mapping[VertexId, VertexMetrics] | None = None,
    globals_: VertexMetrics | None = None,
) -> MetricSample:
    """Make one sample of the window."""
    return MetricSample(at_ms, vertices or {}, globals_ or {})


def evaluated_vertex(
    *, target: float, rate: float, catch_up: float = 0.0, parallelism: int = 1, up: float = 0.0, down: float = 0.0
) -> EvaluatedVertex:
    """Make the evaluated metrics that sizing looks at; ``up`` and ``down`` are the edges of the band."""
    metrics: dict[ScalingMetric, EvaluatedMetric] = {
        ScalingMetric.TARGET_DATA_RATE: avg(target),
        ScalingMetric.CATCH_UP_DATA_RATE: of(catch_up),
        ScalingMetric.TRUE_PROCESSING_RATE: avg(rate),
        ScalingMetric.PARALLELISM: of(float(parallelism)),
        ScalingMetric.SCALE_UP_RATE_THRESHOLD: of(up),
        ScalingMetric.SCALE_DOWN_RATE_THRESHOLD: of(down),
    }
    return metrics


def history_entry(at_ms: int, current: int, new: int, *, rate: float = 0.0, expected: float = 0.0) -> HistoryEntry:
    """Make a past decision with the processing rate then and the one that was expected of it."""
    metrics = {
        ScalingMetric.TRUE_PROCESSING_RATE: avg(rate),
        ScalingMetric.EXPECTED_PROCESSING_RATE: of(expected),
    }
    return HistoryEntry(at_ms, ScalingSummary(current, new, metrics))
