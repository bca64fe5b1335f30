"""From the metric window to evaluated metrics: rates, targets, capacities and thresholds per vertex.

Flink counts what a vertex sends over all its edges together, each record once per edge, and also records that no edge
takes, such as the main output of a vertex of which only a side output is connected. What it receives is counted where
it arrives. So the receiver says how much there is, and what the senders say only divides it between them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise
from typing import Final, NamedTuple

from flink_autoscaler.core.errors import EvaluationError
from flink_autoscaler.core.evaluate.custom import Customize
from flink_autoscaler.core.memoize import memoize_last
from flink_autoscaler.core.model.metrics import (
    EvaluatedMetric,
    EvaluatedMetrics,
    EvaluatedVertex,
    FlinkMetric,
    MetricSample,
    ScalingMetric,
    VertexId,
    VertexMetrics,
    made,
)
from flink_autoscaler.core.model.numbers import INFINITY, NAN, divide, r3, round64, rounded
from flink_autoscaler.core.model.reading import JobReading
from flink_autoscaler.core.model.state import HistoryEntry, ScalingHistory
from flink_autoscaler.core.model.topology import JobTopology, Vertex
from flink_autoscaler.core.model.value import replace, value
from flink_autoscaler.core.observe.window import MetricWindow, NonBusyShares, mean_of, non_busy_shares, window_of
from flink_autoscaler.core.options.job import AutoscalerOptions, BusyTimeAggregator


@dataclass(frozen=True, slots=True)
class ExternalRates:
    """By source, where known.

    Attributes:
        arrivals: Records/s that arrive.
        slowest: Records that wait in the partition with most of them.
    """

    arrivals: Mapping[VertexId, float] = field(default_factory=dict)
    slowest: Mapping[VertexId, float] = field(default_factory=dict)

    @classmethod
    def of(cls, reading: JobReading) -> ExternalRates:
        """Take them from a reading."""
        if not reading.origins:
            return NOTHING_OUTSIDE
        return cls(_totals(reading, FlinkMetric.ARRIVAL_RATE), _totals(reading, FlinkMetric.SLOWEST_PARTITION))


NOTHING_OUTSIDE: Final = ExternalRates()


def _totals(reading: JobReading, metric: FlinkMetric) -> dict[VertexId, float]:
    given = {v: values[metric].total for v, values in reading.aggregates.items() if metric in values}
    return {vertex_id: total for vertex_id, total in given.items() if total is not None}


def partition_skew(
    vertex: Vertex, metrics: EvaluatedVertex, most: float, *, catch_up: float, utilization_target: float
) -> float:
    """Return how many times its lag a source has to be sized for, so that its slowest partition is caught up in time.

    A subtask takes whole partitions. That with the slowest one has, at parallelism ``p``, ``P/p - 1`` others of ``P``,
    with the mean lag ``m`` of those: it is done in time when all subtasks together are sized for a lag of
    ``E(p) = P m + p (most - m)``. The least such ``p`` is where ``p`` subtasks do just what arrives and ``E(p)`` in
    time. Sizing for ``P`` times the slowest partition takes a third more subtasks and is hardly sooner done (decision
    44).

    Args:
        vertex: The source, with its partitions.
        metrics: Its lag, target rate and true processing rate.
        most: Records that wait in its slowest partition.
        catch_up: Seconds in which a backlog should be gone.
        utilization_target: Share of the capacity that what arrives may take.

    Returns:
        At least 1; 1 where nothing waits or partitions are not told apart.
    """
    lag, count = metrics[ScalingMetric.LAG].current, vertex.source_partitions
    if count <= 1 or catch_up <= 0 or not 0 < lag < math.inf:
        return 1.0
    mean = max(0.0, lag - most) / (count - 1)
    above = max(0.0, most - mean)
    rate = metrics[ScalingMetric.TRUE_PROCESSING_RATE].average / vertex.working_subtasks
    arriving = metrics[ScalingMetric.TARGET_DATA_RATE].average / max(utilization_target, 1e-9)
    # What has to be done, and what is left of each subtask to do it with; the present ones where that is unknown.
    needed, left, subtasks = arriving + count * mean / catch_up, rate - above / catch_up, float(vertex.working_subtasks)
    if not (math.isnan(needed) or math.isnan(left)):
        subtasks = needed / left if left > 0 else math.inf
    return max(1.0, (count * mean + min(max(1.0, subtasks), count) * above) / lag)


def scaled_metric(metric: EvaluatedMetric, factor: float) -> EvaluatedMetric:
    """Return a metric with a value that is so many times as large."""
    return metric if factor == 1.0 else EvaluatedMetric(r3(metric.current * factor), metric.average)


class Sender(NamedTuple):
    """A vertex that feeds another one.

    Attributes:
        sent: Records, or records/s, along all its edges together; NaN when unknown.
        edges: Vertices that it feeds.
    """

    sent: float
    edges: int


def edge_rates(received: float, senders: Mapping[VertexId, Sender]) -> dict[VertexId, float]:
    """Divide what a vertex received between the vertices that feed it.

    What a sender with no other edge sent can only have come here, and is taken first. The rest is shared out between
    the others in proportion to what they sent per edge.

    Args:
        received: Records, or records/s, of the vertex; NaN when unknown.
        senders: What feeds it, in the same unit.

    Returns:
        By sender, none negative, in sum what was received; all NaN where that, or one of several senders, is unknown or
        has gone back.
    """
    if not 0.0 <= received < math.inf:
        return dict.fromkeys(senders, NAN)
    if len(senders) <= 1 or received == 0.0:
        return dict.fromkeys(senders, received)
    if not all(0.0 <= each.sent < math.inf for each in senders.values()):
        return dict.fromkeys(senders, NAN)
    parts = {v: each.sent for v, each in senders.items() if each.edges == 1}
    shared = {v: each.sent / each.edges for v, each in senders.items() if each.edges != 1}
    rest = max(0.0, received - sum(parts.values()))
    parts |= _scale_to_total(shared, rest)
    # Counters of two vertices are of two instants, so the parts never add up exactly by themselves.
    return _scale_to_total(parts, received) if any(parts.values()) else dict.fromkeys(senders, received / len(senders))


def _scale_to_total(parts: Mapping[VertexId, float], total: float) -> dict[VertexId, float]:
    """Return parts of the same proportions that add up to a total; zeros stay."""
    greatest = max(parts.values(), default=0.0)
    if greatest == 0.0:
        return dict(parts)
    # By the greatest first: the sum of the parts themselves may overflow.
    shares = {v: part / greatest for v, part in parts.items()}
    whole = sum(shares.values())
    return {v: total * (share / whole) for v, share in shares.items()}


_GLOBAL_LATEST = (ScalingMetric.GC_PRESSURE, ScalingMetric.NUM_TASK_SLOTS_USED)
_GLOBAL_AVERAGES = (
    ScalingMetric.HEAP_MAX_USAGE_RATIO,
    ScalingMetric.HEAP_MEMORY_USED,
    ScalingMetric.MANAGED_MEMORY_USED,
    ScalingMetric.METASPACE_MEMORY_USED,
)
_UNKNOWN: Final = EvaluatedMetric(NAN, NAN)
_NO_HISTORY: Final[ScalingHistory] = {}


@value
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
    is_improved: bool
    utilization_target: float = 1.0

    @classmethod
    def of(cls, options: AutoscalerOptions, restart_time: int) -> EvaluationSettings:
        """Read the options of a job."""
        usual = options.derive(cls._usual)
        return usual if restart_time == 0 else replace(usual, restart_time=restart_time)

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
            is_improved=options.is_improved,
            utilization_target=target,
        )


def evaluate(
    topology: JobTopology,
    samples: Sequence[MetricSample],
    settings: EvaluationSettings,
    customize: Customize | None = None,
    outside: ExternalRates = NOTHING_OUTSIDE,
    history: ScalingHistory = _NO_HISTORY,
) -> EvaluatedMetrics:
    """Evaluate all vertices, inputs before outputs.

    Args:
        topology: The job graph.
        samples: At least two samples, oldest first.
        settings: Option values.
        customize: Changes the metrics of a vertex before those behind it are evaluated.
        outside: What others than Flink said in this pass.
        history: Past decisions.

    Returns:
        Evaluated metrics of every vertex, without recommendations, and of the cluster.

    Raises:
        EvaluationError: A source has no ingestion rate.
    """
    window = window_of(samples)
    has_backlog = is_processing_backlog(topology, window, settings)
    settings = with_saturation_bounds(settings, topology, window)
    vertices: dict[VertexId, EvaluatedVertex] = {}
    flows: dict[VertexId, EvaluatedVertex] = {}  # what goes on to the vertices behind
    for vertex_id, vertex in topology.vertices.items():
        metrics = _fixed_metrics(vertex.parallelism, vertex.max_parallelism, vertex.source_partitions).copy()
        lag = window.latest(ScalingMetric.LAG, vertex_id)
        target, catch_up = _target_rates(vertex, topology, window, flows, settings, outside.arrivals)
        load, rate = _processing_rate(vertex, window, settings)
        if settings.is_improved and vertex.is_source:
            before = _earlier_capacity(vertex, window, history[vertex_id]) if vertex_id in history else INFINITY
            rate = min(rate, observed_capacity(vertex_id, topology, window), before)
        target, catch_up, load, rate, shown_lag = rounded((target, catch_up, load, rate, NAN if lag is None else lag))
        if lag is not None:
            metrics[ScalingMetric.LAG] = made((shown_lag, NAN))
        metrics |= {
            ScalingMetric.TARGET_DATA_RATE: made((NAN, target)),
            ScalingMetric.CATCH_UP_DATA_RATE: made((catch_up, NAN)),
            ScalingMetric.LOAD: made((NAN, load)),
            ScalingMetric.TRUE_PROCESSING_RATE: made((NAN, rate)),
        }
        skew = 1.0
        if vertex_id in outside.slowest and lag is not None:
            slowest, utilization = outside.slowest[vertex_id], settings.utilization_target
            skew = partition_skew(vertex, metrics, slowest, catch_up=settings.catch_up, utilization_target=utilization)
            metrics[ScalingMetric.CATCH_UP_DATA_RATE] = scaled_metric(metrics[ScalingMetric.CATCH_UP_DATA_RATE], skew)
        metrics |= rate_thresholds(metrics, settings, has_backlog=has_backlog)
        if customize is not None:
            changes = customize(vertex_id, metrics, vertices, has_backlog)
            metrics = _apply_custom_metrics(metrics, changes, settings, has_backlog=has_backlog)
        vertices[vertex_id] = flows[vertex_id] = metrics
        if skew != 1.0:
            even = scaled_metric(metrics[ScalingMetric.CATCH_UP_DATA_RATE], 1.0 / skew)
            flows[vertex_id] = {**metrics, ScalingMetric.CATCH_UP_DATA_RATE: even}
    return EvaluatedMetrics(vertices, _evaluate_globals(*[sample.globals_ for sample in samples]))


def with_saturation_bounds(
    settings: EvaluationSettings, topology: JobTopology, window: MetricWindow
) -> EvaluationSettings:
    """Return the settings with which a job is evaluated: the bounds are others where a source is held back."""
    if not (settings.is_improved and saturated_sources(topology, window)):
        return settings
    # What arrives is not known, only that it is more than is read: full use is not enough, nothing is too much.
    return replace(settings, utilization_max=settings.utilization_target, utilization_min=0.0)


def _apply_custom_metrics(
    metrics: dict[ScalingMetric, EvaluatedMetric],
    changes: EvaluatedVertex,
    settings: EvaluationSettings,
    *,
    has_backlog: bool,
) -> dict[ScalingMetric, EvaluatedMetric]:
    """Merge what a custom evaluator returned; thresholds follow the changed rates unless it set them itself."""
    merged = merge(metrics, changes)
    if changes and settings.is_improved:
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


def is_processing_backlog(topology: JobTopology, window: MetricWindow, settings: EvaluationSettings) -> bool:
    """Tell whether some source has more lag than the threshold, in seconds of its input."""
    for vertex_id, vertex in topology.vertices.items():
        if not vertex.is_source:
            continue
        lag = window.latest(ScalingMetric.LAG, vertex_id) or 0.0
        growth = window.rate(ScalingMetric.LAG, vertex_id)
        if settings.is_improved and is_residual(lag, growth, vertex.source_partitions):
            continue
        rate = window.rate(ScalingMetric.NUM_RECORDS_IN, vertex_id)
        if not math.isnan(rate) and divide(lag, rate) > settings.backlog_threshold:
            return True
    return False


def is_residual(lag: float, growth: float, partitions: int) -> bool:
    """Tell whether a lag is what is left when all has been read, and no backlog.

    A marker of a transaction takes an offset as a record does but is never read, so that each partition may seem to
    keep one record for ever.

    Args:
        lag: Records.
        growth: Of the lag, records/s; NaN where that is not known.
        partitions: Of the source; 0 when unknown.
    """
    return lag <= max(1, partitions) and growth < STANDING


STANDING: Final = 1.0 / 3600.0
"""Records/s below which a lag stands still: slopes are not exact."""
MIN_GROWTH: Final = 0.05
"""Records by which lag grows per record read, from which on it shows that a source is at its limit: below, what is on
its way grows with the load."""
WAITING: Final = 0.5
"""Share of time that a source waits for records, above which neither its work nor backpressure is what limits it."""
HELD_BACK: Final = 0.5
"""Share of time that a source of unknown lag is backpressured, from which on it falls behind if it never waits."""
NEVER_WAITS: Final = 0.1
"""Share of time that a source waits for records, up to which there always are some."""
_MIN_LAGS: Final = 3


def observed_capacity(vertex_id: VertexId, topology: JobTopology, window: MetricWindow) -> float:
    """Return the records/s that a source shows to be all that it can read; infinite where it shows nothing.

    Lag that grows all through the window while the source is neither busy nor backpressured is due to what busy time
    does not count: slow fetchers, or the quota of a broker. Not where another source is at its limit: this one may
    have to wait for it (watermark alignment).
    """
    rate, growth = window.rate(ScalingMetric.NUM_RECORDS_IN, vertex_id), window.rate(ScalingMetric.LAG, vertex_id)
    is_falling_behind = rate > 0 and growth > MIN_GROWTH * rate
    if not (is_falling_behind and grows_throughout(window.values(ScalingMetric.LAG, vertex_id))):
        return INFINITY
    sources = (v for v, vertex in topology.vertices.items() if vertex.is_source and not vertex.is_finished)
    return rate if all(_is_waiting(v, window) for v in sources) else INFINITY


def _earlier_capacity(vertex: Vertex, window: MetricWindow, entries: Sequence[HistoryEntry]) -> float:
    """Return the records/s that a source showed to be its limit before it was scaled up; infinite where it did not.

    Once it keeps pace it looks as idle as before: without the memory it would be made as small as it was. It may have
    become faster since, so what it reads now counts as well.
    """
    for entry in reversed(entries):
        before, metrics = entry.summary.current, entry.summary.metrics
        load, rate, target = (metrics.get(metric, _UNKNOWN).average for metric in _SHOWING)
        if load < WAITING and 0 < rate < target:
            read = window.rate(ScalingMetric.NUM_RECORDS_IN, vertex.vertex_id)
            return max(rate / before * vertex.parallelism, 0.0 if math.isnan(read) else read)
    return INFINITY


_SHOWING: Final = (ScalingMetric.LOAD, ScalingMetric.TRUE_PROCESSING_RATE, ScalingMetric.TARGET_DATA_RATE)


def _is_waiting(vertex_id: VertexId, window: MetricWindow) -> bool:
    """Tell whether a source waits for records most of the time, also its busiest subtask."""
    shares = non_busy_shares(window, vertex_id)
    is_idle = shares is not None and shares.idle > WAITING
    return is_idle and window.average(ScalingMetric.LOAD, vertex_id) < WAITING


def grows_throughout(lags: Sequence[float]) -> bool:
    """Tell whether a lag grows in both halves of a window and hardly falls between; NaN is left out.

    A burst, the commit of a transaction or one wrong answer makes a step, which is no growth.
    """
    known = [lag for lag in lags if math.isfinite(lag)]
    if len(known) < _MIN_LAGS:
        return False
    total, middle = known[-1] - known[0], known[len(known) // 2]
    least = total / 4
    is_even = middle - known[0] >= least and known[-1] - middle >= least
    return total > 0 and is_even and all(later - earlier >= -total / 10 for earlier, later in pairwise(known))


def saturated_sources(topology: JobTopology, window: MetricWindow) -> tuple[Vertex, ...]:
    """Return the sources of unknown lag that fall behind: backpressured, and with something to read all the time."""
    found = []
    for v, vertex in topology.vertices.items():
        is_blind = vertex.is_source and not vertex.is_finished and math.isnan(window.average(ScalingMetric.LAG, v))
        if is_blind and is_saturated(non_busy_shares(window, v)):
            found.append(vertex)
    return tuple(found)


def is_saturated(shares: NonBusyShares | None) -> bool:
    """Tell whether a source is backpressured and hardly ever waits for records; one of which it is unknown is not."""
    return shares is not None and shares.backpressured >= HELD_BACK and shares.idle <= NEVER_WAITS


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
        return _source_rates(vertex.vertex_id, window, settings, arriving)
    target, catch_up = 0.0, 0.0
    ratios = output_ratios(topology, window, vertex, is_strict=settings.is_improved, is_balanced=settings.is_improved)
    for upstream, ratio in ratios.items():
        target += evaluated[upstream][ScalingMetric.TARGET_DATA_RATE].average * ratio
        catch_up += evaluated[upstream][ScalingMetric.CATCH_UP_DATA_RATE].current * ratio
    return target, catch_up


def _source_rates(
    vertex_id: VertexId, window: MetricWindow, settings: EvaluationSettings, arriving: float | None
) -> tuple[float, float]:
    lag, growth = window.latest(ScalingMetric.LAG, vertex_id) or 0.0, window.rate(ScalingMetric.LAG, vertex_id)
    if settings.is_improved:  # a lag that nobody tells leaves what is read as the least that arrives
        lag, growth = 0.0 if math.isnan(lag) else lag, 0.0 if math.isnan(growth) else growth
    ingest = arriving
    if ingest is None:
        ingest = window.rate(ScalingMetric.NUM_RECORDS_IN, vertex_id) + growth
    if math.isnan(ingest):
        raise EvaluationError(f"source {vertex_id}: no ingestion rate in the metric window")
    return max(0.0, ingest), 0.0 if settings.catch_up == 0 else lag / settings.catch_up


def output_ratios(
    topology: JobTopology, window: MetricWindow, vertex: Vertex, *, is_strict: bool, is_balanced: bool
) -> dict[VertexId, float]:
    """Return records that travel along each edge into a vertex per record that the upstream vertex receives.

    Args:
        topology: The job graph.
        window: The metric window.
        vertex: The downstream vertex.
        is_strict: A ratio that cannot be known is NaN instead of 0.
        is_balanced: What comes along the edges adds up to what the vertex received; in the reference it need not.

    Returns:
        By upstream vertex.
    """
    if not vertex.inputs:
        return {}
    if is_balanced:
        senders = {}
        for upstream in vertex.inputs:
            sender = topology.vertices[upstream]
            # The counters of a finished vertex go back to 0, which would leave the others unknown for a whole window.
            sent = 0.0 if sender.is_finished else window.rate(ScalingMetric.NUM_RECORDS_OUT, upstream)
            senders[upstream] = Sender(sent, len(sender.outputs))
        rates = edge_rates(window.rate(ScalingMetric.NUM_RECORDS_IN, vertex.vertex_id), senders)
    else:
        rates = _reference_edge_rates(topology, window, vertex)
    ratios = {}
    for upstream, sent in rates.items():
        received = window.rate(ScalingMetric.NUM_RECORDS_IN, upstream)
        is_known = received == received and sent == sent  # noqa: PLR0124 - neither is NaN
        ratios[upstream] = NAN if is_strict and not is_known else sent / received if received > 0 and sent > 0 else 0.0
    return ratios


def _reference_edge_rates(topology: JobTopology, window: MetricWindow, vertex: Vertex) -> dict[VertexId, float]:
    """Return records/s along the edges, each from the receiver where that tells, else from the sender."""
    received = window.rate(ScalingMetric.NUM_RECORDS_IN, vertex.vertex_id)
    if len(vertex.inputs) == 1:
        return dict.fromkeys(vertex.inputs, received)
    rates = {}
    for upstream in vertex.inputs:
        others = [v for v in vertex.inputs if v != upstream]
        elsewhere = NAN
        if all(len(topology.vertices[v].outputs) == 1 for v in others):
            elsewhere = sum(window.rate(ScalingMetric.NUM_RECORDS_OUT, v) for v in others)
        sent = window.rate(ScalingMetric.NUM_RECORDS_OUT, upstream)
        rates[upstream] = sent if math.isnan(elsewhere) else received - elsewhere
    return rates


def _processing_rate(vertex: Vertex, window: MetricWindow, settings: EvaluationSettings) -> tuple[float, float]:
    """Return the busy share of a vertex, and its true processing rate."""
    vertex_id = vertex.vertex_id
    rate_in = window.rate(ScalingMetric.NUM_RECORDS_IN, vertex_id)
    if settings.aggregator is BusyTimeAggregator.AVG:
        busy_ms = window.rate(ScalingMetric.ACCUMULATED_BUSY_TIME, vertex_id) / vertex.working_subtasks
    else:
        busy_ms = window.average(ScalingMetric.LOAD, vertex_id) * 1000
        measured = window.average(ScalingMetric.NUM_RECORDS_IN_PER_SECOND, vertex_id)
        rate_in = measured if math.isfinite(measured) else rate_in  # of the same instants as the busy time
    if settings.is_improved and busy_ms < 0:
        busy_ms = 0.0
    from_busy_time = INFINITY if rate_in == 0 else divide(rate_in, busy_ms / 1000)
    if not vertex.is_source:  # only sources can tell what they could read
        return busy_ms / 1000, from_busy_time
    observed = window.average(ScalingMetric.OBSERVED_TPR, vertex_id, settings.min_observations)
    return busy_ms / 1000, true_processing_rate(from_busy_time, observed, settings.switch_threshold)


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
    """Return the edges of the band in which the true processing rate calls for no rescale."""
    upper, lower = (1.0, 0.0) if has_backlog else (settings.utilization_max, settings.utilization_min)
    scale_up = target_capacity(metrics, upper, catch_up=settings.catch_up)
    scale_down = target_capacity(metrics, lower, catch_up=settings.catch_up, restart_time=settings.restart_time)
    return {  # whole numbers need no rounding
        ScalingMetric.SCALE_UP_RATE_THRESHOLD: made((scale_up, NAN)),
        ScalingMetric.SCALE_DOWN_RATE_THRESHOLD: made((scale_down, NAN)),
    }


@memoize_last
def _evaluate_globals(*samples: VertexMetrics) -> dict[ScalingMetric, EvaluatedMetric]:
    """Evaluate the cluster-wide metrics of a window; the windows of all jobs of a cluster have the same."""
    found = dict.fromkeys((*_GLOBAL_LATEST, *_GLOBAL_AVERAGES), _UNKNOWN)
    for metric in found:
        known = [sample[metric] for sample in samples if metric in sample]
        if known:
            average = mean_of(known, 1) if metric in _GLOBAL_AVERAGES else NAN
            found[metric] = EvaluatedMetric(*rounded((samples[-1].get(metric, NAN), average)))
    return found


def with_present_parallelism(metrics: EvaluatedMetrics) -> EvaluatedMetrics:
    """Recommend to every vertex the parallelism it has; where a decision begins."""
    vertices = {
        vertex_id: {**vertex, ScalingMetric.RECOMMENDED_PARALLELISM: vertex[ScalingMetric.PARALLELISM]}
        for vertex_id, vertex in metrics.vertices.items()
    }
    return EvaluatedMetrics(vertices, metrics.globals_)
