"""The jobs of a JobManager from list to list, and their contexts with the effective configuration.

Jobs whose entry cannot be read are there, too: they keep their keys and states.
"""

from __future__ import annotations

import asyncio
import time
import zlib
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from typing import Final

import structlog

from flink_autoscaler.clients.flink.decode import MAX_JOBS, JobListing, JobOverview, UnreadableJob
from flink_autoscaler.clients.flink.rest import FlinkRestClient
from flink_autoscaler.core.error_boundary import try_await
from flink_autoscaler.core.errors import AutoscalerError, ConfigError
from flink_autoscaler.core.model.job import Headroom, JobKey, JobStatus, effective_status
from flink_autoscaler.core.options.context import JobAutoScalerContext
from flink_autoscaler.core.options.job import AutoscalerOptions
from flink_autoscaler.standalone.fetchers.job_configuration import (
    JobOptions,
    JobOptionsReader,
    is_placeholder,
    merge_job_options,
    merge_reported,
)
from flink_autoscaler.standalone.settings.removals import removed_key_problem
from flink_autoscaler.standalone.settings.schema.settings import Cluster

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class ListedJobs:
    """The jobs of one list.

    Attributes:
        all: Every job that is there; of those that cannot be read, what was known about them last. All of them take
            part when keys are given, so that nobody else gets the key of one that cannot be read.
        unreadable: Why a job cannot be managed, by its id.
        problems: Entries of which it is not known whose they are, by their place: while there is any, a job that is
            not in the list may nevertheless be there.
    """

    all: tuple[JobOverview, ...]
    unreadable: Mapping[str, AutoscalerError] = field(default_factory=dict)
    problems: Mapping[str, AutoscalerError] = field(default_factory=dict)

    def partition(
        self, jobs: Mapping[JobKey, JobOverview]
    ) -> tuple[dict[JobKey, JobOverview], dict[JobKey, AutoscalerError]]:
        """Return those of some of the jobs that can be managed, and why the others cannot."""
        readable = {key: job for key, job in jobs.items() if job.job_id not in self.unreadable}
        return readable, {key: self.unreadable[job.job_id] for key, job in jobs.items() if key not in readable}


def log_fact_state(cluster: str, fact: str, error: AutoscalerError | None) -> None:
    """Say that something that only helps is not known, or is again; jobs are managed all the same."""
    if error is None:
        log.info("cluster_fact_known", cluster=cluster, fact=fact)
    else:
        log.warning("cluster_fact_unknown", cluster=cluster, fact=fact, error=str(error))


class JobListReconciler:
    """Remembers the jobs of a JobManager from list to list. Belongs to one thread at a time."""

    def __init__(self) -> None:
        self._known: dict[str, JobOverview] = {}

    def update(self, listing: JobListing) -> ListedJobs:
        """Take a list; tell which jobs there are."""
        jobs = {job.job_id: job for job in listing.jobs}
        unreadable: dict[str, AutoscalerError] = {}
        problems: dict[str, AutoscalerError] = {}
        for entry in listing.unreadable:
            job, believed = self._match(entry), self._resolve_conflict(entry)
            if believed is not None and believed.job_id not in unreadable:
                jobs[believed.job_id] = believed
            if job is None or believed is not None:
                problems[f"entry {entry.place + 1} of the list of jobs"] = entry.error
            else:
                jobs[job.job_id], unreadable[job.job_id] = job, entry.error
        if problems:
            # It may be any of those that were there and are not listed.
            missing = {job_id: job for job_id, job in self._known.items() if job_id not in jobs}
            jobs |= islice(missing.items(), MAX_JOBS)
            unreadable |= dict.fromkeys(missing, next(iter(problems.values())))
        self._known = jobs
        return ListedJobs(tuple(jobs.values()), unreadable, problems)

    def _resolve_conflict(self, entry: UnreadableJob) -> JobOverview | None:
        """Return the one of two entries with the id of a job that has the name it had before; None where both have."""
        known = None if entry.job_id is None else self._known.get(entry.job_id)
        claims = [claim for claim in entry.claims if known is not None and claim.name == known.name]
        return claims[0] if len(claims) == 1 else None

    def _match(self, entry: UnreadableJob) -> JobOverview | None:
        """Return what is known about a job whose entry cannot be read; None where nobody knows which one it is."""
        if entry.job_id is None:
            return None
        if entry.job_id in self._known:
            return self._known[entry.job_id]
        # UNKNOWN is no state of an ended job, whose key another one may have.
        return None if entry.name is None else JobOverview(entry.job_id, entry.name, JobStatus.UNKNOWN, {}, -1)


REFRESH_AFTER: Final = 300.0
"""Seconds after which the configuration of a job is asked for again, even though the job has not changed."""

SPREAD: Final = 0.5
"""Part of that by which the second time may come earlier: jobs that were read together are not all due in one pass."""

NO_LABELS: Final[Mapping[str, str]] = {}


@dataclass(frozen=True, slots=True)
class _CachedConfiguration:
    """Configuration of a job, as it was read.

    Attributes:
        job_options: The part that the job brought along itself.
        is_complete: Whether the job may be scaled by this configuration.
    """

    configuration: Mapping[str, str]
    job_options: JobOptions
    read_at: float
    last_modification_ms: int
    is_complete: bool = True


class JobContexts:
    """Makes the contexts of one configured cluster, which may have several JobManagers.

    The configuration of a job is asked for when the job is new or has changed, and every five minutes; in between
    it is remembered. Belongs to one thread at a time.

    Args:
        cluster: Name, defaults and settings.
        clock: Seconds of a clock that never goes back.
    """

    def __init__(self, cluster: Cluster, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._cluster = cluster
        self._clock = clock
        self._own_options = JobOptionsReader(is_wanted=cluster.settings.job_user_config, defaults=cluster.job_defaults)
        self._known: dict[str, dict[str, _CachedConfiguration]] = {}
        self._validation_interval = AutoscalerOptions(cluster.job_defaults).scaling_event_interval

    async def contexts(
        self,
        client: FlinkRestClient,
        jobs: Mapping[JobKey, JobOverview],
        *,
        labels: Mapping[str, str] = NO_LABELS,
        headroom: Headroom | None = None,
        taskmanager_cpu: float | None = None,
    ) -> tuple[list[JobAutoScalerContext], dict[JobKey, AutoscalerError]]:
        """Return the contexts of all jobs of one JobManager, and why others could not be made.

        Args:
            client: Of the JobManager.
            jobs: All its jobs that are managed; what is remembered about others is forgotten.
            labels: Further facts about every one of them.
            headroom: What the resource manager can still give to them.
            taskmanager_cpu: CPUs of one of their TaskManagers, where known.

        Returns:
            Contexts in the order of ``jobs``, and errors by key; each job is in one of the two.
        """
        endpoint = client.endpoint
        known = self._known.get(endpoint.url, {})
        ids = {job.job_id for job in jobs.values()}
        self._known[endpoint.url] = known = {job_id: entry for job_id, entry in known.items() if job_id in ids}
        errors = await self._refresh(client, known, jobs.values())
        context_of = partial(
            JobAutoScalerContext,
            endpoint=endpoint,
            cluster=self._cluster.name,
            taskmanager_cpu=taskmanager_cpu,
            validation_interval=self._validation_interval,
            labels=labels,
            headroom=headroom,
        )
        contexts = [
            context_of(
                job_key=job_key,
                job_id=job.job_id,
                status=_context_status(job, known[job.job_id]),
                configuration=known[job.job_id].configuration,
                job_name=job.name,
                task_count=job.tasks.get("total"),
                modified_ms=job.last_modification_ms if job.last_modification_ms > 0 else None,
            )
            for job_key, job in jobs.items()
            if job.job_id not in errors
        ]
        failures = {job_key: errors[job.job_id] for job_key, job in jobs.items() if job.job_id in errors}
        return contexts, failures

    def keep_only(self, urls: Collection[str]) -> None:
        """Forget everything about JobManagers at other URLs."""
        self._known = {url: known for url, known in self._known.items() if url in urls}

    async def _refresh(
        self, client: FlinkRestClient, known: dict[str, _CachedConfiguration], jobs: Iterable[JobOverview]
    ) -> dict[str, AutoscalerError]:
        """Read what is not known, or not any more, and return what failed by job id."""
        due = [job for job in jobs if self._is_outdated(known.get(job.job_id), job)]
        # Few enough that no request waits for its connection until it times out, also with 5,000 jobs.
        places = asyncio.Semaphore(client.endpoint.max_connections)

        async def read(job: JobOverview) -> _CachedConfiguration | AutoscalerError:
            async with places:
                return await try_await(self._read(client, job, known.get(job.job_id)), what=f"job {job.job_id}")

        found = await asyncio.gather(*map(read, due))
        results = {job.job_id: result for job, result in zip(due, found, strict=True)}
        known |= {job_id: result for job_id, result in results.items() if isinstance(result, _CachedConfiguration)}
        return {job_id: result for job_id, result in results.items() if isinstance(result, AutoscalerError)}

    def _is_outdated(self, entry: _CachedConfiguration | None, job: JobOverview) -> bool:
        if entry is None or entry.last_modification_ms != job.last_modification_ms:
            return True
        is_worth_asking = not entry.job_options.is_complete and not is_placeholder(job.state)
        return is_worth_asking or self._clock() - entry.read_at >= REFRESH_AFTER

    async def _read(
        self, client: FlinkRestClient, job: JobOverview, before: _CachedConfiguration | None
    ) -> _CachedConfiguration:
        reported, own = await asyncio.gather(
            client.job_configuration(job.job_id),
            self._own_options.read(client, job, before.job_options.options if before else {}),
        )
        configuration = merge_job_options(merge_reported(self._cluster.job_defaults, reported), own.options)
        if before is None or before.configuration != configuration:
            self._warn_removed_options(job, configuration)
        read_at = self._clock() - (0.0 if before else SPREAD * REFRESH_AFTER * _hash_fraction(job.job_id))
        known = _CachedConfiguration(configuration, own, read_at, job.last_modification_ms)
        if own.is_complete or own.options or not _is_disabled(configuration):
            return known
        # The job may enable the autoscaler itself, and a disabled one deletes what it knows about the job. So it
        # counts as enabled, and the job as not running: together that leaves everything as it is.
        return replace(known, configuration={**configuration, AutoscalerOptions.enabled.key: "true"}, is_complete=False)

    def _warn_removed_options(self, job: JobOverview, configuration: Mapping[str, str]) -> None:
        """Say which options of a job no longer count: nobody can refuse what is in the configuration of Flink."""
        for key in configuration:
            if (problem := removed_key_problem(key)) is not None:
                log.warning("job_option_removed", cluster=self._cluster.name, job=job.name, key=key, problem=problem)


def _hash_fraction(job_id: str) -> float:
    """Return a number from 0 to 1 that is always the same for a job and another one for others."""
    return zlib.crc32(job_id.encode()) / 0xFFFFFFFF


def _context_status(job: JobOverview, known: _CachedConfiguration) -> JobStatus:
    status = effective_status(job.state, job.tasks)
    return JobStatus.CREATED if status is JobStatus.RUNNING and not known.is_complete else status


def _is_disabled(configuration: Mapping[str, str]) -> bool:
    try:
        return not AutoscalerOptions(configuration).enabled
    except ConfigError:
        return False
