"""From the metric window to evaluated metrics: rates, targets, capacities and thresholds per vertex."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from flink_autoscaler.core.errors import EvaluationError
from flink_autoscaler.core.evaluate.custom import Customize
from flink_autoscaler.core.evaluate.outside import NOTHING_OUTSIDE, OutsideFigures, times, unevenness
from flink_autoscaler.core.last import keeping_last
from flink_autoscaler.core.model.metrics import (
    EvaluatedMetric,
    EvaluatedMetrics,
    EvaluatedVertex,
    MetricSample,
    ScalingMetric,
    VertexId,
    VertexMetrics,
    avg,
    made,
    of,
)
from flink_autoscaler.core.model.numbers import INFINITY, NAN, divide, r3, round64
from flink_autoscaler.core.model.quick import quick, replace
from flink_autoscaler.core.model.topology import JobTopology, Vertex
from flink_autoscaler.core.observe.window import MetricWindow, mean_of, window_of
from flink_autoscaler.core.options.job import AutoscalerOptions, BusyTimeAggregator

_GLOBAL_LATEST = (ScalingMetric.GC_PRESSURE, ScalingMetric.NUM_TASK_SLOTS_USED)
_GLOBAL_AVERAGES = (
    ScalingMetric.HEAP_MAX_USAGE_RATIO,
    ScalingMetric.HEAP_MEMORY_USED,
    ScalingMetric.MANAGED_MEMORY_USED,
    ScalingMetric.METASPACE_MEMORY_USED,
)


@quick
@dataclass(frozen=True, slots=True)
class EvaluationSettings:
    """The option values that evaluation needs; durations in whole seconds."""

    aggregator: BusyTimeAggregator
    catch_up: int
    restart_time: int
    utilization_max: float
    utilization_min: float
    backlog_threshold: int
    min_observations: int
    switch_threshold: float
    is_strict: bool
    refreshes_thresholds: bool
    is_busy_time_bounded: bool
    utilization_target: float = 1.0

    @classmethod
    def of(cls, options: AutoscalerOptions, restart_time: int) -> EvaluationSettings:
        """Read the options of a job."""
        return replace(options.derived(cls._usual), restart_time=restart_time)

    @classmethod
    def _usual(cls, options: AutoscalerOptions) -> EvaluationSettings:
        target, boundary = options.utilization_target, options.utilization_boundary
        upper, lower = options.utilization_max, options.utilization_min
        return cls(
            aggregator=options.busy_time_aggregator,
            catch_up=options.catch_up_duration.seconds,
            restart_time=0,
            utilization_max=target + boundary if upper is None else upper,
            utilization_min=target - boundary if lower is None else lower,
            backlog_threshold=options.backlog_lag_threshold.seconds,
            min_observations=options.observed_rate_min_observations,
            switch_threshold=options.observed_rate_switch_threshold,
            is_strict=options.improves(options.unknown_when_incomplete),
            refreshes_thresholds=options.improves(options.thresholds_after_evaluator),
            is_busy_time_bounded=options.improves(options.counter_reset),
            utilization_target=target,
        )


def evaluate(
    topology: JobTopology,
    samples: Sequence[MetricSample],
    settings: EvaluationSettings,
    customize: Customize | None = None,
    outside: OutsideFigures = NOTHING_OUTSIDE,
) -> EvaluatedMetrics:
    """Evaluate all vertices, inputs before outputs.

    Args:
        topology: The job graph.
        samples: At least two samples, oldest first.
        settings: Option values.
        customize: Changes the metrics of a vertex before those behind it are evaluated.
        outside: What others than Flink said in this pass.

    Returns:
        Evaluated metrics of every vertex, without recommendations, and of the cluster.

    Raises:
        EvaluationError: A source has no ingestion rate.
    """
    window = window_of(samples)
    has_backlog = is_processing_backlog(topology, window, settings.backlog_threshold)
    vertices: dict[VertexId, EvaluatedVertex] = {}
    flows: dict[VertexId, EvaluatedVertex] = {}  # what goes on to the vertices behind
    for vertex in topology.vertices.values():
        metrics = _plain_metrics(vertex, window)
        target, catch_up = _target_rates(vertex, topology, window, flows, settings, outside.arrivals)
        metrics[ScalingMetric.TARGET_DATA_RATE] = avg(target)
        metrics[ScalingMetric.CATCH_UP_DATA_RATE] = of(catch_up)
        load, rate = _processing_rate(vertex, window, settings)
        metrics[ScalingMetric.LOAD] = avg(load)
        metrics[ScalingMetric.TRUE_PROCESSING_RATE] = avg(rate)
        uneven = _unevenness(vertex, metrics, settings, outside)
        if uneven != 1.0:
            metrics[ScalingMetric.CATCH_UP_DATA_RATE] = times(metrics[ScalingMetric.CATCH_UP_DATA_RATE], uneven)
        metrics |= rate_thresholds(metrics, settings, has_backlog=has_backlog)
        if customize is not None:
            changes = customize(vertex.vertex_id, metrics, vertices, has_backlog)
            metrics = _customized(metrics, changes, settings, has_backlog=has_backlog)
        vertices[vertex.vertex_id] = flows[vertex.vertex_id] = metrics
        if uneven != 1.0:
            even = times(metrics[ScalingMetric.CATCH_UP_DATA_RATE], 1.0 / uneven)
            flows[vertex.vertex_id] = {**metrics, ScalingMetric.CATCH_UP_DATA_RATE: even}
    return EvaluatedMetrics(vertices, _evaluate_globals(*[sample.globals_ for sample in samples]))


def _customized(
    metrics: dict[ScalingMetric, EvaluatedMetric],
    changes: EvaluatedVertex,
    settings: EvaluationSettings,
    *,
    has_backlog: bool,
) -> dict[ScalingMetric, EvaluatedMetric]:
    """Merge what a custom evaluator returned; thresholds follow the changed rates unless it set them itself."""
    merged = merge(metrics, changes)
    if changes and settings.refreshes_thresholds:
        thresholds = rate_thresholds(merged, settings, has_backlog=has_backlog)
        merged.update({metric: value for metric, value in thresholds.items() if metric not in changes})
    return merged


def merge(metrics: EvaluatedVertex, changes: EvaluatedVertex) -> dict[ScalingMetric, EvaluatedMetric]:
    """Lay changes over metrics, field by field where they are not NaN."""
    merged = dict(metrics)
    for metric, change in changes.items():
        present = merged.get(metric, change)
        merged[metric] = EvaluatedMetric(
            present.current if math.isnan(change.current) else r3(change.current),
            present.average if math.isnan(change.average) else r3(change.average),
        )
    return merged


def is_processing_backlog(topology: JobTopology, window: MetricWindow, threshold: int) -> bool:
    """Tell whether some source has more lag than ``threshold`` seconds of its input."""
    for vertex in topology.vertices.values():
        if vertex.is_source:
            lag = window.latest(ScalingMetric.LAG, vertex.vertex_id)
            rate = window.rate(ScalingMetric.NUM_RECORDS_IN, vertex.vertex_id)
            if not math.isnan(rate) and divide(0.0 if lag is None else lag, rate) > threshold:
                return True
    return False


def _plain_metrics(vertex: Vertex, window: MetricWindow) -> dict[ScalingMetric, EvaluatedMetric]:
    metrics = _fixed_metrics(vertex.parallelism, vertex.max_parallelism, vertex.source_partitions).copy()
    lag = window.latest(ScalingMetric.LAG, vertex.vertex_id)
    if lag is not None:
        metrics[ScalingMetric.LAG] = of(lag)
    return metrics


@lru_cache(maxsize=4096)
def _fixed_metrics(
    parallelism: int, max_parallelism: int, source_partitions: int
) -> dict[ScalingMetric, EvaluatedMetric]:
    return {
        ScalingMetric.PARALLELISM: EvaluatedMetric(float(parallelism), NAN),
        ScalingMetric.MAX_PARALLELISM: EvaluatedMetric(float(max_parallelism), NAN),
        ScalingMetric.NUM_SOURCE_PARTITIONS: EvaluatedMetric(float(source_partitions), NAN),
    }


def _target_rates(
    vertex: Vertex,
    topology: JobTopology,
    window: MetricWindow,
    evaluated: Mapping[VertexId, EvaluatedVertex],
    settings: EvaluationSettings,
    arrivals: Mapping[VertexId, float],
) -> tuple[float, float]:
    """Return the target rate of a vertex, and the rate on top of it that catches up in time."""
    if vertex.is_source:
        arriving = arrivals.get(vertex.vertex_id)
        return _source_rates(vertex.vertex_id, window, settings.catch_up, arriving)
    target, catch_up = 0.0, 0.0
    for upstream in vertex.inputs:
        ratio = output_ratio(topology, window, (upstream, vertex.vertex_id), is_strict=settings.is_strict)
        target += evaluated[upstream][ScalingMetric.TARGET_DATA_RATE].average * ratio
        catch_up += evaluated[upstream][ScalingMetric.CATCH_UP_DATA_RATE].current * ratio
    return target, catch_up


def _source_rates(
    vertex_id: VertexId, window: MetricWindow, catch_up: int, arriving: float | None
) -> tuple[float, float]:
    ingest = arriving
    if ingest is None:
        ingest = window.rate(ScalingMetric.NUM_RECORDS_IN, vertex_id) + window.rate(ScalingMetric.LAG, vertex_id)
    if math.isnan(ingest):
        raise EvaluationError(f"source {vertex_id}: no ingestion rate in the metric window")
    lag = window.latest(ScalingMetric.LAG, vertex_id)
    return max(0.0, ingest), 0.0 if catch_up == 0 else (0.0 if lag is None else lag) / catch_up


def _unevenness(
    vertex: Vertex, metrics: EvaluatedVertex, settings: EvaluationSettings, outside: OutsideFigures
) -> float:
    most = outside.slowest.get(vertex.vertex_id)
    if most is None or ScalingMetric.LAG not in metrics:
        return 1.0
    target = settings.utilization_target
    return unevenness(vertex, metrics, most, catch_up=settings.catch_up, utilization_target=target)


def output_ratio(
    topology: JobTopology, window: MetricWindow, edge: tuple[VertexId, VertexId], *, is_strict: bool
) -> float:
    """Return records that travel along an edge per record that its upstream vertex receives.

    Args:
        topology: The job graph.
        window: The metric window.
        edge: Upstream and downstream vertex.
        is_strict: A ratio that cannot be known is NaN instead of 0.
    """
    received = window.rate(ScalingMetric.NUM_RECORDS_IN, edge[0])
    sent = _edge_rate(topology, window, edge)
    if is_strict and (math.isnan(received) or math.isnan(sent)):
        return NAN
    return sent / received if received > 0 and sent > 0 else 0.0


def _edge_rate(topology: JobTopology, window: MetricWindow, edge: tuple[VertexId, VertexId]) -> float:
    """Return records/s along an edge, from the receiver where that tells, else from the sender."""
    upstream, downstream = edge
    inputs = topology.vertices[downstream].inputs
    received = window.rate(ScalingMetric.NUM_RECORDS_IN, downstream)
    if len(inputs) == 1:
        return received
    others = [vertex_id for vertex_id in inputs if vertex_id != upstream]
    if all(len(topology.vertices[vertex_id].outputs) == 1 for vertex_id in others):
        elsewhere = sum(window.rate(ScalingMetric.NUM_RECORDS_OUT, vertex_id) for vertex_id in others)
        if not math.isnan(elsewhere):
            return received - elsewhere
    return window.rate(ScalingMetric.NUM_RECORDS_OUT, upstream)


def _processing_rate(vertex: Vertex, window: MetricWindow, settings: EvaluationSettings) -> tuple[float, float]:
    """Return the busy share of a vertex, and its true processing rate."""
    busy_ms, rate_in = _busy_and_input(vertex, window, settings.aggregator)
    if settings.is_busy_time_bounded and busy_ms < 0:
        busy_ms = 0.0
    from_busy_time = INFINITY if rate_in == 0 else divide(rate_in, busy_ms / 1000)
    observed = NAN  # only sources can tell
    if vertex.is_source:
        observed = window.average(ScalingMetric.OBSERVED_TPR, vertex.vertex_id, settings.min_observations)
    return busy_ms / 1000, true_processing_rate(from_busy_time, observed, settings.switch_threshold)


def _busy_and_input(vertex: Vertex, window: MetricWindow, aggregator: BusyTimeAggregator) -> tuple[float, float]:
    """Return busy milliseconds per second and subtask, and the input rate that goes with it."""
    vertex_id = vertex.vertex_id
    counted = window.rate(ScalingMetric.NUM_RECORDS_IN, vertex_id)
    if aggregator is BusyTimeAggregator.AVG:
        return window.rate(ScalingMetric.ACCUMULATED_BUSY_TIME, vertex_id) / vertex.parallelism, counted
    busy_ms = window.average(ScalingMetric.LOAD, vertex_id) * 1000
    measured = window.average(ScalingMetric.NUM_RECORDS_IN_PER_SECOND, vertex_id)
    return busy_ms, measured if math.isfinite(measured) else counted


def true_processing_rate(from_busy_time: float, observed: float, switch_threshold: float) -> float:
    """Choose between the rate derived from busy time and the one observed while catching up; NaN is unknown."""
    if math.isnan(observed):
        return from_busy_time
    if not math.isfinite(from_busy_time):
        return observed
    return observed if from_busy_time > observed * (1 + switch_threshold) else from_busy_time


def target_capacity(
    metrics: EvaluatedVertex, utilization: float, *, catch_up: int, restart_time: int | None = None
) -> float:
    """Return the processing rate a vertex needs.

    Args:
        metrics: Evaluated target and catch-up rates.
        utilization: Share of the capacity that the target rate may take.
        catch_up: Seconds in which a backlog should be gone; 0 plans nothing for it.
        restart_time: Seconds of downtime to make up for; None for none.

    Returns:
        Records/s, a whole number; infinite for utilization 0; NaN when a rate is unknown.
    """
    extra = metrics[ScalingMetric.CATCH_UP_DATA_RATE].current
    target = metrics[ScalingMetric.TARGET_DATA_RATE].average
    if extra != extra or target != target:  # noqa: PLR0124 - one of them is NaN
        return NAN
    bounded = utilization if 0.0 < utilization <= 1.0 else min(max(utilization, 0.0), 1.0)  # NaN stays
    if bounded == 0.0:
        return INFINITY
    restart = 0.0 if restart_time is None or catch_up == 0 else (target * restart_time) / catch_up
    return round64(extra + restart + target / bounded)


def rate_thresholds(
    metrics: EvaluatedVertex, settings: EvaluationSettings, *, has_backlog: bool
) -> dict[ScalingMetric, EvaluatedMetric]:
    """Return the edges of the band in which the true processing rate is left alone."""
    upper, lower = (1.0, 0.0) if has_backlog else (settings.utilization_max, settings.utilization_min)
    scale_up = target_capacity(metrics, upper, catch_up=settings.catch_up)
    scale_down = target_capacity(metrics, lower, catch_up=settings.catch_up, restart_time=settings.restart_time)
    return {  # whole numbers need no rounding
        ScalingMetric.SCALE_UP_RATE_THRESHOLD: made((scale_up, NAN)),
        ScalingMetric.SCALE_DOWN_RATE_THRESHOLD: made((scale_down, NAN)),
    }


@keeping_last
def _evaluate_globals(*samples: VertexMetrics) -> dict[ScalingMetric, EvaluatedMetric]:
    """Evaluate the cluster-wide metrics of a window; the windows of all jobs of a cluster have the same."""
    latest = {m: samples[-1].get(m, NAN) for m in (*_GLOBAL_LATEST, *_GLOBAL_AVERAGES)}
    averages = {m: mean_of([sample[m] for sample in samples if m in sample], 1) for m in _GLOBAL_AVERAGES}
    return {m: EvaluatedMetric(r3(value), r3(averages.get(m, NAN))) for m, value in latest.items()}


def with_present_parallelism(metrics: EvaluatedMetrics) -> EvaluatedMetrics:
    """Recommend to every vertex the parallelism it has; where a decision begins."""
    vertices = {
        vertex_id: {**vertex, ScalingMetric.RECOMMENDED_PARALLELISM: vertex[ScalingMetric.PARALLELISM]}
        for vertex_id, vertex in metrics.vertices.items()
    }
    return EvaluatedMetrics(vertices, metrics.globals_)
