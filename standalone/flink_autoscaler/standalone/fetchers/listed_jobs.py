"""The jobs of one list, those included whose entry cannot be read: they are there, and keep their keys and states."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import islice

import structlog

from flink_autoscaler.clients.flink.decode import MOST_JOBS, JobListing, JobOverview, UnreadableJob
from flink_autoscaler.core.errors import AutoscalerError
from flink_autoscaler.core.model.job import JobKey, JobStatus

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class ListedJobs:
    """The jobs of one list.

    Attributes:
        all: Every job that is there; of those that cannot be read, what was known about them last. All of them take
            part when keys are given, so that nobody else gets the key of one that cannot be read.
        unreadable: Why a job cannot be looked after, by its id.
        problems: Entries of which it is not known whose they are, by their place: while there is any, a job that is
            not in the list may nevertheless be there.
    """

    all: tuple[JobOverview, ...]
    unreadable: Mapping[str, AutoscalerError] = field(default_factory=dict)
    problems: Mapping[str, AutoscalerError] = field(default_factory=dict)

    def divided(
        self, jobs: Mapping[JobKey, JobOverview]
    ) -> tuple[dict[JobKey, JobOverview], dict[JobKey, AutoscalerError]]:
        """Return those of some of the jobs that can be looked after, and why the others cannot."""
        readable = {key: job for key, job in jobs.items() if job.job_id not in self.unreadable}
        return readable, {key: self.unreadable[job.job_id] for key, job in jobs.items() if key not in readable}


def tell_unknown(cluster: str, fact: str, error: AutoscalerError | None) -> None:
    """Say that something that only helps is not known, or is again; jobs are looked after all the same."""
    if error is None:
        log.info("cluster_fact_known", cluster=cluster, fact=fact)
    else:
        log.warning("cluster_fact_unknown", cluster=cluster, fact=fact, error=str(error))


class KnownJobs:
    """Remembers the jobs of a JobManager from list to list. Belongs to one thread at a time."""

    def __init__(self) -> None:
        self._known: dict[str, JobOverview] = {}

    def take(self, listing: JobListing) -> ListedJobs:
        """Take a list; tell which jobs there are."""
        jobs = {job.job_id: job for job in listing.jobs}
        unreadable: dict[str, AutoscalerError] = {}
        problems: dict[str, AutoscalerError] = {}
        for entry in listing.unreadable:
            job, believed = self._identified(entry), self._believed(entry)
            if believed is not None and believed.job_id not in unreadable:
                jobs[believed.job_id] = believed
            if job is None or believed is not None:
                problems[f"entry {entry.place + 1} of the list of jobs"] = entry.error
            else:
                jobs[job.job_id], unreadable[job.job_id] = job, entry.error
        if problems:
            # It may be any of those that were there and are not listed.
            missing = {job_id: job for job_id, job in self._known.items() if job_id not in jobs}
            jobs |= islice(missing.items(), MOST_JOBS)
            unreadable |= dict.fromkeys(missing, next(iter(problems.values())))
        self._known = jobs
        return ListedJobs(tuple(jobs.values()), unreadable, problems)

    def _believed(self, entry: UnreadableJob) -> JobOverview | None:
        """Return the one of two entries with the id of a job that has the name it had before; None where both have."""
        known = None if entry.job_id is None else self._known.get(entry.job_id)
        claims = [claim for claim in entry.claims if known is not None and claim.name == known.name]
        return claims[0] if len(claims) == 1 else None

    def _identified(self, entry: UnreadableJob) -> JobOverview | None:
        """Return what is known about a job whose entry cannot be read; None where nobody knows which one it is."""
        if entry.job_id is None:
            return None
        if entry.job_id in self._known:
            return self._known[entry.job_id]
        # UNKNOWN is no state of an ended job, whose key another one may have.
        return None if entry.name is None else JobOverview(entry.job_id, entry.name, JobStatus.UNKNOWN, {}, -1)
