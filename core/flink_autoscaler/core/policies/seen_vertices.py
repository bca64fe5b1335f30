"""The vertices of a job as policies are shown them, from the metric window of one pass."""

from __future__ import annotations

import math
from typing import Final

from flink_autoscaler.core.decide.decision_run import ExecutionInput
from flink_autoscaler.core.evaluate.evaluation import output_ratio
from flink_autoscaler.core.model.metrics import Aggregate, FlinkMetric, ScalingMetric, VertexId
from flink_autoscaler.core.model.policy_values import VertexObs
from flink_autoscaler.core.model.topology import Vertex
from flink_autoscaler.core.observe.waiting import waiting_shares
from flink_autoscaler.core.observe.window import MetricWindow
from flink_autoscaler.core.policies.base.sizing import SizingSettings, limits_of
from flink_autoscaler.core.policies.base.whole_job import slope_of

_MS: Final = 1000.0
_LEAST_FOR_SLOPE: Final = 2


class SeenVertices:
    """The vertices of a job over its metric window.

    Attributes:
        running: Those that have not finished.
        edges: Records out per record in between those, where both are known.
    """

    def __init__(self, given: ExecutionInput) -> None:
        self._given = given
        self._window = MetricWindow(given.state.samples)
        self._sizing = SizingSettings.of(given.options, given.restart_time)
        self._is_strict = given.options.improves(given.options.unknown_when_incomplete)
        self.running = {v: vertex for v, vertex in given.topology.vertices.items() if not vertex.is_finished}
        ratios = {
            (upstream, v): output_ratio(given.topology, self._window, (upstream, v), is_strict=True)
            for v, vertex in self.running.items()
            for upstream in self._inputs(vertex)
        }
        self.edges = {edge: ratio for edge, ratio in ratios.items() if math.isfinite(ratio)}

    def vertex(self, vertex: Vertex) -> VertexObs:
        """Return what is known about one vertex."""
        vertex_id, metrics = vertex.vertex_id, self._given.metrics.vertices[vertex.vertex_id]
        least, most = self._bounds(vertex)
        rate_in, waiting = self._rate_in(vertex_id), waiting_shares(self._window.samples, vertex_id)
        return VertexObs(
            vertex_id=vertex_id,
            name=vertex.name,
            is_source=vertex.is_source,
            parallelism=vertex.parallelism,
            min_parallelism=least,
            max_parallelism=most,
            rate_in=rate_in,
            rate_out=self._rate_out(vertex, rate_in),
            target_rate=known(metrics[ScalingMetric.TARGET_DATA_RATE].average),
            true_rate=_positive(metrics[ScalingMetric.TRUE_PROCESSING_RATE].average),
            busy=_share(metrics[ScalingMetric.LOAD].average),
            busy_mean=self._busy_mean(vertex),
            idle=waiting.idle if waiting else None,
            backpressured=waiting.backpressured if waiting else None,
            skew=self._skew(vertex),
            lag_records=self._lag(vertex),
            lag_slope=self._lag_slope(vertex),
            complete=self._is_complete(vertex),
        )

    def _bounds(self, vertex: Vertex) -> tuple[int, int]:
        """Return the bounds, as wide as what the vertex has; one that is not to be scaled has no room at all."""
        if vertex.vertex_id in self._given.excluded:
            return vertex.parallelism, vertex.parallelism
        limits = limits_of(vertex, vertex.parallelism, self._sizing)
        return limits.lower, max(limits.lower, limits.bound)

    def _inputs(self, vertex: Vertex) -> list[VertexId]:
        return [upstream for upstream in vertex.inputs if upstream in self.running]

    def _rate_in(self, vertex_id: VertexId) -> float | None:
        rate = self._window.rate(ScalingMetric.NUM_RECORDS_IN, vertex_id)
        return rate if 0 <= rate < math.inf else None

    def _rate_out(self, vertex: Vertex, rate_in: float | None) -> dict[VertexId, float]:
        ratios = {v: self.edges.get((vertex.vertex_id, v)) for v in vertex.outputs}
        return {v: ratio * rate_in for v, ratio in ratios.items() if ratio is not None and rate_in is not None}

    def _busy_mean(self, vertex: Vertex) -> float | None:
        busy_ms = self._window.rate(ScalingMetric.ACCUMULATED_BUSY_TIME, vertex.vertex_id)
        return _share(busy_ms / _MS / vertex.parallelism)

    def _skew(self, vertex: Vertex) -> float | None:
        """Return how unevenly the subtasks read, from the aggregates of their rates in this pass."""
        metric = FlinkMetric.SOURCE_RECORDS_IN_RATE if vertex.is_source else FlinkMetric.RECORDS_IN_RATE
        rates = self._given.reading.aggregates.get(vertex.vertex_id, {}).get(metric, Aggregate())
        if rates.maximum is None or not rates.average:
            return None
        skew = _positive(rates.maximum / rates.average)
        return None if skew is None else max(1.0, skew)

    def _lag(self, vertex: Vertex) -> float | None:
        metric = self._given.metrics.vertices[vertex.vertex_id].get(ScalingMetric.LAG)
        return known(metric.current) if metric and self._tells_lag(vertex) else None

    def _lag_slope(self, vertex: Vertex) -> float | None:
        samples = self._window.samples
        lags = [(s.at_ms / _MS, s.vertices.get(vertex.vertex_id, {}).get(ScalingMetric.LAG, math.nan)) for s in samples]
        known = [(at, lag) for at, lag in lags if math.isfinite(lag)]
        if len(known) < _LEAST_FOR_SLOPE or not self._tells_lag(vertex):
            return None
        return slope_of(known, lags[-1][0] - lags[0][0])

    def _tells_lag(self, vertex: Vertex) -> bool:
        """Tell whether a source reports its backlog; one that does not has a backlog of 0 in the samples."""
        answers = self._given.reading.aggregates.get(vertex.vertex_id)
        return vertex.is_source and (answers is None or FlinkMetric.PENDING_RECORDS in answers)

    def _is_complete(self, vertex: Vertex) -> bool:
        """Tell whether the counters of a vertex can be believed, and all that arrives at it is known.

        Where incomplete counters are unknown, earlier ones do no harm; else they are too low.
        """
        samples = self._window.samples[-1:] if self._is_strict else self._window.samples
        is_counted = not any(vertex.vertex_id in sample.incomplete for sample in samples)
        return is_counted and all((upstream, vertex.vertex_id) in self.edges for upstream in self._inputs(vertex))


def known(value: float) -> float | None:
    """Return a number; None for one that is not finite."""
    return value if math.isfinite(value) else None


def _positive(value: float) -> float | None:
    return value if 0 < value < math.inf else None


def _share(value: float) -> float | None:
    """Return a share of time; that of a counter which went back is not known."""
    return min(value, 1.0) if math.isfinite(value) and value >= 0 else None
