"""What the API says about a cluster: its slots, who has them and who waits, how it is reached, and what failed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

from flink_autoscaler.core.model.job import Headroom
from flink_autoscaler.standalone.settings.schema.clusters import AuthKind
from flink_autoscaler.standalone.settings.schema.settings import Cluster
from flink_autoscaler.standalone.settings.secrets import masked
from flink_autoscaler.standalone.views.models import (
    ClusterDoc,
    FailureDoc,
    HeadroomDoc,
    HolderDoc,
    PromiseDoc,
    WaitingDoc,
)
from flink_autoscaler.standalone.web.fleet import ClusterNow, JobNow

WAITS: Final = (
    "SLOTS_MISSING",
    "HEADROOM_REACHED",
    "FAIR_SHARE",
    "WAITS_FOR_MORE_SLOTS",
    "SLOTS_COMING",
    "QUOTA_REACHED",
)
"""Codes of reasons for which a job waits for slots, those that weigh most first."""

_MOST_HEADROOMS: Final = 20


def cluster_document(cluster: ClusterNow, jobs: Iterable[JobNow], configured: Cluster | None) -> ClusterDoc:
    """Describe a cluster.

    Args:
        cluster: As the last pass found it.
        jobs: Of all clusters.
        configured: How it is configured; None where it is looked after no more.
    """
    here = [job for job in jobs if job.context.cluster == cluster.name]
    holders = [HolderDoc(job_key=job.context.job_key, slots=job.figures.slots) for job in here if job.figures.slots]
    return ClusterDoc(
        name=cluster.name,
        at_ms=cluster.at_ms,
        seconds=cluster.seconds,
        error=cluster.error or None,
        gaps=dict(cluster.gaps),
        engine=None if cluster.engine is None else cluster.engine.engine,
        engine_reason=None if cluster.engine is None else cluster.engine.reason,
        is_acting=cluster.is_acting,
        failed_ms=cluster.failed_ms,
        last_error=cluster.last_error or None,
        jobs=len(here),
        **_reached(configured),
        **_slots(cluster, here),
        holders=sorted(holders, key=lambda each: (-each.slots, each.job_key)),
        promised=[PromiseDoc(job_key=e.job_key, slots=e.slots, because=e.kind.value) for e in cluster.promised],
        waiting=sorted((found for job in here for found in _waiting(job)), key=_most_first),
        headroom=_headrooms(here),
        failures=[FailureDoc(**asdict(each)) for each in cluster.failures],
    )


def _reached(configured: Cluster | None) -> Mapping[str, Any]:
    """Return how a cluster is reached, without anything that is secret."""
    if configured is None:
        return {"url": None, "type": None, "auth": None, "interval": None, "timeout": None}
    settings = configured.settings
    kinds = [each.auth.kind for each in (settings, settings.yarn) if each.auth.kind is not AuthKind.NONE]
    return {
        "url": masked(configured.shown_url),
        "type": settings.type,
        "auth": next(iter(kinds), AuthKind.NONE).value,
        "interval": configured.interval,
        "timeout": configured.endpoint.timeout,
    }


def _slots(cluster: ClusterNow, here: Sequence[JobNow]) -> Mapping[str, Any]:
    capacity = next((job.context.capacity for job in here if job.context.capacity is not None), None)
    promised = sum(each.slots for each in cluster.promised)
    if capacity is None:
        return {"taskmanagers": None, "slots": None, "free_slots": None, "promised_slots": promised, "is_fixed": None}
    return {
        "taskmanagers": capacity.taskmanagers,
        "slots": capacity.slots,
        "free_slots": capacity.free_slots,
        "promised_slots": promised,
        "is_fixed": capacity.is_fixed,
    }


def _waiting(job: JobNow) -> Iterator[WaitingDoc]:
    """Yield why a job waits for slots, once, where it does."""
    reasons = {} if job.report is None else {reason.code: reason for reason in job.report.outcome.decision.reasons}
    code = next((code for code in WAITS if code in reasons), None)
    if code is not None:
        missing = dict(reasons[code].figures).get("slots_missing")
        number = None if missing is None else round(missing)
        yield WaitingDoc(job_key=job.context.job_key, code=code, text=masked(reasons[code].text), slots_missing=number)


def _most_first(waiting: WaitingDoc) -> tuple[int, int, str]:
    return WAITS.index(waiting.code), -(waiting.slots_missing or 0), waiting.job_key


def _headrooms(here: Iterable[JobNow]) -> list[HeadroomDoc]:
    """Return what can still be given to jobs where somebody says so, such as a queue of YARN; each once."""
    known: dict[Headroom, HeadroomDoc] = {}
    for job in here:
        headroom = job.context.headroom
        if headroom is not None and headroom not in known and len(known) < _MOST_HEADROOMS:
            known[headroom] = HeadroomDoc(
                source=masked(headroom.source),
                cpu=headroom.cpu,
                memory=headroom.memory,
                taskmanagers=headroom.taskmanagers,
                slots=headroom.slots,
            )
    return list(known.values())
