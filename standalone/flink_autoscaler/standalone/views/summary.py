"""The fleet in a few figures: how its jobs are, whose slots are whose, and what was rescaled lately."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import Final

from pydantic import Field

from flink_autoscaler.core.model.supervision import RescaleRecord, Stage
from flink_autoscaler.standalone.views.base import View
from flink_autoscaler.standalone.views.clusters import ClusterView
from flink_autoscaler.standalone.views.fleet import JobNow
from flink_autoscaler.standalone.views.jobs import JobHealth

DAY_MS: Final = 86_400_000


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
    outage_ms: int | None = Field(description="Median of what was measured of them.")


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
    recent = [each for job in jobs for each in _recent(job, now_ms - DAY_MS)]
    outages = [each.outage_ms for each in recent if each.outage_ms is not None]
    counts = list(health.values())
    ups = sum(each.is_up for each in recent)
    return FleetSummaryView(
        health={kind: counts.count(kind) for kind in JobHealth if kind in counts},
        slots=[_slots(each) for each in clusters if each.slots is not None and each.free_slots is not None],
        rescales_up=ups,
        rescales_down=len(recent) - ups,
        not_reached=sum(each.stage.is_final and each.stage is not Stage.REACHED for each in recent),
        outage_ms=round(median(outages)) if outages else None,
    )


def _recent(job: JobNow, since_ms: int) -> list[RescaleRecord]:
    records = () if job.report is None else job.report.outcome.state.supervision.rescales
    return [each for each in records if each.decided_ms >= since_ms]


def _slots(cluster: ClusterView) -> SlotsView:
    total, free = cluster.slots or 0, cluster.free_slots or 0
    return SlotsView(
        cluster=cluster.name,
        total=total,
        used=total - free,
        reserved=min(free, cluster.promised_slots),
        free=max(0, free - cluster.promised_slots),
    )
