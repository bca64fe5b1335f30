"""From what Flink reports to scaling metrics: one sample of the window."""

from __future__ import annotations

import math
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Final

from flink_autoscaler.core.memoize import memoize_last
from flink_autoscaler.core.model.metrics import (
    Aggregate,
    FlinkMetric,
    MetricSample,
    NonBusyTime,
    ScalingMetric,
    VertexId,
    VertexMetrics,
)
from flink_autoscaler.core.model.numbers import INFINITY, NAN, divide, rounded
from flink_autoscaler.core.model.reading import ClusterReading, JobReading, VertexAggregates
from flink_autoscaler.core.model.topology import JobTopology, Vertex
from flink_autoscaler.core.model.value import replace, value
from flink_autoscaler.core.observe import metric_names
from flink_autoscaler.core.observe.plausibility import (
    MOST,
    RATES_AFTER_MS,
    SHARES_AFTER_MS,
    is_possible,
    mask_unmeasured,
    of_working_subtasks,
    possible_aggregates,
)
from flink_autoscaler.core.observe.window import Layout, MetricWindow, VertexTable, non_busy_times, window_of
from flink_autoscaler.core.options.job import AutoscalerOptions, BusyTimeAggregator

_ZERO = Aggregate(0.0, 0.0, 0.0, 0.0, 0.0)
_FINISHED: VertexAggregates = {
    FlinkMetric.BUSY_TIME: _ZERO,
    FlinkMetric.PENDING_RECORDS: _ZERO,
    FlinkMetric.SOURCE_RECORDS_IN_RATE: _ZERO,
    FlinkMetric.SOURCE_RECORDS_IN: _ZERO,
    FlinkMetric.SOURCE_RECORDS_OUT: _ZERO,
}
_MS_PER_SECOND = 1000.0

MIN_OF_BUSY_RATE: Final = 0.5
"""Least share of the rate that follows from the busy share of a sample to which a rate observed in it may lower it."""


@value
class Conversion:
    """How the metrics of a job are converted.

    Attributes:
        window: The window before the new sample.
        aggregator: Which subtask's busy time stands for a vertex.
        lag_threshold: Seconds of input that make a source count as catching up.
        min_observations: Samples before an observed processing rate counts.
        is_improved: Whether values that are incomplete, not answered, or not measured yet shortly after a start are
            unknown, the sample tells how long sources waited, and the busy share of a source bounds the rate that is
            observed there.
        keeps_waiting: Whether the sample is to tell how long all vertices waited, which only policies ask for.
        max_rate: Records/s that no subtask can process; None where values that cannot be are taken as they are.
        ages: For how long the tasks of each vertex run, milliseconds; of others it is long enough.
    """

    window: MetricWindow
    aggregator: BusyTimeAggregator
    lag_threshold: int
    min_observations: int
    is_improved: bool
    keeps_waiting: bool = False
    max_rate: float | None = None
    ages: Mapping[VertexId, float] = field(default_factory=dict)

    @classmethod
    def of(
        cls, options: AutoscalerOptions, samples: Sequence[MetricSample], ages: Mapping[VertexId, float] | None = None
    ) -> Conversion:
        """Read the options that conversion needs."""
        usual = options.derive(cls._usual)
        return replace(usual, window=window_of(samples), ages=ages if ages and usual.is_improved else {})

    @classmethod
    def _usual(cls, options: AutoscalerOptions) -> Conversion:
        return cls(
            window=MetricWindow(()),
            aggregator=options.busy_time_aggregator,
            lag_threshold=options.observed_rate_lag_threshold.seconds,
            min_observations=options.observed_rate_min_observations,
            is_improved=options.is_improved,
            keeps_waiting=options.has_own_policies,
            max_rate=options.max_rate if options.is_improved else None,
        )


def convert(
    now_ms: int, topology: JobTopology, reading: JobReading, cluster: ClusterReading, conversion: Conversion
) -> tuple[MetricSample, frozenset[VertexId]]:
    """Make one sample.

    Returns:
        The sample, and the vertices that must not be scaled in this pass because their busy time is unknown.

    Raises:
        ResponseError: A cluster-wide metric is not a number.
    """
    shape, numbers, excluded = list[tuple[VertexId, tuple[ScalingMetric, ...]]](), list[float](), set()
    for vertex_id, vertex in topology.vertices.items():
        aggregates = _FINISHED if vertex.is_finished else reading.aggregates.get(vertex_id, {})
        values = convert_vertex(vertex, aggregates, conversion)
        if not math.isfinite(values[ScalingMetric.LOAD]):
            excluded.add(vertex_id)
        shape.append((vertex_id, tuple(values)))
        numbers += rounded(values.values())
    vertices = VertexTable(Layout.of(tuple(shape)), array("d", numbers))
    incomplete = [v.vertex_id for v in topology.vertices.values() if not v.io.is_complete]
    waiting = _NOT_KEPT
    if conversion.keeps_waiting or conversion.is_improved:
        waiting = non_busy_times([v for v in topology.vertices.values() if v.is_source or conversion.keeps_waiting])
    globals_ = _globals(cluster, reading.memory.reports_gc, conversion.max_rate is not None)
    sample = MetricSample(now_ms, vertices, globals_, frozenset(incomplete) if incomplete else _WHOLE, waiting)
    return sample, frozenset(excluded)


_WHOLE: Final = frozenset[VertexId]()
_NOT_KEPT: Final[Mapping[VertexId, NonBusyTime]] = {}


@memoize_last
def _globals(cluster: ClusterReading, reports_gc: bool | None, is_bounded: bool) -> VertexMetrics:
    """Return the cluster-wide metrics; with bounds without those that cannot be. All jobs of a cluster have the same.

    Raises:
        ResponseError: A slot count is not a number.
    """
    found = convert_globals(cluster, reports_gc)
    return {metric: value for metric, value in found.items() if is_possible(value)} if is_bounded else found


def convert_vertex(vertex: Vertex, aggregates: VertexAggregates, conversion: Conversion) -> dict[ScalingMetric, float]:
    """Convert the metrics of one vertex; not rounded yet."""
    is_unknown = conversion.is_improved and not vertex.io.is_complete
    aggregates = {} if is_unknown else aggregates
    if conversion.max_rate is not None:
        aggregates = possible_aggregates(aggregates, conversion.max_rate, vertex.parallelism)
    if vertex.idle_subtasks:
        aggregates = {metric: of_working_subtasks(each, vertex) for metric, each in aggregates.items()}
    age_ms = INFINITY if vertex.is_finished else conversion.ages.get(vertex.vertex_id, INFINITY)
    if age_ms < RATES_AFTER_MS:
        aggregates = mask_unmeasured(age_ms, aggregates)
    busy_ms, records_out, records_in = NAN, NAN, NAN
    if not is_unknown:
        counters, is_bounded = vertex.io, conversion.max_rate is not None
        busy_ms, records_out, records_in = [
            float(count) if not is_bounded or 0 <= count <= MOST else NAN
            for count in (counters.busy_ms, counters.records_out, counters.records_in)
        ]
    values = {
        ScalingMetric.LOAD: _load(aggregates, conversion.aggregator),
        # What is not measured as waiting counts as busy.
        ScalingMetric.ACCUMULATED_BUSY_TIME: NAN if age_ms < SHARES_AFTER_MS else busy_ms,
        ScalingMetric.NUM_RECORDS_OUT: records_out,
        ScalingMetric.NUM_RECORDS_IN: NAN if is_unknown else _records_in(records_in, vertex, aggregates, conversion),
    }
    if vertex.is_source:
        # Not every connector reports it, and Kafka's only with its first record: no answer is not an empty topic.
        lag = _total(aggregates, FlinkMetric.PENDING_RECORDS, NAN if conversion.is_improved else 0.0)
        values[ScalingMetric.LAG] = lag
        observed = _observed_rate(vertex.vertex_id, aggregates, lag, conversion)
        if observed is not None:
            values[ScalingMetric.OBSERVED_TPR] = observed
    elif FlinkMetric.RECORDS_IN_RATE in aggregates:
        values[ScalingMetric.NUM_RECORDS_IN_PER_SECOND] = _total(aggregates, FlinkMetric.RECORDS_IN_RATE)
    return values


def _total(aggregates: VertexAggregates, metric: FlinkMetric, absent: float = NAN) -> float:
    """Return the sum over the subtasks: ``absent`` when there is no such metric, NaN when it has no sum."""
    aggregate = aggregates.get(metric)
    if aggregate is None:
        return absent
    return NAN if aggregate.total is None else aggregate.total


def _load(aggregates: VertexAggregates, aggregator: BusyTimeAggregator) -> float:
    aggregate = aggregates.get(FlinkMetric.BUSY_TIME)
    if aggregate is None:
        return NAN
    if aggregator is BusyTimeAggregator.MAX:
        busy = aggregate.maximum
    else:
        busy = aggregate.average if aggregator is BusyTimeAggregator.AVG else aggregate.minimum
    return max(0.0, busy) / _MS_PER_SECOND if busy is not None and math.isfinite(busy) else NAN


def _records_in(count: float, vertex: Vertex, aggregates: VertexAggregates, conversion: Conversion) -> float:
    """Return what a vertex read; a source that counts nothing itself may have metrics of its operator."""
    if count == 0 and vertex.is_source:
        for metric in (FlinkMetric.SOURCE_RECORDS_IN, FlinkMetric.SOURCE_RECORDS_OUT):
            count = _total(aggregates, metric, count) if count == 0 else count
        if conversion.is_improved and count == 0 and not aggregates:
            return NAN
    return NAN if math.isnan(count) else max(0.0, count)


def _observed_rate(
    vertex_id: VertexId, aggregates: VertexAggregates, lag: float, conversion: Conversion
) -> float | None:
    """Return the processing rate measured at a source while it catches up; None where nothing can be said."""
    rate = _total(aggregates, FlinkMetric.SOURCE_RECORDS_IN_RATE)
    if math.isnan(rate) or rate == 0:
        rate = _total(aggregates, FlinkMetric.SOURCE_RECORDS_OUT_RATE, rate)
    if math.isnan(rate):
        return None
    if rate <= 0:
        return INFINITY
    if lag >= conversion.lag_threshold * rate:
        blocked = aggregates.get(FlinkMetric.BACKPRESSURE_TIME)
        blocked_ms = NAN if blocked is None or blocked.average is None else blocked.average
        if blocked_ms < _MS_PER_SECOND:
            observed = rate / (1 - blocked_ms / _MS_PER_SECOND)
            # Lag alone does not tell that a source is at its limit: its records may wait for other sources, or not be
            # there yet. A source that is idle while they wait could do more: not far below what its busy share says.
            busy = _load(aggregates, conversion.aggregator) if conversion.is_improved else NAN
            return observed if math.isnan(busy) else max(observed, MIN_OF_BUSY_RATE * divide(rate, busy))
    return conversion.window.average(ScalingMetric.OBSERVED_TPR, vertex_id, conversion.min_observations)


def convert_globals(cluster: ClusterReading, reports_gc: bool | None) -> dict[ScalingMetric, float]:
    """Convert the cluster-wide metrics.

    Args:
        cluster: What the cluster answered.
        reports_gc: Whether garbage collection takes part.

    Raises:
        ResponseError: A slot count is not a number.
    """
    taskmanagers = cluster.taskmanagers if reports_gc else base_taskmanager_metrics(cluster)
    heap_used = _maximum(taskmanagers, metric_names.HEAP_USED)
    heap_max = _maximum(taskmanagers, metric_names.HEAP_MAX)
    values = {
        ScalingMetric.NUM_TASK_SLOTS_USED: _slots_used(cluster.jobmanager),
        ScalingMetric.GC_PRESSURE: _scaled(_maximum(taskmanagers, metric_names.GC_TIME), _MS_PER_SECOND),
        ScalingMetric.MANAGED_MEMORY_USED: _maximum(taskmanagers, metric_names.MANAGED_USED),
        ScalingMetric.METASPACE_MEMORY_USED: _maximum(taskmanagers, metric_names.METASPACE_USED),
    }
    if heap_used is not None and heap_max is not None:
        values[ScalingMetric.HEAP_MEMORY_USED] = heap_used
        values[ScalingMetric.HEAP_MAX_USAGE_RATIO] = _scaled(heap_used, heap_max)
    return {metric: value for metric, value in values.items() if value is not None}


def base_taskmanager_metrics(cluster: ClusterReading) -> Mapping[str, Aggregate]:
    """Return the TaskManager metrics without garbage collection, from whichever answer has them."""
    if cluster.taskmanagers:
        return {name: value for name, value in cluster.taskmanagers.items() if name != metric_names.GC_TIME}
    return cluster.taskmanagers_without_gc


def _maximum(taskmanagers: Mapping[str, Aggregate], name: str) -> float | None:
    aggregate = taskmanagers.get(name)
    return None if aggregate is None else aggregate.maximum


def _scaled(value: float | None, divisor: float) -> float | None:
    if value is None:
        return None
    return value / divisor if divisor else NAN if value == 0 else math.copysign(INFINITY, value)


def _slots_used(jobmanager: Mapping[str, str]) -> float | None:
    total, available = (jobmanager.get(name) for name in metric_names.JOBMANAGER_METRICS)
    if total is None or available is None:
        return None
    try:
        return float(total) - float(available)
    except ValueError:
        return None
