"""Keys of jobs within the daemon, and the selection of jobs to manage."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from typing import NamedTuple

from flink_autoscaler.clients.flink.decode import JobOverview
from flink_autoscaler.core.model.job import SHARED_JOB_ID, JobKey, JobStatus
from flink_autoscaler.standalone.settings.schema.clusters import ClusterSettings
from flink_autoscaler.standalone.settings.schema.settings import JobKeyMode

KEY_LIMIT = 191
"""Longest key, in characters: the width of ``job_key`` in the database of the Java process."""

_DIGEST = 16
_NOWHERE = ""


class ApplicationJob(NamedTuple):
    """A job, and the application that runs it; without an application in a cluster that has no such thing."""

    application_id: str
    job: JobOverview


def assign_keys(cluster: str, jobs: Sequence[JobOverview], mode: JobKeyMode) -> dict[JobKey, JobOverview]:
    """Give every job its key.

    With ``name`` a key is ``<cluster>/<job name>``, so that a resubmitted job continues where it was. Of live jobs that
    share a name the one that began first has it, and keeps what was learned and ordered when another one comes; the
    others have ``#<job id>`` appended. Of an ended job whose name another one carries on nothing is listed: its
    key belongs to the successor, and it will never run again.

    Args:
        cluster: Name of the cluster.
        jobs: The jobs of the cluster.
        mode: ``job-id`` makes the job id the key, as in the Java process.

    Returns:
        Jobs by key, in the order given. Keys have at most 191 printable characters.
    """
    return {key: placed.job for key, placed in assign_application_keys(cluster, {_NOWHERE: jobs}, mode).items()}


def assign_application_keys(
    cluster: str, applications: Mapping[str, Sequence[JobOverview]], mode: JobKeyMode
) -> dict[JobKey, ApplicationJob]:
    """Give every job of several applications its key.

    As :func:`assign_keys`, over all applications together. Only within an application is a job id unique: where the id
    is part of a key and not of one job alone, ``@<application id>`` is appended. With ``job-id`` that is always done
    for the id that Flink gives to many jobs, so that such a job does not take over the key of another one that ends.

    Args:
        cluster: Name of the cluster.
        applications: Jobs by application id.
        mode: As for :func:`assign_keys`.
    """
    jobs = [ApplicationJob(application_id, job) for application_id, listed in applications.items() for job in listed]
    common = {job_id for job_id, count in Counter(each.job.job_id for each in jobs).items() if count > 1}
    if mode is JobKeyMode.JOB_ID:
        return {_id_key(placed, common | {SHARED_JOB_ID}): placed for placed in jobs}
    first = {
        _job_name(placed): placed for placed in sorted(jobs, key=_seniority, reverse=True) if not _has_ended(placed)
    }
    latest = {_job_name(placed): placed for placed in sorted(jobs, key=lambda placed: placed.job.start_ms)}
    listed = [
        each
        for each in jobs
        if not _has_ended(each) or (_job_name(each) not in first and latest[_job_name(each)] is each)
    ]
    return {
        _limit_length(
            f"{cluster}/{_job_name(each)}"
            + ("" if first.get(_job_name(each), each) is each else f"#{_id_key(each, common)}")
        ): each
        for each in listed
    }


def _seniority(placed: ApplicationJob) -> tuple[bool, int, str, str]:
    """Return a key that puts the job that began first before the others, and one of which that is not known last."""
    job = placed.job
    return job.start_ms < 0, job.start_ms, job.job_id, placed.application_id


def _id_key(placed: ApplicationJob, common: set[str]) -> str:
    """Return the id of a job, with that of its application where others have the same."""
    is_enough = placed.job.job_id not in common or placed.application_id == _NOWHERE
    return placed.job.job_id if is_enough else f"{placed.job.job_id}@{placed.application_id}"


def _limit_length(key: str) -> JobKey:
    if len(key) <= KEY_LIMIT:
        return key
    digest = hashlib.sha256(key.encode()).hexdigest()[:_DIGEST]
    return f"{key[: KEY_LIMIT - _DIGEST - 1]}~{digest}"


def to_printable(text: str) -> str:
    """Return a text fit for terminals and databases: no control characters, no half of a surrogate pair."""
    return "".join(character if character.isprintable() else "?" for character in text)


def _job_name(placed: ApplicationJob) -> str:
    return to_printable(placed.job.name)


def _has_ended(placed: ApplicationJob) -> bool:
    return JobStatus.of(placed.job.state).is_terminal


def is_selected(name: str, settings: ClusterSettings) -> bool:
    """Tell whether a job with this name, as the cluster reports it, is managed.

    The patterns are those of shells (``*``, ``?``, ``[abc]``) for whole names; upper and lower case differ.
    """
    is_included = not settings.include or _matches(name, settings.include)
    return is_included and not _matches(name, settings.exclude)


def select_jobs(
    jobs: Mapping[JobKey, JobOverview], settings: ClusterSettings
) -> tuple[dict[JobKey, JobOverview], frozenset[JobKey]]:
    """Return the jobs that are managed, in the order given, and the keys of the others."""
    taken = {key: job for key, job in jobs.items() if is_selected(job.name, settings)}
    return taken, frozenset(jobs.keys() - taken.keys())


def _matches(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)
