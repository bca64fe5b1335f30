"""Three small plug-ins for flink-autoscaler: an evaluator, an executor and an alignment mode."""

from __future__ import annotations

from collections.abc import Mapping

from flink_autoscaler.core.model.metrics import EvaluatedMetric, EvaluatedVertex, ScalingMetric, VertexId, avg
from flink_autoscaler.core.model.state import ScalingSummaries
from flink_autoscaler.core.ports.plugins import AlignmentContext, EvaluatorContext, ExecutorContext

__all__ = ["HeadroomEvaluator", "KeepDuringOfficeHours", "PowersOfTwo"]


class HeadroomEvaluator:
    """Plans for more than was measured: raises the target rate of the sources by the share ``headroom``."""

    def evaluate_vertex_metrics(
        self, vertex_id: VertexId, metrics: EvaluatedVertex, context: EvaluatorContext
    ) -> Mapping[ScalingMetric, EvaluatedMetric]:
        """Return a higher target for a source; the vertices behind it follow by themselves."""
        if not context.topology.vertices[vertex_id].is_source:
            return {}
        share = float(context.job.configuration.get("headroom", "0.2"))
        target = metrics[ScalingMetric.TARGET_DATA_RATE].average
        return {ScalingMetric.TARGET_DATA_RATE: avg(target * (1 + share))}


class KeepDuringOfficeHours:
    """Vetoes plans that only shrink the job, unless ``shrink`` is ``true``."""

    priority = 10

    def apply(self, context: ExecutorContext, summaries: ScalingSummaries) -> ScalingSummaries | None:
        """Return the plan, or None to veto it."""
        may_shrink = context.job.configuration.get("shrink", "false") == "true"
        grows = any(summary.is_scale_up for summary in summaries.values())
        return summaries if grows or may_shrink else None


class PowersOfTwo:
    """Aligns to the next power of two that the vertex can have."""

    def is_applicable(self, context: AlignmentContext) -> bool:
        """Align every vertex that can have more than one subtask."""
        return context.request.max_parallelism > 1

    def align(self, context: AlignmentContext) -> int:
        """Return the least power of two from the target up; the target itself where that is too much."""
        power = 1 << (context.request.target - 1).bit_length()
        return power if power <= min(context.request.max_parallelism, context.request.upper) else context.request.target
