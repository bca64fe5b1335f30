"""What policies are shown: a job, its past rescales and what the next one is expected to cost, from one pass."""

from __future__ import annotations

import math
from typing import Final

from flink_autoscaler.core import metric_names
from flink_autoscaler.core.decision_run import ExecutionInput
from flink_autoscaler.core.downtime import Size, estimate_downtime
from flink_autoscaler.core.evaluation import output_ratio
from flink_autoscaler.core.job import Capacity, JobStatus
from flink_autoscaler.core.metrics import FlinkMetric, ScalingMetric, VertexId
from flink_autoscaler.core.parallelism import SizingSettings, limits_of
from flink_autoscaler.core.policies.lag_trend import slope_of
from flink_autoscaler.core.policies.values import JobObservation, Outage, PastRescale, PolicyInput, VertexObs
from flink_autoscaler.core.rescale_facts import CheckpointFacts
from flink_autoscaler.core.supervision import Mechanism, RescaleRecord, Stage
from flink_autoscaler.core.topology import Vertex
from flink_autoscaler.core.window import MetricWindow

_MS: Final = 1000.0
_LEAST_FOR_SLOPE: Final = 2


def policy_input(given: ExecutionInput) -> PolicyInput:
    """Return what policies are shown, without what a policy remembers."""
    return PolicyInput(
        obs=observed_job(given),
        history=tuple(_past(record) for record in _done(given)),
        demand=given.demand,
        downtime=expected_outage(given),
        config=given.context.configuration,
    )


def observed_job(given: ExecutionInput) -> JobObservation:
    """Return the observation of a job whose metric window is full; vertices that have finished are left out."""
    samples, details = given.state.samples, given.reading.details
    seen = _Seen(given)
    checkpoints = _checkpoints(given)
    total, free = _slots(given)
    capacity = given.context.capacity
    globals_ = given.metrics.globals_
    is_settled = given.context.status is JobStatus.RUNNING if details is None else details.is_settled
    return JobObservation(
        job_key=given.context.job_key,
        job_id=given.context.job_id or "",
        now=given.now_ms / _MS,
        status=given.context.status,
        all_tasks_running=is_settled,
        window=(samples[0].at_ms / _MS, samples[-1].at_ms / _MS),
        vertices={vertex_id: seen.vertex(vertex) for vertex_id, vertex in seen.running.items()},
        edges=seen.edges,
        slot_groups=given.topology.slot_sharing_groups,
        slots_total=total,
        slots_free=free,
        slots_per_tm=capacity.slots_per_taskmanager if capacity else None,
        tm_count=capacity.taskmanagers if capacity else None,
        state_bytes=_state_bytes(given, checkpoints),
        checkpoint_interval=_checkpoint_interval(given),
        last_checkpoint_at=_seconds(checkpoints.completed_ms if checkpoints else None),
        gc_pressure=_known(globals_[ScalingMetric.GC_PRESSURE].current),
        heap_usage=_known(globals_[ScalingMetric.HEAP_MAX_USAGE_RATIO].average),
        last_rescale_at=_last_rescale_at(given),
        last_restart_at=_seconds(details.running_at_ms if details else None),
    )


class _Seen:
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
        rate_in = self._rate_in(vertex_id)
        return VertexObs(
            vertex_id=vertex_id,
            name=vertex.name,
            is_source=vertex.is_source,
            parallelism=vertex.parallelism,
            min_parallelism=least,
            max_parallelism=most,
            rate_in=rate_in,
            rate_out=self._rate_out(vertex, rate_in),
            target_rate=_known(metrics[ScalingMetric.TARGET_DATA_RATE].average),
            true_rate=_positive(metrics[ScalingMetric.TRUE_PROCESSING_RATE].average),
            busy=_share(metrics[ScalingMetric.LOAD].average),
            busy_mean=self._busy_mean(vertex),
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

    def _lag(self, vertex: Vertex) -> float | None:
        metric = self._given.metrics.vertices[vertex.vertex_id].get(ScalingMetric.LAG)
        return _known(metric.current) if metric and self._tells_lag(vertex) else None

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


def expected_outage(given: ExecutionInput) -> Outage:
    """Return what the next rescale is expected to cost: from measured outages, else the assumed restart time."""
    records = _done(given)
    subtasks = sum(vertex.parallelism for vertex in given.topology.vertices.values())
    machines = next((r.taskmanagers for r in reversed(records) if r.taskmanagers is not None), None)
    size = Size.of(_state_bytes(given, _checkpoints(given)), machines, subtasks)
    estimate = estimate_downtime(records, Mechanism.IN_PLACE, size, now_ms=given.now_ms)
    replay = (_checkpoint_interval(given) or 0.0) / 2
    if not estimate.samples:
        return Outage(given.restart_time, given.restart_time, replay=replay)
    return Outage(estimate.mean, estimate.q90, replay=replay)


def _done(given: ExecutionInput) -> list[RescaleRecord]:
    """Return the rescales of a job, oldest first, without those that the cluster refused."""
    supervision = given.state.supervision
    records = [*supervision.past, *([supervision.current] if supervision.current else [])]
    return [record for record in records if record.stage is not Stage.REFUSED]


def _past(record: RescaleRecord) -> PastRescale:
    return PastRescale(
        at=record.decided_ms / _MS,
        before=record.before,
        after=record.reached or record.target,
        outage=_seconds(record.outage_ms),
    )


def _last_rescale_at(given: ExecutionInput) -> float | None:
    decided = [record.decided_ms for record in _done(given)] or [record.at_ms for record in given.state.tracking]
    return _seconds(max(decided, default=None))


def _checkpoints(given: ExecutionInput) -> CheckpointFacts | None:
    return given.reading.facts.checkpoints if given.reading.facts else None


def _checkpoint_interval(given: ExecutionInput) -> float | None:
    checkpoints, configured = _checkpoints(given), given.context.flink_options.checkpoint_interval
    if checkpoints is not None and checkpoints.interval_ms is not None:
        return checkpoints.interval_ms / _MS
    return None if configured is None else configured.exact_seconds


def _state_bytes(given: ExecutionInput, checkpoints: CheckpointFacts | None) -> int | None:
    """Return the size of the last checkpoint, as it was read now or after an earlier rescale."""
    if checkpoints is not None and checkpoints.state_bytes is not None:
        return checkpoints.state_bytes
    return next((r.state_bytes for r in reversed(_done(given)) if r.state_bytes is not None), None)


def _slots(given: ExecutionInput) -> tuple[int | None, int | None]:
    """Return all slots of the cluster and those that are free."""
    capacity: Capacity | None = given.context.capacity
    if capacity is not None:
        return capacity.slots, capacity.free_slots
    total, free = (given.cluster.jobmanager.get(name, "") for name in metric_names.JOBMANAGER_METRICS)
    return (int(total), int(free)) if total.isdecimal() and free.isdecimal() else (None, None)


def _seconds(milliseconds: int | None) -> float | None:
    return None if milliseconds is None else milliseconds / _MS


def _known(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _positive(value: float) -> float | None:
    return value if 0 < value < math.inf else None


def _share(value: float) -> float | None:
    """Return a share of time; that of a counter which went back is not known."""
    return min(value, 1.0) if math.isfinite(value) and value >= 0 else None
