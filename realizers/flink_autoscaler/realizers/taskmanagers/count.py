"""Rescales jobs in reactive mode (FLIP-159) by the number of TaskManagers."""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from threading import Lock
from typing import Final, TypeVar

import structlog

from flink_autoscaler.clients import EventLoopThread, FlinkRestClient
from flink_autoscaler.core.errors import FlinkRestError, JobGoneError, RealizeError
from flink_autoscaler.core.model.events import Event, EventType
from flink_autoscaler.core.model.job import Endpoint, JobAutoScalerContext, JobKey, JobStatus
from flink_autoscaler.core.model.metrics import VertexId
from flink_autoscaler.core.model.state import ConfigChanges
from flink_autoscaler.core.ports.deployment import NO_TERMS, Realization, RealizationTerms, RealizeResult
from flink_autoscaler.core.ports.task_managers import TaskManagerFleet, TaskManagerSupply, is_reactive, reactive_slots
from flink_autoscaler.realizers.in_place.checkpoint_wait import CheckpointWait
from flink_autoscaler.realizers.in_place.requirements import check_overrides
from flink_autoscaler.realizers.remembered import BoundedMemory
from flink_autoscaler.realizers.taskmanagers.course import Step, SupplyCourse
from flink_autoscaler.realizers.taskmanagers.fleet_memory import FleetMemory
from flink_autoscaler.realizers.taskmanagers.reactive_limits import ReactiveJob, read_reactive_job

T = TypeVar("T")

NO_PROVIDER = "NoTaskManagerProvider"
LIMITS = "ReactiveModeLimits"
CONFIG_NOT_APPLIED = "ConfigNotApplied"
MOST_REACHED = "TaskManagerLimitReached"
NOT_REACTIVE = "NotReactive"

Supplies = Callable[[str], TaskManagerSupply | None]
"""Gives who looks after the TaskManagers of a cluster, by its name; None where nobody does."""

_UNCHANGED = Realization(RealizeResult.UNCHANGED)
_REFUSED = Realization(RealizeResult.REFUSED)
_GRACE: Final = 5.0
"""Seconds that the event loop may need on top of the timeouts it keeps itself."""
_REQUESTS: Final = 5
"""Most requests in a row, each of which has the endpoint's timeout."""
_LOOK_AGAIN: Final = 60.0
"""Seconds after which a job that breaks a limit is looked at again."""

log = structlog.get_logger(__name__)


@dataclass
class _Cluster:
    """What is remembered about a cluster; one thread at a time uses it."""

    supply: TaskManagerSupply
    course: SupplyCourse
    checkpoint: CheckpointWait = field(default_factory=CheckpointWait)
    memory: FleetMemory = field(default_factory=FleetMemory)
    lock: Lock = field(default_factory=Lock)


@dataclass(frozen=True, slots=True)
class _Known:
    """What was found out about a job.

    Attributes:
        setup: Digest of what it depends on.
        at: When, seconds of the clock.
    """

    setup: int
    at: float
    job: ReactiveJob


class TaskManagerCountRealizer:
    """Has as many TaskManagers as a job in reactive mode needs for what was decided.

    All vertices of such a job run in all slots, so that ``max(min(p, max parallelism))`` slots are needed. The count is
    absolute and compared in every pass. TaskManagers are stopped together, right after a completed checkpoint.

    Args:
        clients: Gives the client of a cluster; the caller owns it.
        loop: Runs the requests of those clients; owned by the caller.
        supplies: Who gives a cluster its TaskManagers; owned by the caller.
        clock: Seconds that never run backward.
    """

    def __init__(
        self,
        clients: Callable[[Endpoint], FlinkRestClient],
        loop: EventLoopThread,
        supplies: Supplies,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clients = clients
        self._loop = loop
        self._supplies = supplies
        self._clock = clock
        self._clusters: dict[str, _Cluster] = {}
        self._lock = Lock()
        self._jobs: BoundedMemory[JobKey, _Known] = BoundedMemory()
        self._configs: BoundedMemory[JobKey, str] = BoundedMemory()

    def realize_overrides(
        self, context: JobAutoScalerContext, overrides: Mapping[VertexId, int], *, terms: RealizationTerms = NO_TERMS
    ) -> Realization:
        """Have the TaskManagers that ``overrides`` need, where the job runs in reactive mode.

        Returns:
            REQUESTED when the provider was asked for another count; UNCHANGED while there are as many as needed, or
            they are on their way; REFUSED, with an event that says why, when it cannot be done.

        Raises:
            RealizeError: The cluster did not answer, or a parallelism is not a positive number.
            ConfigError: The provider is not configured as it has to be.
        """
        if not is_reactive(context):
            text = "The job does not run in reactive mode (scheduler-mode: reactive); use the realizer auto."
            return _refused(context, NOT_REACTIVE, text)
        return self.realize_count(context, overrides, terms=terms)

    def realize_count(
        self, context: JobAutoScalerContext, overrides: Mapping[VertexId, int], *, terms: RealizationTerms = NO_TERMS
    ) -> Realization:
        """Do the same for a job that is known to run in reactive mode, whatever its configuration says."""
        check_overrides(overrides)
        if context.job_id is None or context.status.is_terminal:
            return _REFUSED
        cluster = self._cluster(context.cluster)
        if cluster is None:
            text = "The job runs in reactive mode, but nobody starts and stops the TaskManagers of its cluster: set"
            return _refused(context, NO_PROVIDER, f"{text} provider.type of cluster '{context.cluster}'.")
        is_ready = context.status is JobStatus.RUNNING or terms.is_repair
        try:
            with cluster.lock:
                return self._realized(context, cluster, overrides) if is_ready else self._healed(context, cluster)
        except JobGoneError as error:
            log.debug("job_gone", cluster=context.cluster, job_key=context.job_key, error=str(error))
            return _REFUSED
        except FlinkRestError as error:
            raise RealizeError(f"the TaskManagers of job {context.job_id} were left alone: {error}") from error

    def realize_config(self, context: JobAutoScalerContext, changes: ConfigChanges) -> Realization:
        """Refuse: a job keeps its configuration when TaskManagers come and go. Said once for the same keys."""
        if not changes.overrides and not changes.removals:
            return _UNCHANGED
        keys = ", ".join(sorted({*changes.overrides, *changes.removals}))
        if self._configs.put(context.job_key, keys) == keys:
            return _REFUSED
        text = f"Configuration cannot be changed by adding TaskManagers; set it yourself and restart the job: {keys}"
        return _refused(context, CONFIG_NOT_APPLIED, text)

    def close(self) -> None:
        """Release nothing: clients, event loop and providers belong to whoever made them."""

    def _cluster(self, name: str) -> _Cluster | None:
        """Return what is remembered about a cluster; it begins anew where the provider is another one."""
        supply = self._supplies(name)
        if supply is None:
            return None
        with self._lock:
            known = self._clusters.get(name)
            if known is None or known.supply is not supply:
                known = _Cluster(supply, SupplyCourse(supply, self._clock))
                self._clusters[name] = known
            return known

    def _realized(
        self, context: JobAutoScalerContext, cluster: _Cluster, overrides: Mapping[VertexId, int]
    ) -> Realization:
        job = self._job(context)
        if job.problems:
            return _refused(context, LIMITS, f"The job is not scaled: {'; '.join(job.problems)}.")
        slots = reactive_slots(overrides, job.max_parallelism)
        if not slots:
            return _UNCHANGED
        interval = context.options.scaling_event_interval
        try:
            fleet = self._fleet(context, cluster)
        except RealizeError as error:
            return _realization(context, cluster.course.fail(str(error), interval), overrides)
        count = fleet.count_for(slots)
        if not self._may_go_to(count, fleet, context, cluster):
            return _UNCHANGED
        why = f"the job needs {slots} slots"
        step = cluster.course.step(fleet, count, victims=_victims(fleet), why=why, interval=interval)
        limited = None if step.is_requested or cluster.course.is_under_way else _limit(fleet, slots)
        if limited is not None and step.problem is None:
            return _refused(context, MOST_REACHED, limited)
        return _realization(context, step, overrides)

    def _healed(self, context: JobAutoScalerContext, cluster: _Cluster) -> Realization:
        """Start TaskManagers again that have died: without them a job may never run. The count stays as it is."""
        try:
            fleet = self._fleet(context, cluster)
        except RealizeError:  # told as soon as something is to change
            return _REFUSED
        desired, running = fleet.info.desired, fleet.info.running
        if desired is None or running is None or running >= desired:
            return _REFUSED
        interval = context.options.scaling_event_interval
        step = cluster.course.step(fleet, desired, why="the job needs them", interval=interval)
        return Realization(RealizeResult.REFUSED, events=step.events)

    def _fleet(self, context: JobAutoScalerContext, cluster: _Cluster) -> TaskManagerFleet:
        registered = self._run(context, self._clients(context.endpoint).taskmanagers())
        info = cluster.supply.provider.describe()
        return cluster.memory.fleet(
            info,
            registered,
            cluster.supply.rules,
            configured_slots=context.flink_options.task_slots,
            now=self._clock(),
        )

    def _may_go_to(self, count: int, fleet: TaskManagerFleet, context: JobAutoScalerContext, cluster: _Cluster) -> bool:
        """Tell whether to go there now: TaskManagers with work are stopped right after a completed checkpoint."""
        if fleet.info.desired is None or count >= fleet.info.desired or fleet.own_count <= count:
            cluster.checkpoint.reset()
            return True
        completed = self._run(context, self._clients(context.endpoint).checkpoints(context.job_id or ""))
        patience = cluster.supply.rules.checkpoints * (self._job(context).interval_ms or 0) / 1000
        return cluster.checkpoint.is_over(completed.completed_ms, patience, self._clock())

    def _job(self, context: JobAutoScalerContext) -> ReactiveJob:
        """Return what the cluster says about the job; that does not change while the job is the same."""
        setup, now = hash((context.job_id, frozenset(context.configuration.items()))), self._clock()
        known = self._jobs.get(context.job_key)
        if known is not None and known.setup == setup and (not known.job.problems or now - known.at < _LOOK_AGAIN):
            return known.job
        job = self._run(context, read_reactive_job(self._clients(context.endpoint), context))
        self._jobs.put(context.job_key, _Known(setup, now, job))
        return job

    def _run(self, context: JobAutoScalerContext, request: Coroutine[object, object, T]) -> T:
        return self._loop.run(request, _REQUESTS * context.endpoint.timeout + _GRACE)


def _victims(fleet: TaskManagerFleet) -> tuple[str, ...]:
    """Return the provider's TaskManagers, those whose end costs least first: not registered, then most free slots."""
    free = {each.taskmanager_id: each.free_slots for each in fleet.own}
    unregistered = sorted((fleet.info.taskmanager_ids or frozenset()) - free.keys())
    return (*unregistered, *sorted(free, key=lambda each: (-free[each], each)))


def _limit(fleet: TaskManagerFleet, slots: int) -> str | None:
    """Return what keeps the cluster from having as many slots as are needed; None when nothing does."""
    maximum, most = fleet.info.maximum, fleet.other_slots
    if maximum is None:
        return None
    most += maximum * fleet.slots_per_taskmanager
    if most >= slots:
        return None
    return f"The job needs {slots} slots, but there are to be at most {maximum} TaskManagers, with {most} slots"


def _realization(context: JobAutoScalerContext, step: Step, overrides: Mapping[VertexId, int]) -> Realization:
    if step.is_requested:
        log.info("taskmanagers_requested", cluster=context.cluster, job_key=context.job_key)
        return Realization(RealizeResult.REQUESTED, dict(overrides), step.events)
    result = RealizeResult.UNCHANGED if step.problem is None else RealizeResult.REFUSED
    return Realization(result, events=step.events)


def _refused(context: JobAutoScalerContext, reason: str, text: str) -> Realization:
    """Refuse with the same event in every pass; who takes events tells it once per interval."""
    event = Event(EventType.WARNING, reason, text, reason, context.options.scaling_event_interval)
    return Realization(RealizeResult.REFUSED, events=(event,))
