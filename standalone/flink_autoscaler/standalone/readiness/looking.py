"""Looks at clusters that are given by their URLs: lists their jobs and finds out what each needs. Changes nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

from flink_autoscaler.clients.flink.capacity import with_capacity
from flink_autoscaler.clients.flink.client_cache import ClientCache
from flink_autoscaler.clients.flink.decode import JobOverview
from flink_autoscaler.clients.flink.rest import FlinkRestClient
from flink_autoscaler.clients.http.event_loop import EventLoopThread
from flink_autoscaler.core.errors import AutoscalerError
from flink_autoscaler.core.model.job import Capacity, JobStatus
from flink_autoscaler.core.options.context import JobAutoScalerContext
from flink_autoscaler.core.ports.deployment import JobList
from flink_autoscaler.standalone.fetchers.access import Access
from flink_autoscaler.standalone.fetchers.flink import FlinkClusterFetcher
from flink_autoscaler.standalone.readiness.cluster_checks import cluster_findings, fetch_interval
from flink_autoscaler.standalone.readiness.facts import ClusterFacts, JobFacts
from flink_autoscaler.standalone.readiness.findings import Finding
from flink_autoscaler.standalone.readiness.job_checks import job_findings
from flink_autoscaler.standalone.readiness.reading import (
    Waiting,
    patience_for,
    read_cluster_facts,
    read_job_facts,
    read_metric_facts,
)
from flink_autoscaler.standalone.settings.schema.settings import Cluster

MOST_AT_ONCE: Final = 16
"""Clusters, and jobs of one cluster, that are looked at at the same time."""


@dataclass(frozen=True, slots=True)
class JobLook:
    """A job that has not ended, and what it needs beyond its cluster."""

    facts: JobFacts
    findings: tuple[Finding, ...]

    @property
    def context(self) -> JobAutoScalerContext:
        """Who it is."""
        return self.facts.context


@dataclass(frozen=True, slots=True)
class ClusterLook:
    """A cluster that was looked at.

    Attributes:
        findings: About the cluster as a whole.
        jobs: In the cluster's order.
        ended: Jobs that will not run again.
        failures: Why nothing is known about other jobs, by job key.
        error: Why nothing is known about the cluster; None when it answered.
    """

    cluster: Cluster
    facts: ClusterFacts = field(default_factory=ClusterFacts)
    findings: tuple[Finding, ...] = ()
    jobs: tuple[JobLook, ...] = ()
    ended: tuple[JobAutoScalerContext, ...] = ()
    failures: Mapping[str, AutoscalerError] = field(default_factory=dict)
    error: AutoscalerError | None = None

    def selected(self, selects: Callable[[JobAutoScalerContext], bool]) -> ClusterLook:
        """Return the same about some of the jobs."""
        jobs = tuple(job for job in self.jobs if selects(job.context))
        return replace(self, jobs=jobs, ended=tuple(filter(selects, self.ended)))


def look_at(
    clusters: Sequence[Cluster], *, with_metrics: bool = True, on_waiting: Waiting = lambda _: None
) -> list[ClusterLook]:
    """Look at clusters, of which there is at least one, at the same time.

    Args:
        clusters: Of type flink.
        with_metrics: Whether to read metrics, too, and to wait until Flink has gathered them.
        on_waiting: Told the seconds that metrics are waited for at most, perhaps several times, from another thread.

    Returns:
        One look per cluster, in their order; that one cannot be reached is in it.
    """
    loop = EventLoopThread()
    try:
        clients = ClientCache(loop, may_write=lambda _: False)
        look = partial(_look_at, loop=loop, clients=clients, on_waiting=on_waiting if with_metrics else None)
        with ThreadPoolExecutor(min(len(clusters), MOST_AT_ONCE)) as pool:
            looks = list(pool.map(look, clusters))
        clients.close()
    finally:
        loop.close()
    return looks


def _look_at(
    cluster: Cluster, *, loop: EventLoopThread, clients: ClientCache, on_waiting: Waiting | None
) -> ClusterLook:
    try:
        with closing(FlinkClusterFetcher(cluster, loop=loop, clients=clients)) as fetcher:
            job_list = fetcher.fetch()
        client = clients(Access(cluster.settings, f"cluster '{cluster.name}': ").secured(cluster.endpoint))
        return loop.run(_looked(cluster, client, job_list, on_waiting))
    except AutoscalerError as error:
        return ClusterLook(cluster, error=error)


async def _looked(
    cluster: Cluster, client: FlinkRestClient, job_list: JobList, on_waiting: Waiting | None
) -> ClusterLook:
    facts, listed = await asyncio.gather(read_cluster_facts(client), client.job_listing())
    ended = tuple(context for context in job_list.jobs if context.status.is_terminal)
    alive = [context for context in job_list.jobs if not context.status.is_terminal]
    facts = replace(facts, capacity=_capacity(cluster, facts))
    by_id = {job.job_id: job for job in listed.jobs}
    places = asyncio.Semaphore(MOST_AT_ONCE)

    async def look(context: JobAutoScalerContext) -> JobLook:
        async with places:
            return await _job(client, context, facts, by_id.get(context.job_id or ""), on_waiting)

    jobs = await asyncio.gather(*map(look, alive))
    return ClusterLook(cluster, facts, cluster_findings(facts), tuple(jobs), ended, job_list.unreadable)


def _capacity(cluster: Cluster, facts: ClusterFacts) -> Capacity | None:
    """Return the figures of a cluster, with whether it grows by itself, also where it has no job."""
    if facts.capacity is None:
        return None
    nobody = JobAutoScalerContext(cluster.name, None, JobStatus.UNKNOWN, facts.configuration or {}, cluster.endpoint)
    return with_capacity(nobody, facts.capacity, is_fixed=None).capacity


async def _job(
    client: FlinkRestClient,
    context: JobAutoScalerContext,
    cluster: ClusterFacts,
    listed: JobOverview | None,
    on_waiting: Waiting | None,
) -> JobLook:
    facts = await read_job_facts(client, context, cluster, listed)
    if on_waiting is not None:
        patience = patience_for(fetch_interval(cluster))
        metrics = await read_metric_facts(client, facts, patience=patience, on_waiting=on_waiting)
        facts = replace(facts, metrics=metrics)
    return JobLook(facts, job_findings(facts))
