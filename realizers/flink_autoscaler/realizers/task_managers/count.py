"""Rescales jobs in reactive mode (FLIP-159) by the number of TaskManagers."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

import structlog

from flink_autoscaler.clients.flink.decode import JobListing
from flink_autoscaler.clients.flink.rest import FlinkRestClient
from flink_autoscaler.clients.http.event_loop import EventLoopThread
from flink_autoscaler.core.errors import FlinkRestError, JobGoneError, RealizeError, RefusedError
from flink_autoscaler.core.model.job import Endpoint, JobKey, JobStatus
from flink_autoscaler.core.model.metrics import VertexId
from flink_autoscaler.core.model.state import ConfigChanges
from flink_autoscaler.core.options.context import JobAutoScalerContext
from flink_autoscaler.core.ports.deployment import NO_TERMS, Realization, RealizationTerms, RealizeResult
from flink_autoscaler.core.ports.task_managers import TaskManagerFleet, is_reactive, reactive_slots
from flink_autoscaler.realizers.realization import (
    CONFIG_NOT_APPLIED,
    REFUSED,
    UNCHANGED,
    BoundedMemory,
    changed_keys,
    check_overrides,
    config_fingerprint,
    refuse,
)
from flink_autoscaler.realizers.task_managers.clusters import ManagedCluster, ManagedClusters, Supplies
from flink_autoscaler.realizers.task_managers.scaling_operation import OperationStep

NO_PROVIDER = "NoTaskManagerProvider"
LIMITS = "ReactiveModeLimits"
LIMIT_REACHED = "TaskManagerLimitReached"
NOT_REACTIVE = "NotReactive"

_LOOK_AGAIN: Final = 60.0
"""Seconds after which a job that breaks a limit is looked at again."""

log = structlog.get_logger(__name__)


class _CachedJob(NamedTuple):
    """Facts about a job, the digest of their inputs, and their time, seconds of the clock."""

    setup: int
    at: float
    job: ReactiveJob


class TaskManagerCountRealizer:
    """Has as many TaskManagers as a job in reactive mode needs for what was decided.

    All vertices of such a job run in all slots, so that ``max(min(p, max parallelism))`` slots are needed. The count is
    absolute and compared in every pass. TaskManagers are stopped together, right after a completed checkpoint.

    The arguments are those of :class:`ManagedClusters`.
    """

    def __init__(
        self,
        clients: Callable[[Endpoint], FlinkRestClient],
        loop: EventLoopThread,
        supplies: Supplies,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clusters = ManagedClusters(clients, loop, supplies, clock)
        self._jobs: BoundedMemory[JobKey, _CachedJob] = BoundedMemory()
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
            return refuse(context, NOT_REACTIVE, text)
        return self.realize_count(context, overrides, terms=terms)

    def realize_count(
        self, context: JobAutoScalerContext, overrides: Mapping[VertexId, int], *, terms: RealizationTerms = NO_TERMS
    ) -> Realization:
        """Do the same for a job that is known to run in reactive mode, whatever its configuration says."""
        check_overrides(overrides)
        if context.job_id is None or context.status.is_terminal:
            return REFUSED
        cluster = self._clusters.get(context.cluster)
        if cluster is None:
            text = "The job runs in reactive mode, but nobody starts and stops the TaskManagers of its cluster: set"
            return refuse(context, NO_PROVIDER, f"{text} provider.type of cluster '{context.cluster}'.")
        is_ready = context.status is JobStatus.RUNNING or terms.is_repair
        try:
            with cluster.lock:
                return self._realize(context, cluster, overrides) if is_ready else self._replace_lost(context, cluster)
        except JobGoneError as error:
            log.debug("job_removed", cluster=context.cluster, job_key=context.job_key, error=str(error))
            return REFUSED
        except FlinkRestError as error:
            raise RealizeError(f"the TaskManagers of job {context.job_id} were not changed: {error}") from error

    def realize_config(self, context: JobAutoScalerContext, changes: ConfigChanges) -> Realization:
        """Refuse: a job keeps its configuration when TaskManagers come and go. Said once for the same keys."""
        keys = changed_keys(changes)
        if not keys:
            return UNCHANGED
        if self._configs.put(context.job_key, keys) == keys:
            return REFUSED
        text = f"Configuration cannot be changed by adding TaskManagers; set it yourself and restart the job: {keys}"
        return refuse(context, CONFIG_NOT_APPLIED, text)

    def close(self) -> None:
        """Release nothing: clients, event loop and providers belong to whoever made them."""

    def _realize(
        self, context: JobAutoScalerContext, cluster: ManagedCluster, overrides: Mapping[VertexId, int]
    ) -> Realization:
        job = self._job(context)
        if job.problems:
            return refuse(context, LIMITS, f"The job is not scaled: {'; '.join(job.problems)}.")
        slots = reactive_slots(overrides, job.max_parallelism)
        if not slots:
            return UNCHANGED
        interval = context.options.scaling_event_interval
        try:
            fleet = self._clusters.fleet(context, cluster)
        except RealizeError as error:
            return _realization(context, cluster.operation.fail(str(error), interval), overrides)
        count = fleet.count_for(slots)
        if not self._may_scale_to(count, fleet, context, cluster):
            return UNCHANGED
        why = f"the job needs {slots} slots"
        step = cluster.operation.step(
            fleet, count, victims=_task_managers_to_release(fleet), why=why, interval=interval
        )
        limited = None if step.is_requested or cluster.operation.is_under_way else _limit_problem(fleet, slots)
        if limited is not None and step.problem is None:
            return refuse(context, LIMIT_REACHED, limited)
        return _realization(context, step, overrides)

    def _replace_lost(self, context: JobAutoScalerContext, cluster: ManagedCluster) -> Realization:
        """Start TaskManagers again that have died: without them a job may never run. The count stays as it is."""
        try:
            fleet = self._clusters.fleet(context, cluster)
        except RealizeError:  # told as soon as something is to change
            return REFUSED
        desired, running = fleet.info.desired, fleet.info.running
        if desired is None or running is None or running >= desired:
            return REFUSED
        interval = context.options.scaling_event_interval
        step = cluster.operation.step(fleet, desired, why="the job needs them", interval=interval)
        return Realization(RealizeResult.REFUSED, events=step.events)

    def _may_scale_to(
        self, count: int, fleet: TaskManagerFleet, context: JobAutoScalerContext, cluster: ManagedCluster
    ) -> bool:
        """Tell whether to go there now: TaskManagers with work are stopped right after a completed checkpoint."""
        if fleet.info.desired is None or count >= fleet.info.desired or fleet.own_count <= count:
            cluster.checkpoint.reset()
            return True
        completed = self._clusters.ask(context, lambda client: client.checkpoints(context.job_id or ""))
        max_wait = cluster.supply.rules.checkpoints * (self._job(context).interval_ms or 0) / 1000
        return cluster.checkpoint.is_ready(completed.completed_ms, max_wait, self._clusters.clock())

    def _job(self, context: JobAutoScalerContext) -> ReactiveJob:
        """Return what the cluster says about the job; that does not change while the job is the same."""
        setup, now = config_fingerprint(context), self._clusters.clock()
        known = self._jobs.get(context.job_key)
        if known is not None and known.setup == setup and (not known.job.problems or now - known.at < _LOOK_AGAIN):
            return known.job
        job = self._clusters.ask(context, lambda client: read_reactive_job(client, context))
        self._jobs.put(context.job_key, _CachedJob(setup, now, job))
        return job


def _task_managers_to_release(fleet: TaskManagerFleet) -> tuple[str, ...]:
    """Return the provider's TaskManagers, those whose end costs least first: not registered, then most free slots."""
    free = {each.taskmanager_id: each.free_slots for each in fleet.own}
    unregistered = sorted((fleet.info.taskmanager_ids or frozenset()) - free.keys())
    return (*unregistered, *sorted(free, key=lambda each: (-free[each], each)))


def _limit_problem(fleet: TaskManagerFleet, slots: int) -> str | None:
    """Return what keeps the cluster from having as many slots as are needed; None when nothing does."""
    maximum, most = fleet.info.maximum, fleet.other_slots
    if maximum is None:
        return None
    most += maximum * fleet.slots_per_taskmanager
    if most >= slots:
        return None
    return f"The job needs {slots} slots, but there are to be at most {maximum} TaskManagers, with {most} slots"


def _realization(context: JobAutoScalerContext, step: OperationStep, overrides: Mapping[VertexId, int]) -> Realization:
    if step.is_requested:
        log.info("taskmanagers_requested", cluster=context.cluster, job_key=context.job_key)
        return Realization(RealizeResult.REQUESTED, dict(overrides), step.events)
    result = RealizeResult.UNCHANGED if step.problem is None else RealizeResult.REFUSED
    return Realization(result, events=step.events)


_UNALIGNED_SINCE: Final = (1, 13)
"""Flink version that can rescale from unaligned checkpoints (FLINK-17979)."""
_RESOURCE_MANAGERS: Final = {"yarn": "YARN", "kubernetes": "Kubernetes"}
_TRUE: Final = "true"


@dataclass(frozen=True, slots=True)
class ReactiveJob:
    """The cluster's report about a job in reactive mode.

    Attributes:
        max_parallelism: Of every vertex.
        interval_ms: Time between checkpoints; None when it makes none.
        problems: Which limits it breaks, one sentence each; empty for a job that can be scaled.
    """

    max_parallelism: Mapping[VertexId, int]
    interval_ms: int | None
    problems: tuple[str, ...] = ()


async def read_reactive_job(client: FlinkRestClient, context: JobAutoScalerContext) -> ReactiveJob:
    """Ask a cluster about a job.

    Raises:
        FlinkRestError: No usable answer.
    """
    job_id = context.job_id or ""
    details = await client.job_details(job_id)
    listing = await client.job_listing()
    version = await client.flink_version()
    interval_ms = await _interval(client, job_id)
    limits = {vertex.vertex_id: vertex.max_parallelism for vertex in details.vertices}
    problems = (*_job_problems(context, listing), *_checkpoint_problems(context.configuration, version, interval_ms))
    return ReactiveJob(limits, interval_ms, problems)


async def _interval(client: FlinkRestClient, job_id: str) -> int | None:
    try:
        return await client.checkpoint_interval(job_id)
    except RefusedError:  # 404: the job makes no checkpoints
        return None


def _job_problems(context: JobAutoScalerContext, listing: JobListing) -> tuple[str, ...]:
    configuration, problems = context.configuration, []
    # A job whose entry cannot be read may run.
    alive = len(listing.unreadable) + sum(not JobStatus.of(job.state).is_terminal for job in listing.jobs)
    if alive > 1:
        problems.append(f"reactive mode is for application clusters with one job; {alive} run here")
    is_batch = any(job.job_id == context.job_id and (job.job_type or "").upper() == "BATCH" for job in listing.jobs)
    if is_batch or configuration.get("execution.runtime-mode", "").strip().upper() == "BATCH":
        problems.append("reactive mode is for streaming; the job runs in batch mode (execution.runtime-mode)")
    target = configuration.get("execution.target", "").strip().lower()
    manager = next((name for prefix, name in _RESOURCE_MANAGERS.items() if target.startswith(prefix)), None)
    if manager is not None:
        problems.append(f"reactive mode is for standalone clusters; this one gets its TaskManagers from {manager}")
    if _is_true(configuration, "cluster.fine-grained-resource-management.enabled"):
        problems.append("reactive mode does not know fine-grained resources (cluster.fine-grained-resource-management)")
    return tuple(problems)


def _checkpoint_problems(configuration: Mapping[str, str], version: str, interval_ms: int | None) -> tuple[str, ...]:
    problems = []
    if interval_ms is None:
        problems.append(
            "checkpointing is off: every change of the TaskManagers would start the job without its state "
            "(execution.checkpointing.interval)"
        )
    is_unaligned = any(
        _is_true(configuration, f"execution.checkpointing.unaligned{ending}") for ending in ("", ".enabled")
    )
    if is_unaligned and _version(version) < _UNALIGNED_SINCE:
        problems.append(
            f"Flink {version} cannot rescale from unaligned checkpoints (execution.checkpointing.unaligned)"
        )
    return tuple(problems)


def _is_true(configuration: Mapping[str, str], key: str) -> bool:
    return configuration.get(key, "").strip().lower() == _TRUE


def _version(text: str) -> tuple[int, int]:
    """Return major and minor version; one that cannot be read counts as a later one."""
    found = re.match(r"(\d+)\.(\d+)", text)
    return (int(found[1]), int(found[2])) if found else (9999, 0)
