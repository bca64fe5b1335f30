"""Which key a job has within the daemon."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence

from flink_autoscaler.clients.decode import JobOverview
from flink_autoscaler.core.job import JobKey, JobStatus
from flink_autoscaler.standalone.sections import JobKeyMode

KEY_LIMIT = 191
"""Longest key, in characters: the width of ``job_key`` in the database of the Java process."""

_DIGEST = 16


def keyed_jobs(cluster: str, jobs: Sequence[JobOverview], mode: JobKeyMode) -> dict[JobKey, JobOverview]:
    """Give every job its key.

    With ``name`` a key is ``<cluster>/<job name>``, so that a resubmitted job continues where it was. Live jobs that
    share a name have ``#<job id>`` appended. Of an ended job whose name another one carries on nothing is listed: its
    key belongs to the successor, and it will never run again.

    Args:
        cluster: Name of the cluster.
        jobs: The jobs of the cluster.
        mode: ``job-id`` makes the job id the key, as in the Java process.

    Returns:
        Jobs by key, in the order given. Keys have at most 191 printable characters.
    """
    if mode is JobKeyMode.JOB_ID:
        return {job.job_id: job for job in jobs}
    alive = Counter(_name(job) for job in jobs if not _has_ended(job))
    latest = {_name(job): job for job in sorted(jobs, key=lambda job: job.start_ms)}
    listed = [job for job in jobs if not _has_ended(job) or (not alive[_name(job)] and latest[_name(job)] is job)]
    return {_key(cluster, job, is_shared=alive[_name(job)] > 1): job for job in listed}


def _key(cluster: str, job: JobOverview, *, is_shared: bool) -> JobKey:
    name = f"{cluster}/{_name(job)}"
    key = f"{name}#{job.job_id}" if is_shared else name
    if len(key) <= KEY_LIMIT:
        return key
    digest = hashlib.sha256(key.encode()).hexdigest()[:_DIGEST]
    return f"{key[: KEY_LIMIT - _DIGEST - 1]}~{digest}"


def printable(text: str) -> str:
    """Return a text fit for terminals and databases: no control characters, no half of a surrogate pair."""
    return "".join(character if character.isprintable() else "?" for character in text)


def _name(job: JobOverview) -> str:
    return printable(job.name)


def _has_ended(job: JobOverview) -> bool:
    return JobStatus.of(job.state).is_terminal
