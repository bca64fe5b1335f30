"""Lists the jobs of a Flink cluster with their effective configuration, from the JobManager that answers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

import structlog

from flink_autoscaler.clients.flink.capacity import TASKMANAGERS, read_capacity, with_capacities
from flink_autoscaler.clients.flink.decode import JobListing, JobOverview
from flink_autoscaler.clients.flink.rest import FlinkRestClient
from flink_autoscaler.clients.http.event_loop import EventLoopThread
from flink_autoscaler.core.errors import AutoscalerError, FlinkRestError, RefusedError
from flink_autoscaler.core.log_once import LogOnce
from flink_autoscaler.core.model.job import ClusterCapacity, Endpoint, JobKey
from flink_autoscaler.core.options.context import JobAutoScalerContext
from flink_autoscaler.core.ports.deployment import JobList
from flink_autoscaler.standalone.fetchers.job_contexts import JobContexts, JobListReconciler, log_fact_state
from flink_autoscaler.standalone.fetchers.job_keys import assign_keys, select_jobs
from flink_autoscaler.standalone.settings.credentials import Credentials, MetricSources
from flink_autoscaler.standalone.settings.schema.clusters import Growth
from flink_autoscaler.standalone.settings.schema.settings import Cluster, JobKeyMode

log = structlog.get_logger(__name__)

LOST_FOR: Final = 180.0
"""Seconds for which a TaskManager that went away is told of: jobs start again meanwhile."""

_UNAUTHORIZED: Final = 401


class JobManagerListing(NamedTuple):
    """The jobs of a cluster, ended and unreadable ones too, and who listed them."""

    client: FlinkRestClient
    jobs: JobListing


class JobManagers:
    """Asks the JobManagers of one cluster for its jobs.

    The one that answered last is asked first, and alone while it answers. When it does not, all others are asked at
    the same time, and the first of them in the configured order that answers is taken: however many there are, a
    list takes at most two timeouts of a request. Credentials are read anew for every list, and once more where they
    were replaced in the meantime.

    Args:
        cluster: Its URLs, limits and credentials.
        loop: Where the requests run.
        clients: Gives the client of an endpoint; called from the thread that calls :meth:`list_jobs`.
    """

    def __init__(
        self, cluster: Cluster, *, loop: EventLoopThread, clients: Callable[[Endpoint], FlinkRestClient]
    ) -> None:
        self._name = cluster.name
        self._loop = loop
        self._clients = clients
        self._access = Credentials(cluster.settings, f"cluster '{cluster.name}': ")
        self._metrics = MetricSources(cluster.settings, f"cluster '{cluster.name}': ")
        self._endpoint = cluster.endpoint
        self._urls = cluster.settings.url or (cluster.endpoint.url,)
        self._url = self._urls[0]

    def list_jobs(self) -> JobManagerListing:
        """Return the jobs and who listed them. May raise :class:`ConfigError` and :class:`FlinkRestError`."""
        try:
            return self._list_from_one(self._client(self._url))
        except FlinkRestError as error:
            if len(self._urls) == 1:
                raise
            return self._list_from_others(error)

    def _client(self, url: str) -> FlinkRestClient:
        return self._clients(
            self._metrics.with_metric_source(self._access.with_credentials(replace(self._endpoint, url=url)))
        )

    def _list_from_one(self, client: FlinkRestClient) -> JobManagerListing:
        try:
            return JobManagerListing(client, self._loop.run(client.job_listing()))
        except RefusedError as error:
            renewed = self._client(self._url) if error.status == _UNAUTHORIZED else client
            if renewed.endpoint == client.endpoint:
                raise
            # The credentials were replaced after this pass had read them.
            return JobManagerListing(renewed, self._loop.run(renewed.job_listing()))

    def _list_from_others(self, first: FlinkRestError) -> JobManagerListing:
        clients = [self._client(url) for url in self._urls if url != self._url]
        listing, errors = self._loop.run(_first_listing(clients))
        if listing is None:
            raise FlinkRestError("no JobManager lists its jobs: " + "; ".join(map(str, (first, *errors)))) from first
        url = listing.client.endpoint.url
        log.warning("jobmanager_changed", cluster=self._name, before=self._url, now=url, error=str(first))
        self._url = url
        return listing


async def _first_listing(clients: Sequence[FlinkRestClient]) -> tuple[JobManagerListing | None, list[FlinkRestError]]:
    """Return the first answer in the order of the clients, and why those before it failed."""
    requests = [asyncio.ensure_future(client.job_listing()) for client in clients]
    errors: list[FlinkRestError] = []
    try:
        for client, request in zip(clients, requests, strict=True):
            try:
                return JobManagerListing(client, await request), errors
            except FlinkRestError as error:
                errors.append(error)
        return None, errors
    finally:
        for request in requests:
            request.cancel()
        await asyncio.gather(*requests, return_exceptions=True)


class FlinkClusterFetcher:
    """Reads one cluster over REST (a ``JobListFetcher``).

    One request per pass for the list, more only while the JobManager that answered last does not, and one for the
    TaskManagers. Two requests for the configuration of a job that is new or has changed, and every five minutes; in
    between it is remembered.

    Args:
        cluster: URLs, name, defaults and everything else that is configured for it.
        loop: Where the requests run.
        clients: Gives the client of an endpoint; called from the thread that calls ``fetch``.
        job_key: What jobs are known by.
        clock: Seconds of a clock that never goes back.
    """

    def __init__(
        self,
        cluster: Cluster,
        *,
        loop: EventLoopThread,
        clients: Callable[[Endpoint], FlinkRestClient],
        job_key: JobKeyMode = JobKeyMode.NAME,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._cluster = cluster
        self._loop = loop
        self._job_key = job_key
        self._jobmanagers = JobManagers(cluster, loop=loop, clients=clients)
        self._contexts = JobContexts(cluster, clock=clock)
        self._known, self._log_once = JobListReconciler(), LogOnce()
        self._clock, self._most_seen, self._seen_at = clock, 0, clock()
        growth = cluster.settings.slots
        self._is_fixed = None if growth is Growth.AUTO else growth is Growth.FIXED

    def fetch(self) -> JobList:
        """Return all jobs; those whose entry or configuration could not be read are ``unreadable``.

        Raises:
            ConfigError: A secret is not where the settings say.
            FlinkRestError: The list could not be read.
        """
        client, listing = self._jobmanagers.list_jobs()
        listed = self._known.update(listing)
        keyed = assign_keys(self._cluster.name, listed.all, self._job_key)
        jobs, left_out = select_jobs(keyed, self._cluster.settings)
        readable, unreadable = listed.partition(jobs)
        contexts, failures = self._loop.run(self._read(client, readable))
        return JobList(contexts, {**failures, **unreadable}, left_out, listed.problems)

    async def _read(
        self, client: FlinkRestClient, jobs: Mapping[JobKey, JobOverview]
    ) -> tuple[tuple[JobAutoScalerContext, ...], Mapping[JobKey, AutoscalerError]]:
        (contexts, failures), capacity = await asyncio.gather(
            self._contexts.contexts(client, jobs), read_capacity(client)
        )
        if isinstance(capacity, ClusterCapacity):
            capacity = self._with_lost_taskmanagers(capacity)
        error = capacity if isinstance(capacity, AutoscalerError) else None
        if self._log_once.is_news(TASKMANAGERS, error):
            log_fact_state(self._cluster.name, TASKMANAGERS, error)
        given, refused = with_capacities(contexts, capacity, is_fixed=self._is_fixed)
        return given, {**failures, **refused}

    def _with_lost_taskmanagers(self, capacity: ClusterCapacity) -> ClusterCapacity:
        """Return the figures with the TaskManagers that were there in the last minutes and are not now."""
        now = self._clock()
        if capacity.taskmanagers >= self._most_seen or now - self._seen_at > LOST_FOR:
            self._most_seen, self._seen_at = capacity.taskmanagers, now
        return replace(capacity, lost=self._most_seen - capacity.taskmanagers)

    def close(self) -> None:
        """Do nothing: loop and clients belong to the caller."""
