"""Lists the jobs of a Flink cluster with their effective configuration."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from flink_autoscaler.clients import EventLoopThread, FlinkRestClient
from flink_autoscaler.clients.decode import JobOverview
from flink_autoscaler.core.errors import FlinkRestError
from flink_autoscaler.core.job import Endpoint, JobAutoScalerContext, JobKey, effective_status
from flink_autoscaler.core.options import AutoscalerOptions
from flink_autoscaler.core.ports import JobList
from flink_autoscaler.standalone.job_keys import keyed_jobs
from flink_autoscaler.standalone.masking import MASK
from flink_autoscaler.standalone.sections import JobKeyMode
from flink_autoscaler.standalone.settings import Cluster

REFRESH_AFTER = 300.0
"""Seconds after which the configuration of a job is asked for again, even though the job has not changed."""


@dataclass(frozen=True, slots=True)
class _Known:
    """A configuration that was read, when, and what the job's last change was at that time."""

    configuration: Mapping[str, str]
    read_at: float
    last_modification_ms: int


class FlinkClusterFetcher:
    """Reads one cluster over REST (a ``JobListFetcher``).

    One request per pass for the list. The configuration of a job is one request when the job is new or has changed,
    and every five minutes; in between it is remembered.

    Args:
        cluster: Endpoint, name and defaults.
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
        self._clients = clients
        self._job_key = job_key
        self._clock = clock
        self._known: dict[str, _Known] = {}
        self._validation_interval = AutoscalerOptions(cluster.job_defaults).scaling_event_interval

    def fetch(self) -> JobList:
        """Return all jobs; those whose configuration could not be read are ``unreadable``.

        Raises:
            FlinkRestError: The list could not be read.
        """
        return self._loop.run(self._fetch(self._clients(self._cluster.endpoint)))

    def close(self) -> None:
        """Do nothing: loop and clients belong to the caller."""

    async def _fetch(self, client: FlinkRestClient) -> JobList:
        jobs = keyed_jobs(self._cluster.name, await client.jobs_overview(), self._job_key)
        ids = {job.job_id for job in jobs.values()}
        self._known = {job_id: known for job_id, known in self._known.items() if job_id in ids}
        # The client bounds how many of these are under way at the same time.
        found = await asyncio.gather(*(self._context(client, key, job) for key, job in jobs.items()))
        contexts = tuple(context for context in found if isinstance(context, JobAutoScalerContext))
        failures = {key: error for key, error in zip(jobs, found, strict=True) if isinstance(error, FlinkRestError)}
        return JobList(contexts, failures)

    async def _context(
        self, client: FlinkRestClient, job_key: JobKey, job: JobOverview
    ) -> JobAutoScalerContext | FlinkRestError:
        try:
            configuration = await self._configuration(client, job)
        except FlinkRestError as error:
            return error
        return JobAutoScalerContext(
            job_key=job_key,
            job_id=job.job_id,
            status=effective_status(job.state, job.tasks),
            configuration=configuration,
            endpoint=self._cluster.endpoint,
            job_name=job.name,
            cluster=self._cluster.name,
            task_count=job.tasks.get("total"),
            validation_interval=self._validation_interval,
        )

    async def _configuration(self, client: FlinkRestClient, job: JobOverview) -> Mapping[str, str]:
        known = self._known.get(job.job_id)
        if known is None or self._is_outdated(known, job):
            reported = await client.job_configuration(job.job_id)
            known = _Known(self._overlay(reported), self._clock(), job.last_modification_ms)
            self._known[job.job_id] = known
        return known.configuration

    def _is_outdated(self, known: _Known, job: JobOverview) -> bool:
        has_changed = known.last_modification_ms != job.last_modification_ms
        return has_changed or self._clock() - known.read_at >= REFRESH_AFTER

    def _overlay(self, reported: Mapping[str, str]) -> Mapping[str, str]:
        # Flink shows secrets as asterisks: those would overwrite the real values.
        known = {key: value for key, value in reported.items() if value != MASK}
        return {**self._cluster.job_defaults, **known}
