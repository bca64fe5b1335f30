"""Lists the jobs of a Flink cluster with their effective configuration."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping

from flink_autoscaler.clients import EventLoopThread, FlinkRestClient, JobOverview
from flink_autoscaler.clients.flink.capacity import read_capacity, with_capacity
from flink_autoscaler.core.errors import FlinkRestError
from flink_autoscaler.core.model.job import Endpoint, JobAutoScalerContext, JobKey
from flink_autoscaler.core.ports.deployment import JobList
from flink_autoscaler.standalone.fetchers.job_contexts import REFRESH_AFTER, JobContexts
from flink_autoscaler.standalone.fetchers.job_keys import keyed_jobs
from flink_autoscaler.standalone.fetchers.jobmanagers import JobManagers
from flink_autoscaler.standalone.fetchers.selection import JobSelection
from flink_autoscaler.standalone.settings.schema.clusters import Growth
from flink_autoscaler.standalone.settings.schema.settings import Cluster, JobKeyMode


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
        self._name = cluster.name
        self._loop = loop
        self._job_key = job_key
        self._jobmanagers = JobManagers(cluster, loop=loop, clients=clients)
        self._selection = JobSelection.of(cluster.settings)
        self._contexts = JobContexts(cluster, clock=clock)
        growth = cluster.settings.capacity
        self._is_fixed = None if growth is Growth.AUTO else growth is Growth.FIXED

    def fetch(self) -> JobList:
        """Return all jobs; those whose configuration could not be read are ``unreadable``.

        Raises:
            ConfigError: A secret is not where the settings say.
            FlinkRestError: The list could not be read.
        """
        client, listed = self._jobmanagers.list_jobs()
        jobs, left_out = self._selection.split(keyed_jobs(self._name, listed, self._job_key))
        contexts, failures = self._loop.run(self._read(client, jobs))
        return JobList(contexts, failures, left_out)

    async def _read(
        self, client: FlinkRestClient, jobs: Mapping[JobKey, JobOverview]
    ) -> tuple[tuple[JobAutoScalerContext, ...], Mapping[JobKey, FlinkRestError]]:
        (contexts, failures), capacity = await asyncio.gather(
            self._contexts.contexts(client, client.endpoint, jobs), read_capacity(client)
        )
        return tuple(with_capacity(context, capacity, is_fixed=self._is_fixed) for context in contexts), failures

    def close(self) -> None:
        """Do nothing: loop and clients belong to the caller."""


__all__ = ["REFRESH_AFTER", "FlinkClusterFetcher"]
