"""What arrives at the sources of a job, from its latest samples."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from flink_autoscaler.core.model.metrics import MetricSample, ScalingMetric, VertexId
from flink_autoscaler.core.model.topology import JobTopology
from flink_autoscaler.core.observe.window import MetricWindow

SPAN_MS: Final = 60_000
"""Time that a rate covers where passes are closer: within seconds, counters and lags are not read at one instant."""


def arrival_rates(topology: JobTopology, samples: Sequence[MetricSample]) -> dict[VertexId, float | None]:
    """Return the records/s that arrive at every source that has not finished; None where that is not known.

    What arrives is what a source reads and what its lag grows by.

    Args:
        topology: The job graph.
        samples: Of the present execution, oldest first.
    """
    window = MetricWindow(recent(samples, SPAN_MS))
    return {
        vertex_id: _arrival_rate(window, vertex_id)
        for vertex_id, vertex in topology.vertices.items()
        if vertex.is_source and not vertex.is_finished
    }


def reading_rates(topology: JobTopology, samples: Sequence[MetricSample]) -> dict[VertexId, float | None]:
    """Return the records/s that every source reads that has not finished; arguments are those above."""
    window = MetricWindow(recent(samples, SPAN_MS))
    return {
        vertex_id: _growth(window, ScalingMetric.NUM_RECORDS_IN, vertex_id)
        for vertex_id, vertex in topology.vertices.items()
        if vertex.is_source and not vertex.is_finished
    }


def recent(samples: Sequence[MetricSample], span_ms: int) -> Sequence[MetricSample]:
    """Return the latest samples that cover a span: from the newest one that is at least as old, if there is one."""
    if not samples:
        return samples
    start_ms = samples[-1].at_ms - span_ms
    older = sum(1 for sample in samples if sample.at_ms <= start_ms)
    return samples[max(0, older - 1) :]


def _arrival_rate(window: MetricWindow, vertex_id: VertexId) -> float | None:
    consumption, slope = (_growth(window, m, vertex_id) for m in (ScalingMetric.NUM_RECORDS_IN, ScalingMetric.LAG))
    if slope is None and math.isnan(window.average(ScalingMetric.LAG, vertex_id)):
        slope = 0.0  # a source that never tells its lag: what it reads is all there is to go by
    if consumption is None or slope is None or consumption < 0:  # a counter that went back says nothing
        return None
    return max(0.0, consumption + slope)


def _growth(window: MetricWindow, metric: ScalingMetric, vertex_id: VertexId) -> float | None:
    """Return the growth per second; None where the latest sample does not know the metric."""
    latest = window.latest(metric, vertex_id) if window.samples else None
    rate = math.nan if latest is None or math.isnan(latest) else window.rate(metric, vertex_id)
    return rate if math.isfinite(rate) else None
