"""What policies are shown: a job, its past rescales and what the next one is expected to cost, from one pass."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, overload

from flink_autoscaler.core.evaluate.downtime import (
    checkpoint_interval,
    checkpoints_of,
    expected_outage,
    rescales_of,
    state_bytes,
)
from flink_autoscaler.core.evaluate.evaluation import output_ratios
from flink_autoscaler.core.model.job import JobStatus
from flink_autoscaler.core.model.metrics import (
    Aggregate,
    FlinkMetric,
    MetricSample,
    ScalingMetric,
    VertexId,
    VertexMetrics,
)
from flink_autoscaler.core.model.policy_values import (
    LATEST_SAMPLES,
    JobObservation,
    JobSample,
    PastRescale,
    PolicyInput,
    VertexObs,
    VertexSample,
)
from flink_autoscaler.core.model.supervision import RescaleRecord
from flink_autoscaler.core.model.topology import ShipStrategy, Vertex
from flink_autoscaler.core.observe import metric_names
from flink_autoscaler.core.observe.plausibility import of_working_subtasks
from flink_autoscaler.core.observe.window import non_busy_shares, window_of
from flink_autoscaler.core.policies.base.quantities import slope_of
from flink_autoscaler.core.policies.base.sizing import SizingSettings, limits_of
from flink_autoscaler.core.ports.passes import EvaluatedJob

_MS: Final = 1000.0
_MIN_FOR_SLOPE: Final = 2


def policy_input(job: EvaluatedJob) -> PolicyInput:
    """Return what policies are shown, without what a policy remembers."""
    return PolicyInput(
        obs=build_observation(job),
        history=tuple(_past(record) for record in rescales_of(job.state.supervision)),
        demand=job.demand,
        downtime=job.outage or expected_outage(job),
        config=job.context.configuration,
        samples=LatestSamples(job),
        is_window_full=job.is_window_full,
        profiles=job.profiles,
    )


class LatestSamples(Sequence[JobSample]):
    """The latest samples of the present execution, oldest first; vertices that have finished are left out.

    Each is made when somebody looks at it: most policies look at none, and others at the last one.
    """

    def __init__(self, job: EvaluatedJob) -> None:
        details = job.reading.details
        began_ms = details.running_at_ms if details else None
        self._job = job
        self._began = (began_ms or 0) / _MS
        self._samples = () if began_ms is None else job.state.samples[-LATEST_SAMPLES:]

    def __len__(self) -> int:
        return len(self._samples)

    @overload
    def __getitem__(self, index: int) -> JobSample: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[JobSample, ...]: ...
    def __getitem__(self, index: int | slice) -> JobSample | tuple[JobSample, ...]:
        if isinstance(index, slice):
            return tuple(self._convert(sample) for sample in self._samples[index])
        return self._convert(self._samples[index])

    def _convert(self, sample: MetricSample) -> JobSample:
        vertices = {v: vertex for v, vertex in self._job.topology.vertices.items() if not vertex.is_finished}
        sampled = {
            v: _vertex_sample(vertex, sample, tells=reports_lag(self._job, vertex)) for v, vertex in vertices.items()
        }
        return JobSample(at=sample.at_ms / _MS, began_at=self._began, vertices=sampled)


def _vertex_sample(vertex: Vertex, sample: MetricSample, *, tells: bool) -> VertexSample:
    values, waited_ms = sample.vertices.get(vertex.vertex_id, {}), sample.waited.get(vertex.vertex_id)
    return VertexSample(
        parallelism=vertex.working_subtasks,
        records_in=_counter_value(values, ScalingMetric.NUM_RECORDS_IN),
        records_out=_counter_value(values, ScalingMetric.NUM_RECORDS_OUT),
        pending=_counter_value(values, ScalingMetric.LAG) if tells else None,
        busy=_share(values.get(ScalingMetric.LOAD, math.nan)),
        busy_ms=_counter_value(values, ScalingMetric.ACCUMULATED_BUSY_TIME),
        idle_ms=waited_ms.idle_ms if waited_ms else None,
        backpressured_ms=waited_ms.backpressured_ms if waited_ms else None,
        is_complete=vertex.vertex_id not in sample.incomplete,
    )


def _counter_value(values: VertexMetrics, metric: ScalingMetric) -> float | None:
    value = values.get(metric, math.nan)
    return value if 0 <= value < math.inf else None


def reports_lag(job: EvaluatedJob, vertex: Vertex) -> bool:
    """Tell whether a source reports its backlog; one that does not has a backlog of 0 in the samples."""
    answers = job.reading.aggregates.get(vertex.vertex_id)
    return vertex.is_source and (answers is None or FlinkMetric.PENDING_RECORDS in answers)


def build_observation(job: EvaluatedJob) -> JobObservation:
    """Return the observation of a job; vertices that have finished are left out."""
    samples, details, capacity = job.state.samples, job.reading.details, job.context.capacity
    seen, checkpoints, globals_ = ObservationBuilder(job), checkpoints_of(job), job.metrics.globals_
    total, free = _slots(job)
    return JobObservation(
        job_key=job.context.job_key,
        job_id=job.context.job_id or "",
        now=job.now_ms / _MS,
        status=job.context.status,
        all_tasks_running=job.context.status is JobStatus.RUNNING if details is None else details.is_settled,
        window=(samples[0].at_ms / _MS, samples[-1].at_ms / _MS),
        vertices={vertex_id: seen.vertex(vertex) for vertex_id, vertex in seen.running.items()},
        edges=seen.edges,
        slot_groups=job.topology.slot_sharing_groups,
        slots_total=total,
        slots_free=free,
        slots_per_tm=capacity.slots_per_taskmanager if capacity else None,
        tm_count=capacity.taskmanagers if capacity else None,
        state_bytes=state_bytes(job),
        checkpoint_interval=checkpoint_interval(job),
        last_checkpoint_at=_seconds(checkpoints.completed_ms if checkpoints else None),
        gc_pressure=_finite_or_none(globals_[ScalingMetric.GC_PRESSURE].current),
        heap_usage=_finite_or_none(globals_[ScalingMetric.HEAP_MAX_USAGE_RATIO].average),
        last_rescale_at=_last_rescale_at(job),
        last_restart_at=_seconds(details.running_at_ms if details else None),
    )


def _past(record: RescaleRecord) -> PastRescale:
    return PastRescale(
        at=record.decided_ms / _MS,
        before=record.before,
        after=record.reached or record.target,
        outage=_seconds(record.outage_ms),
    )


def _last_rescale_at(job: EvaluatedJob) -> float | None:
    decided = [record.decided_ms for record in rescales_of(job.state.supervision)]
    return _seconds(max(decided or [record.at_ms for record in job.state.tracking], default=None))


def _slots(job: EvaluatedJob) -> tuple[int | None, int | None]:
    """Return all slots of the cluster and those that are free."""
    if job.context.capacity is not None:
        return job.context.capacity.slots, job.context.capacity.free_slots
    total, free = (job.cluster.jobmanager.get(name, "") for name in metric_names.JOBMANAGER_METRICS)
    return (int(total), int(free)) if total.isdecimal() and free.isdecimal() else (None, None)


def _seconds(milliseconds: int | None) -> float | None:
    return None if milliseconds is None else milliseconds / _MS


class ObservationBuilder:
    """The vertices of a job over its metric window.

    Attributes:
        running: Those that have not finished.
        edges: Records out per record in between those, where both are known.
    """

    def __init__(self, job: EvaluatedJob) -> None:
        options = job.context.options
        self._job = job
        self._window = window_of(job.state.samples)
        self._sizing = SizingSettings.of_job(job)
        self._is_improved = options.is_improved
        self.running = {v: vertex for v, vertex in job.topology.vertices.items() if not vertex.is_finished}
        self.edges = {
            (upstream, v): ratio
            for v, vertex in self.running.items()
            for upstream, ratio in output_ratios(
                job.topology, self._window, vertex, is_strict=True, is_balanced=self._is_improved
            ).items()
            if upstream in self.running and math.isfinite(ratio)
        }

    def vertex(self, vertex: Vertex) -> VertexObs:
        """Return what is known about one vertex."""
        vertex_id, metrics = vertex.vertex_id, self._job.metrics.vertices[vertex.vertex_id]
        least, most = self._bounds(vertex)
        rate_in, waiting = (
            self._rate_in(vertex_id),
            non_busy_shares(self._window, vertex_id, vertex.working_subtasks / vertex.parallelism),
        )
        return VertexObs(
            vertex_id=vertex_id,
            name=vertex.name,
            is_source=vertex.is_source,
            parallelism=vertex.working_subtasks,
            min_parallelism=least,
            max_parallelism=most,
            rate_in=rate_in,
            rate_out=self._rate_out(vertex, rate_in),
            target_rate=_finite_or_none(metrics[ScalingMetric.TARGET_DATA_RATE].average),
            true_rate=_positive(metrics[ScalingMetric.TRUE_PROCESSING_RATE].average),
            busy=_share(metrics[ScalingMetric.LOAD].average),
            busy_mean=self._busy_mean(vertex),
            idle=waiting.idle if waiting else None,
            backpressured=waiting.backpressured if waiting else None,
            skew=self._skew(vertex),
            lag_records=self._lag(vertex),
            lag_slope=self._lag_slope(vertex),
            lag_to_drain=self._lag_to_drain(vertex),
            complete=self._is_complete(vertex),
            spread=_spread(vertex),
            aligned=self._job.aligned.get(vertex_id),
        )

    def _bounds(self, vertex: Vertex) -> tuple[int, int]:
        """Return the bounds, as wide as what the vertex has; one that is not to be scaled has no room at all."""
        if vertex.vertex_id in self._job.excluded:
            return vertex.working_subtasks, vertex.working_subtasks
        limits = limits_of(vertex, vertex.working_subtasks, self._sizing)
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
        return _share(busy_ms / _MS / vertex.working_subtasks)

    def _skew(self, vertex: Vertex) -> float | None:
        """Return how unevenly the subtasks read, from the aggregates of their rates in this pass."""
        metric = FlinkMetric.SOURCE_RECORDS_IN_RATE if vertex.is_source else FlinkMetric.RECORDS_IN_RATE
        rates = self._job.reading.aggregates.get(vertex.vertex_id, {}).get(metric, Aggregate())
        rates = of_working_subtasks(rates, vertex)
        if rates.maximum is None or not rates.average:
            return None
        skew = _positive(rates.maximum / rates.average)
        return None if skew is None else max(1.0, skew)

    def _lag(self, vertex: Vertex) -> float | None:
        metric = self._job.metrics.vertices[vertex.vertex_id].get(ScalingMetric.LAG)
        return _finite_or_none(metric.current) if metric and reports_lag(self._job, vertex) else None

    def _lag_to_drain(self, vertex: Vertex) -> float | None:
        """Return the lag that the evaluated catch-up rate is for; the lag itself without a time to catch up.

        So it is of a source that is not to be scaled, as while one partition has most of the lag: no size is for it.
        """
        lag, catch_up = self._lag(vertex), self._job.context.options.catch_up_duration.seconds
        if lag is None or catch_up == 0 or vertex.vertex_id in self._job.excluded:
            return lag
        rate = _finite_or_none(self._job.metrics.vertices[vertex.vertex_id][ScalingMetric.CATCH_UP_DATA_RATE].current)
        is_told_apart = FlinkMetric.SLOWEST_PARTITION in self._job.reading.aggregates.get(vertex.vertex_id, {})
        return lag if rate is None or not is_told_apart else max(lag, rate * catch_up)

    def _lag_slope(self, vertex: Vertex) -> float | None:
        if not reports_lag(self._job, vertex):
            return None
        instants = [sample.at_ms / _MS for sample in self._window.samples]
        lags = self._window.values(ScalingMetric.LAG, vertex.vertex_id)
        known = [(at, lag) for at, lag in zip(instants, lags, strict=True) if math.isfinite(lag)]
        if len(known) < _MIN_FOR_SLOPE:
            return None
        return slope_of(known, instants[-1] - instants[0])

    def _is_complete(self, vertex: Vertex) -> bool:
        """Tell whether the counters of a vertex can be believed, and all that arrives at it is known.

        Where incomplete counters are unknown, earlier ones do no harm; else they are too low.
        """
        samples = self._window.samples[-1:] if self._is_improved else self._window.samples
        is_counted = not any(vertex.vertex_id in sample.incomplete for sample in samples)
        return is_counted and all((upstream, vertex.vertex_id) in self.edges for upstream in self._inputs(vertex))


def _spread(vertex: Vertex) -> int | None:
    """Return the key groups or partitions that are spread over the subtasks; None where none are."""
    if vertex.source_partitions > 0:
        return vertex.source_partitions
    return vertex.max_parallelism if ShipStrategy.HASH in vertex.inputs.values() else None


def _finite_or_none(value: float) -> float | None:
    """Return a number; None for one that is not finite."""
    return value if math.isfinite(value) else None


def _positive(value: float) -> float | None:
    return value if 0 < value < math.inf else None


def _share(value: float) -> float | None:
    """Return a share of time; that of a counter which went back is not known."""
    return min(value, 1.0) if math.isfinite(value) and value >= 0 else None
