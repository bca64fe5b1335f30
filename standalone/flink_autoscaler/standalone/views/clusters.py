"""A cluster as people and programs see it: its slots, who has them and who waits, how it is reached, what failed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import median
from typing import Any, Final

from pydantic import Field

from flink_autoscaler.core.decide.slot_sharing import slots_in_groups
from flink_autoscaler.core.model.job import Headroom
from flink_autoscaler.core.model.supervision import RescaleRecord, Stage
from flink_autoscaler.pipeline.reports.report import SlotHours
from flink_autoscaler.standalone.settings.schema.settings import Cluster
from flink_autoscaler.standalone.views.base import Number, Text, View
from flink_autoscaler.standalone.views.figures import slot_count
from flink_autoscaler.standalone.views.fleet import ClusterState, JobNow
from flink_autoscaler.standalone.views.jobs import JobHealth

WAITS: Final = (
    "SLOTS_MISSING",
    "HEADROOM_REACHED",
    "FAIR_SHARE",
    "WAITS_FOR_MORE_SLOTS",
    "SLOTS_COMING",
    "QUOTA_REACHED",
)
"""Codes of reasons for which a job waits for slots, those that weigh most first."""

_MAX_HEADROOMS: Final = 20

DAY_MS: Final = 86_400_000


class HolderView(View):
    """A job and the slots that it takes."""

    job_key: str
    slots: int


class WaitingView(View):
    """A job that waits for slots, or gets fewer than it wants."""

    job_key: str
    code: str
    text: Text
    slots_missing: int | None


class HeadroomView(View):
    """What can still be given to jobs beyond what they have; null does not count."""

    source: Text = Field(description="Who says so, such as a queue of YARN.")
    cpu: Number
    memory: int | None = Field(description="Bytes.")
    taskmanagers: int | None
    slots: int | None


class ClusterView(ClusterState):
    """A cluster as the last pass over it found it, with its jobs and how it is reached."""

    jobs: int
    url: Text | None = None
    type: str | None = Field(default=None, description="How jobs are found, such as flink or yarn.")
    auth: str | None = Field(
        default=None, description="How requests prove who sends them, such as kerberos; never a secret."
    )
    interval: float | None = Field(default=None, description="Seconds from the start of one pass to the next.")
    timeout: float | None = Field(default=None, description="Seconds that a request may take.")
    taskmanagers: int | None = None
    slots: int | None = None
    free_slots: int | None = None
    promised_slots: int = Field(description="Slots that jobs are about to have.")
    is_fixed: bool | None = Field(
        default=None, description="Whether nobody adds TaskManagers by themselves as jobs ask for more."
    )
    holders: list[HolderView]
    waiting: list[WaitingView] = Field(description="Jobs that want more slots than they get.")
    headroom: list[HeadroomView]


class ClustersView(View):
    """All clusters."""

    version: int
    clusters: list[ClusterView]


def cluster_view(cluster: ClusterState, jobs: Iterable[JobNow], configured: Cluster | None) -> ClusterView:
    """Describe a cluster.

    Args:
        cluster: As the last pass found it.
        jobs: Of all clusters.
        configured: How it is configured; None where it is managed no more.
    """
    here = [job for job in jobs if job.context.cluster == cluster.name]
    holders = [HolderView(job_key=job.context.job_key, slots=job.figures.slots) for job in here if job.figures.slots]
    return ClusterView.model_validate(
        {
            **dict(cluster),
            "jobs": len(here),
            **_connection_fields(configured),
            **_slots(here),
            "holders": sorted(holders, key=lambda each: (-each.slots, each.job_key)),
            "promised_slots": sum(each.slots for each in cluster.promised),
            "waiting": sorted((found for job in here for found in _waiting(job)), key=_by_missing_slots),
            "headroom": _headrooms(here),
        }
    )


def _connection_fields(configured: Cluster | None) -> dict[str, Any]:
    """Return how a cluster is reached, without anything that is secret."""
    if configured is None:
        return {}
    settings = configured.settings
    kinds = [each.auth.kind for each in (settings, settings.yarn) if each.auth.kind != "none"]
    return {
        "url": configured.display_url,
        "type": settings.type,
        "auth": next(iter(kinds), "none"),
        "interval": configured.interval,
        "timeout": configured.endpoint.timeout,
    }


def _slots(here: Sequence[JobNow]) -> dict[str, Any]:
    known = next((job.context.capacity for job in here if job.context.capacity is not None), None)
    names = ("taskmanagers", "slots", "free_slots", "is_fixed")
    return {} if known is None else {name: getattr(known, name) for name in names}


def _waiting(job: JobNow) -> Iterator[WaitingView]:
    """Yield why a job waits for slots, once, where it does."""
    reasons = {} if job.report is None else {reason.code: reason for reason in job.report.outcome.decision.reasons}
    code = next((code for code in WAITS if code in reasons), None)
    if code is not None:
        missing = dict(reasons[code].figures).get("slots_missing")
        number = None if missing is None else round(missing)
        yield WaitingView(job_key=job.context.job_key, code=code, text=reasons[code].text, slots_missing=number)


def _by_missing_slots(waiting: WaitingView) -> tuple[int, int, str]:
    return WAITS.index(waiting.code), -(waiting.slots_missing or 0), waiting.job_key


def _headrooms(here: Iterable[JobNow]) -> list[Headroom]:
    """Return what can still be given to jobs where somebody says so, such as a queue of YARN; each once."""
    known = dict.fromkeys(job.context.headroom for job in here if job.context.headroom is not None)
    return list(known)[:_MAX_HEADROOMS]


class SlotsView(View):
    """The slots of a cluster; what it has is not known where it does not say."""

    cluster: str
    total: int
    used: int
    reserved: int = Field(description="Of those that are free.")
    free: int


class FleetSummaryView(View):
    """The fleet in a few figures."""

    health: dict[JobHealth, int] = Field(description="Jobs, what is worst first.")
    slots: list[SlotsView]
    rescales_up: int = Field(description="Of the last day.")
    rescales_down: int
    not_reached: int = Field(description="Of those, how many did not come to what was asked for.")
    downtime_ms: int | None = Field(description="Median of what was measured of them.")
    saved_slot_hours: float = Field(
        description="Of the last day, against as many slots all the time as each job held at most; of a job from its "
        "first remembered rescale on."
    )


def fleet_summary(
    jobs: Iterable[JobNow], health: Mapping[JobNow, JobHealth], clusters: Sequence[ClusterView], now_ms: int
) -> FleetSummaryView:
    """Sum the fleet up.

    Args:
        jobs: All.
        health: Of each of them.
        clusters: All.
        now_ms: The present, epoch milliseconds.
    """
    all_jobs = list(jobs)
    recent = [each for job in all_jobs for each in _recent(job, now_ms - DAY_MS)]
    downtimes = [each.outage_ms for each in recent if each.outage_ms is not None]
    counts = list(health.values())
    ups = sum(each.is_up for each in recent)
    return FleetSummaryView(
        health={kind: counts.count(kind) for kind in JobHealth if kind in counts},
        slots=[_slots_view(each) for each in clusters if each.slots is not None and each.free_slots is not None],
        rescales_up=ups,
        rescales_down=len(recent) - ups,
        not_reached=sum(each.stage.is_final and each.stage is not Stage.REACHED for each in recent),
        downtime_ms=round(median(downtimes)) if downtimes else None,
        saved_slot_hours=sum(
            usage.saved_hours for job in all_jobs if (usage := slot_hours_of_day(job, now_ms)) is not None
        ),
    )


def slot_hours_of_day(job: JobNow, now_ms: int) -> SlotHours | None:
    """Return the slots that a job held in the last day, by the rescales that are remembered of its present graph.

    What it held before the first of them does not count, since nobody knows for how long, but as its peak.

    Args:
        job: As the last pass found it.
        now_ms: The present, epoch milliseconds.

    Returns:
        None where it was not rescaled in that time, so that it held its peak, or where its graph is not known.
    """
    since_ms = now_ms - DAY_MS
    outcome = None if job.report is None else job.report.outcome
    if outcome is None or outcome.observation.topology is None or not _recent(job, since_ms):
        return None
    vertices = outcome.observation.topology.vertices
    slots = peak = slot_count(outcome.observation.topology)
    slot_ms, end_ms = 0, now_ms
    # Backwards from what it has now: each rescale says what there was before it.
    for each in reversed(outcome.state.supervision.rescales):
        if each.before.keys() != vertices.keys():
            break
        at_ms = min(end_ms, each.settled_ms or each.decided_ms)
        slot_ms += slots * (end_ms - max(at_ms, since_ms))
        end_ms = max(at_ms, since_ms)
        if at_ms < since_ms:
            break
        slots = slots_in_groups(vertices.values(), each.before)
        peak = max(peak, slots)
    return SlotHours(slot_ms / 1000, (now_ms - end_ms) / 1000, peak)


def _recent(job: JobNow, since_ms: int) -> list[RescaleRecord]:
    records = () if job.report is None else job.report.outcome.state.supervision.rescales
    return [each for each in records if each.decided_ms >= since_ms]


def _slots_view(cluster: ClusterView) -> SlotsView:
    total, free = cluster.slots or 0, cluster.free_slots or 0
    return SlotsView(
        cluster=cluster.name,
        total=total,
        used=total - free,
        reserved=min(free, cluster.promised_slots),
        free=max(0, free - cluster.promised_slots),
    )
