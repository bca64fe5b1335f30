"""Looks at clusters that are given by their URLs: lists their jobs and finds out what each needs. Changes nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final, TypeVar

from flink_autoscaler.clients.flink.capacity import read_capacity, with_capacity
from flink_autoscaler.clients.flink.client_cache import ClientCache
from flink_autoscaler.clients.flink.collector import read_job, wall_ms
from flink_autoscaler.clients.flink.decode import JobOverview
from flink_autoscaler.clients.flink.freshness import gathering_interval
from flink_autoscaler.clients.flink.rest import FlinkRestClient
from flink_autoscaler.clients.http.event_loop import EventLoopThread
from flink_autoscaler.core.error_boundary import try_call
from flink_autoscaler.core.errors import (
    AutoscalerError,
    FlinkRestError,
    MissingMetricError,
    NotReadyError,
    RefusedError,
)
from flink_autoscaler.core.model.job import ClusterCapacity, JobStatus
from flink_autoscaler.core.model.metrics import FlinkMetric
from flink_autoscaler.core.model.reading import JobReading
from flink_autoscaler.core.model.rescale_facts import CheckpointFacts
from flink_autoscaler.core.model.state import JobState
from flink_autoscaler.core.model.topology import JobDetails, JobTopology, build_topology
from flink_autoscaler.core.options.context import JobAutoScalerContext
from flink_autoscaler.core.ports.deployment import JobList
from flink_autoscaler.core.ports.passes import PassRequest
from flink_autoscaler.standalone.fetchers.flink import FlinkClusterFetcher
from flink_autoscaler.standalone.fetchers.job_configuration import autoscaler_options
from flink_autoscaler.standalone.readiness.checks import ClusterFacts, JobFacts
from flink_autoscaler.standalone.settings.credentials import Credentials
from flink_autoscaler.standalone.settings.schema.settings import Cluster

T = TypeVar("T")
Waiting = Callable[[float], None]
"""Told the seconds that metrics are waited for at most, when an answer lacked some; from another thread."""

MAX_CONCURRENT: Final = 16
"""Clusters, and jobs of one cluster, that are looked at at the same time."""

BEYOND_INTERVAL: Final = 5.0
"""Seconds: Flink gathers metrics when asked, at most once per interval, and answers with what it had before."""

AFTER_NAMES: Final = 6.0
"""Seconds that values, or names that are still missing, get after the first names: a rate takes 5 s to have one."""

_AGAIN_AFTER: Final = 1.0
_NOT_FOUND: Final = 404
_BACKPRESSURE: Final = "backPressuredTimeMsPerSecond"


@dataclass(frozen=True, slots=True)
class ClusterInspection:
    """A cluster that was looked at.

    Attributes:
        jobs: In the cluster's order.
        ended: Jobs that will not run again.
        failures: Why nothing is known about other jobs, by job key.
        error: Why nothing is known about the cluster; None when it answered.
    """

    cluster: Cluster
    facts: ClusterFacts = field(default_factory=ClusterFacts)
    jobs: tuple[JobFacts, ...] = ()
    ended: tuple[JobAutoScalerContext, ...] = ()
    failures: Mapping[str, AutoscalerError] = field(default_factory=dict)
    error: AutoscalerError | None = None

    def filter_jobs(self, selects: Callable[[JobAutoScalerContext], bool]) -> ClusterInspection:
        """Return the same about some of the jobs."""
        jobs = tuple(job for job in self.jobs if selects(job.context))
        return replace(self, jobs=jobs, ended=tuple(filter(selects, self.ended)))


def inspect_clusters(
    clusters: Sequence[Cluster], *, with_metrics: bool = True, on_waiting: Waiting = lambda _: None
) -> list[ClusterInspection]:
    """Look at clusters, of which there is at least one, at the same time.

    Args:
        clusters: Of type flink.
        with_metrics: Whether to read metrics, too, and to wait until Flink has gathered them.
        on_waiting: See :data:`Waiting`.

    Returns:
        One look per cluster, in their order; that one cannot be reached is in it.
    """
    loop = EventLoopThread()
    try:
        clients = ClientCache(loop, may_write=lambda _: False)
        look = partial(_inspect_cluster, loop=loop, clients=clients, on_waiting=on_waiting if with_metrics else None)
        with ThreadPoolExecutor(min(len(clusters), MAX_CONCURRENT)) as pool:
            looks = list(pool.map(look, clusters))
        clients.close()
    finally:
        loop.close()
    return looks


def _inspect_cluster(
    cluster: Cluster, *, loop: EventLoopThread, clients: ClientCache, on_waiting: Waiting | None
) -> ClusterInspection:
    try:
        with closing(FlinkClusterFetcher(cluster, loop=loop, clients=clients)) as fetcher:
            job_list = fetcher.fetch()
        client = clients(
            Credentials(cluster.settings, f"cluster '{cluster.name}': ").with_credentials(cluster.endpoint)
        )
        return loop.run(_inspect_jobs(cluster, client, job_list, on_waiting))
    except AutoscalerError as error:
        return ClusterInspection(cluster, error=error)


async def _inspect_jobs(
    cluster: Cluster, client: FlinkRestClient, job_list: JobList, on_waiting: Waiting | None
) -> ClusterInspection:
    version, configuration, capacity, listed = await asyncio.gather(
        _none_if_error(client.flink_version()),
        _none_if_error(client.cluster_configuration()),
        read_capacity(client),
        client.job_listing(),
    )
    # Whether the cluster grows by itself is to be told also where it has no job.
    nobody = JobAutoScalerContext(cluster.name, None, JobStatus.UNKNOWN, configuration or {}, cluster.endpoint)
    known = with_capacity(nobody, capacity, is_fixed=None).capacity if isinstance(capacity, ClusterCapacity) else None
    by_id = {job.job_id: job for job in listed.jobs}
    places = asyncio.Semaphore(MAX_CONCURRENT)
    interval = gathering_interval(configuration or {})
    metric_timeout = interval + BEYOND_INTERVAL if interval > 0 else 0.0

    async def look(context: JobAutoScalerContext) -> JobFacts:
        async with places:
            return await read_job_facts(client, context, by_id.get(context.job_id or ""), metric_timeout, on_waiting)

    ended = tuple(context for context in job_list.jobs if context.status.is_terminal)
    jobs = await asyncio.gather(*(look(each) for each in job_list.jobs if not each.status.is_terminal))
    return ClusterInspection(
        cluster, ClusterFacts(version, configuration, known), tuple(jobs), ended, job_list.unreadable
    )


async def read_job_facts(
    client: FlinkRestClient,
    context: JobAutoScalerContext,
    listed: JobOverview | None,
    metric_timeout: float,
    on_waiting: Waiting | None,
) -> JobFacts:
    """Return what is to be known about a job; what cannot be read is None.

    Args:
        client: Of the JobManager.
        context: The job.
        listed: Its entry in the list of jobs.
        metric_timeout: Seconds to wait for metrics at most; 0 asks once.
        on_waiting: See :data:`Waiting`; None reads no metrics.
    """
    job_id = context.job_id or ""
    reported, user, refusal, checkpoints = await asyncio.gather(
        _none_if_error(client.job_configuration(job_id)),
        _none_if_error(client.job_user_config(job_id)),
        _rescale_refusal(client, job_id),
        _none_if_error(_read_checkpoints(client, job_id)),
    )
    if on_waiting is not None and context.status is JobStatus.RUNNING:
        reading = await read_metrics(client, context, metric_timeout, on_waiting)
    else:
        reading = JobReading(
            await _none_if_error(client.job_details(job_id)), error=NotReadyError("not asked for metrics")
        )
    return JobFacts(
        context,
        reported=reported,
        own=None if user is None else autoscaler_options(user),
        job_type=None if listed is None else listed.job_type,
        scheduler=None if listed is None else listed.scheduler_type,
        topology=_topology(reading.details),
        reading=reading if isinstance(reading.error, MissingMetricError | None) else None,
        refusal=refusal,
        checkpoints=checkpoints,
        age=_job_age(reading.details),
    )


async def read_metrics(
    client: FlinkRestClient, context: JobAutoScalerContext, metric_timeout: float, on_waiting: Waiting
) -> JobReading:
    """Return what a pass reads of a job that runs, and the backpressure of its other vertices. Never raises.

    Flink gathers metrics when it is asked for some, so that its first answer is empty. Then it is asked again until
    all are there, for as long as it takes to gather them. The arguments are those of :func:`read_job_facts`.
    """
    # What is wrong with the options of the job is no reason not to look at it.
    request = PassRequest(replace(context, configuration={}), JobState(), now_ms=wall_ms())
    loop = asyncio.get_running_loop()
    end, has_names = loop.time() + metric_timeout, False
    while True:
        reading = await read_job(client, request)
        is_complete = reading.error is None and all(reading.aggregates.values())
        if is_complete or loop.time() >= end or not isinstance(reading.error, NotReadyError | None):
            return await _with_backpressure(client, reading)
        if not has_names and reading.memory.names:
            has_names, end = True, min(end, loop.time() + AFTER_NAMES)
        on_waiting(metric_timeout)
        await asyncio.sleep(_AGAIN_AFTER)


async def _with_backpressure(client: FlinkRestClient, reading: JobReading) -> JobReading:
    """Add what passes need of sources alone; people want to see which vertex is held up."""
    metric = FlinkMetric.BACKPRESSURE_TIME
    others = {key: (_BACKPRESSURE,) for key, values in reading.aggregates.items() if values and metric not in values}
    found = await _none_if_error(client.all_vertex_metrics(reading.details.job_id, others)) if reading.details else None
    more = {key: {metric: each[_BACKPRESSURE]} for key, each in (found or {}).items() if _BACKPRESSURE in each}
    return replace(
        reading, aggregates={key: {**values, **more.get(key, {})} for key, values in reading.aggregates.items()}
    )


async def _none_if_error(answer: Awaitable[T]) -> T | None:
    try:
        return await answer
    except FlinkRestError:
        return None


async def _rescale_refusal(client: FlinkRestClient, job_id: str) -> str | None:
    """Return why requirements are not told, by the text of Flink's exception without its class and stack.

    Empty when they are told, None when that says nothing about the job.
    """
    try:
        await client.resource_requirements(job_id)
    except RefusedError as error:
        lines = (line.partition("UnsupportedOperationException") for line in error.body.splitlines())
        return next((rest.lstrip(": ").strip() or "not supported" for _, found, rest in lines if found), None)
    except FlinkRestError:
        return None
    return ""


async def _read_checkpoints(client: FlinkRestClient, job_id: str) -> CheckpointFacts:
    try:
        interval_ms = await client.checkpoint_interval(job_id)
    except RefusedError as error:
        if error.status != _NOT_FOUND:
            raise
        interval_ms = None
    return CheckpointFacts(interval_ms=interval_ms, is_enabled=interval_ms is not None)


def _topology(details: JobDetails | None) -> JobTopology | None:
    found = None if details is None else try_call(partial(build_topology, details))
    return found if isinstance(found, JobTopology) else None


def _job_age(details: JobDetails | None) -> float | None:
    if details is None or details.now_ms is None or details.running_at_ms is None:
        return None
    return max(0.0, (details.now_ms - details.running_at_ms) / 1000)
