"""How long a job is away for a rescale, learned from its own past and that of its cluster.

Both are quantiles of the newest measured outages: the evaluation makes up for their median, as the reference does for a
restart that is assumed; what weighs a rescale against its cost asks for the median and for what nine in ten stay below.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from statistics import median
from typing import Final, NamedTuple

from flink_autoscaler.core.model.decision import RestartBasis, RestartSource, RestartTime
from flink_autoscaler.core.model.job import JobKey
from flink_autoscaler.core.model.load_profile import upper_quantile
from flink_autoscaler.core.model.policy_values import Outage
from flink_autoscaler.core.model.rescale_facts import CheckpointFacts
from flink_autoscaler.core.model.state import JobState
from flink_autoscaler.core.model.supervision import Mechanism, RescaleRecord, Stage, Supervision, Vector
from flink_autoscaler.core.model.value import replace
from flink_autoscaler.core.observe.observation import is_restart_tracked, restart_time
from flink_autoscaler.core.observe.plausibility import is_possible
from flink_autoscaler.core.options.context import JobAutoScalerContext
from flink_autoscaler.core.options.job import AutoscalerOptions
from flink_autoscaler.core.ports.passes import EvaluatedJob
from flink_autoscaler.core.ports.task_managers import is_reactive

ENOUGH: Final = 3
"""Measured outages of the job, or jobs that were measured, that replace what is configured. One alone may have been an
exception, and of three jobs two have to agree."""

NEWEST: Final = 20
"""Outages of a job that count; older ones tell less about what it is now."""

KEPT: Final = 30
"""Outages that are kept of a cluster, ``ENOUGH`` of each job at most."""


def assumed_restart(state: JobState, elsewhere: Sequence[int], options: AutoscalerOptions) -> RestartTime:
    """Return how long a restart is assumed to take, and what that rests on.

    That is the median of what was measured, rounded up, between ``SHORTEST`` and ``restart.time-tracking.limit``: half
    of all restarts take longer and half of them less, and one that took for ever counts no more than any other.

    Args:
        state: Of the job, with the rescales that were followed.
        elsewhere: Milliseconds that rescales took other jobs of the cluster away, one figure per job. They count until
            the job has ``ENOUGH`` outages of its own, where with it ``ENOUGH`` jobs were measured: then what one of
            them says is never the median, however far it is from the others.
        options: Of the job. ``restart.time-tracking.enabled`` goes before everything else.
    """
    assumed, own = restart_time(state.tracking, options), newest_outages(state.supervision, NEWEST)
    is_enough_elsewhere = len(elsewhere) + bool(own) >= ENOUGH
    others = elsewhere if len(own) < ENOUGH and is_enough_elsewhere else ()
    known = [*own, *others]
    if options.restart_time_tracking or not options.measures_restarts or len(known) < ENOUGH:
        return RestartTime(assumed, RestartBasis(_fallback_source(state, options), len(own), len(others)))
    source = RestartSource.MEASURED_OF_CLUSTER if others else RestartSource.MEASURED_OF_JOB
    seconds = max(int(SHORTEST), min(math.ceil(median(known) / 1000), options.restart_time_limit.seconds))
    return RestartTime(seconds, RestartBasis(source, len(own), len(others)))


def _fallback_source(state: JobState, options: AutoscalerOptions) -> RestartSource:
    is_tracked = options.restart_time_tracking and is_restart_tracked(state.tracking)
    return RestartSource.LONGEST_TRACKED if is_tracked else RestartSource.OPTION


def newest_outages(supervision: Supervision, most: int) -> list[int]:
    """Return what the newest rescales with a measured outage took the job away, milliseconds, newest first."""
    return [outage for _, outage in islice(_measured_outages(supervision.rescales), most)]


def _measured_outages(past: Sequence[RescaleRecord], mechanism: Mechanism | None = None) -> Iterator[tuple[int, int]]:
    """Yield instant and outage of rescales, those of one mechanism or all, newest first."""
    for record in reversed(past):
        is_meant = mechanism in (None, record.mechanism)
        if is_meant and record.outage_ms is not None and record.outage_ms >= 0:
            yield record.decided_ms, record.outage_ms


class _Entry(NamedTuple):
    decided_ms: int
    job_key: JobKey
    outage_ms: int


class ClusterOutages:
    """What the newest rescales of each cluster took its jobs away. Calls may come from any thread."""

    def __init__(self) -> None:
        self._entries: dict[str, tuple[_Entry, ...]] = {}
        self._lock = threading.Lock()

    def note(self, cluster: str, job_key: JobKey, supervision: Supervision) -> None:
        """Take note of what was measured of a job."""
        own = [
            _Entry(at_ms, job_key, outage) for at_ms, outage in islice(_measured_outages(supervision.rescales), ENOUGH)
        ]
        with self._lock:
            others = [each for each in self._entries.get(cluster, ()) if each.job_key != job_key]
            self._entries[cluster] = tuple(sorted([*others, *own])[-KEPT:])

    def elsewhere(self, cluster: str, job_key: JobKey) -> tuple[int, ...]:
        """Return what rescales took other jobs of a cluster away, milliseconds, one median per job."""
        by_job: dict[JobKey, list[int]] = {}
        with self._lock:
            entries = self._entries.get(cluster, ())
        for each in entries:
            if each.job_key != job_key:
                by_job.setdefault(each.job_key, []).append(each.outage_ms)
        return tuple(round(median(outages)) for outages in by_job.values())

    def forget(self, job_key: JobKey) -> None:
        """Forget a job; clusters of which nothing is left are forgotten, too."""
        with self._lock:
            kept = {name: tuple(e for e in entries if e.job_key != job_key) for name, entries in self._entries.items()}
            self._entries = {name: entries for name, entries in kept.items() if entries}


SHORTEST: Final = 5.0
LONGEST: Final = 900.0
"""Bounds of what is assumed, seconds: a plan for less makes no difference."""

_USUAL: Final[Mapping[Mechanism, float]] = {Mechanism.IN_PLACE: 15.0, Mechanism.REACTIVE_LOSS: 65.0}
"""Seconds that a small job is away; a lost TaskManager is missed only after the 50 s of its heartbeats."""
_PER_GB: Final = 10.0
"""Seconds per GB of state that a TaskManager restores; all of them do that at once."""
_PER_SUBTASK: Final = 0.05
_UNSURE: Final = 2.0
"""Times what is usual that nine in ten rescales of jobs stay below of which none was measured."""


def estimate_downtime(
    past: Sequence[RescaleRecord],
    mechanism: Mechanism,
    *,
    state_bytes: int | None,
    taskmanagers: int | None,
    subtasks: int,
) -> Outage:
    """Estimate how long a rescale takes a job away, by its newest outages of the same kind.

    Until :data:`ENOUGH` of them were measured, what jobs of its size usually need counts as one more; without any, that
    is the estimate.

    Args:
        past: Rescales of the job, oldest first; those without a measured outage are left out.
        mechanism: How the job is rescaled.
        state_bytes: Of the job; None counts as none.
        taskmanagers: That share the state.
        subtasks: Of all vertices, after the rescale.
    """
    measured = [outage / 1000 for _, outage in islice(_measured_outages(past, mechanism), NEWEST)]
    state = (state_bytes or 0) / 1e9 / max(1, taskmanagers or 1)
    usual = _USUAL[mechanism] + _PER_GB * state + _PER_SUBTASK * subtasks
    if 0 < len(measured) < ENOUGH:
        measured.append(usual)
    middle = median(measured or [usual])
    slow = upper_quantile(sorted(measured or [_UNSURE * usual]), 0.9)
    return Outage(*(min(max(each, SHORTEST), LONGEST) for each in (middle, slow)))


def mechanism_of(context: JobAutoScalerContext, before: Vector, target: Vector) -> Mechanism:
    """Return how a job would be rescaled: in reactive mode it shrinks by losing TaskManagers."""
    is_loss = is_reactive(context) and max(target.values(), default=0) < max(before.values(), default=0)
    return Mechanism.REACTIVE_LOSS if is_loss else Mechanism.IN_PLACE


def rescales_of(supervision: Supervision) -> list[RescaleRecord]:
    """Return the rescales of a job, oldest first, without those that the cluster refused."""
    records = [*supervision.past, *([supervision.current] if supervision.current else [])]
    return [record for record in records if record.stage is not Stage.REFUSED]


def downtime_at(job: EvaluatedJob, subtasks: int) -> Outage:
    """Estimate the outage of a rescale to so many subtasks of all vertices."""
    records = rescales_of(job.state.supervision)
    is_down = subtasks < sum(vertex.parallelism for vertex in job.topology.vertices.values())
    estimate = estimate_downtime(
        records,
        Mechanism.REACTIVE_LOSS if is_down and is_reactive(job.context) else Mechanism.IN_PLACE,
        state_bytes=state_bytes(job),
        taskmanagers=next((r.taskmanagers for r in reversed(records) if r.taskmanagers is not None), None),
        subtasks=subtasks,
    )
    # A rescale goes back to the last checkpoint, which is half an interval old on average.
    return replace(estimate, replay=(checkpoint_interval(job) or 0.0) / 2)


def expected_outage(job: EvaluatedJob) -> Outage:
    """Return what the next rescale is expected to cost: from measured outages, else the assumed restart time."""
    estimate = downtime_at(job, sum(vertex.parallelism for vertex in job.topology.vertices.values()))
    if any(_measured_outages(rescales_of(job.state.supervision), Mechanism.IN_PLACE)):
        return estimate
    return replace(estimate, mean=float(job.restart_time), q90=float(job.restart_time))


def checkpoints_of(job: EvaluatedJob) -> CheckpointFacts | None:
    """Return what the cluster said about the checkpoints of a job; None where it was not asked."""
    return job.reading.facts.checkpoints if job.reading.facts else None


def checkpoint_interval(job: EvaluatedJob) -> float | None:
    """Return the seconds between checkpoints, as read or configured; None when neither is known."""
    checkpoints, configured = checkpoints_of(job), job.context.flink_options.checkpoint_interval
    if checkpoints is not None and checkpoints.interval_ms is not None:
        return checkpoints.interval_ms / 1000
    return None if configured is None else configured.exact_seconds


def possible_state(checkpoints: CheckpointFacts | None) -> int | None:
    """Return the size of the last checkpoint; None where it is not known, or told to be what no state can be."""
    size = None if checkpoints is None else checkpoints.state_bytes
    return size if size is not None and is_possible(size) else None


def state_bytes(job: EvaluatedJob) -> int | None:
    """Return the size of the last checkpoint, as it was read now or after an earlier rescale."""
    size = possible_state(checkpoints_of(job))
    if size is not None:
        return size
    known = (record.state_bytes for record in reversed(rescales_of(job.state.supervision)))
    return next((size for size in known if size is not None), None)
