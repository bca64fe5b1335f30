"""Scale-downs that wait: a sliding-window maximum of recommendations per vertex."""

from __future__ import annotations

from collections.abc import Mapping

from flink_autoscaler.core.model.metrics import VertexId
from flink_autoscaler.core.model.state import DelayedRecommendation, DelayedVertex


class DelayedScaleDown:
    """The pending scale-downs of a job during one pass; :attr:`vertices` is what to remember."""

    def __init__(self, vertices: Mapping[VertexId, DelayedVertex]) -> None:
        self.vertices = dict(vertices)

    def clear(self, vertex_id: VertexId) -> None:
        """Forget the pending scale-down of one vertex."""
        self.vertices.pop(vertex_id, None)

    def recommend(
        self, vertex_id: VertexId, recommendation: DelayedRecommendation, interval_ms: int
    ) -> DelayedRecommendation | None:
        """Add a recommendation.

        Args:
            vertex_id: The vertex.
            recommendation: The scale-down advised now.
            interval_ms: How long it has to stay advisable; 0 or less for not at all.

        Returns:
            The highest recommendation of the last interval once that has passed since the first; None while it
            has not.
        """
        if interval_ms <= 0:
            return recommendation
        pending = self._with(vertex_id, recommendation)
        start_ms = recommendation.at_ms - interval_ms
        if start_ms < pending.first_ms:
            self.vertices[vertex_id] = pending
            return None
        recent = tuple(entry for entry in pending.queue if entry.at_ms >= start_ms)
        self.vertices[vertex_id] = pending._replace(queue=recent)
        return recent[0]

    def _with(self, vertex_id: VertexId, recommendation: DelayedRecommendation) -> DelayedVertex:
        pending = self.vertices.get(vertex_id, DelayedVertex(recommendation.at_ms, ()))
        higher = list(pending.queue)
        while higher and higher[-1].parallelism <= recommendation.parallelism:
            higher.pop()
        return pending._replace(queue=(*higher, recommendation))
