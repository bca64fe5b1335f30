"""What policies are shown: a job, its past rescales and what the next one is expected to cost, from one pass."""

from __future__ import annotations

from typing import Final

from flink_autoscaler.core.decide.decision_run import ExecutionInput
from flink_autoscaler.core.evaluate.downtime import Size, estimate_downtime
from flink_autoscaler.core.model.job import Capacity, JobStatus
from flink_autoscaler.core.model.metrics import ScalingMetric
from flink_autoscaler.core.model.policy_values import JobObservation, Outage, PastRescale, PolicyInput
from flink_autoscaler.core.model.rescale_facts import CheckpointFacts
from flink_autoscaler.core.model.supervision import Mechanism, RescaleRecord, Stage
from flink_autoscaler.core.observe import metric_names
from flink_autoscaler.core.policies.seen_vertices import SeenVertices, known

_MS: Final = 1000.0


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
    seen = SeenVertices(given)
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
        gc_pressure=known(globals_[ScalingMetric.GC_PRESSURE].current),
        heap_usage=known(globals_[ScalingMetric.HEAP_MAX_USAGE_RATIO].average),
        last_rescale_at=_last_rescale_at(given),
        last_restart_at=_seconds(details.running_at_ms if details else None),
    )


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
