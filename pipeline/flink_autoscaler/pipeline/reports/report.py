"""What a page shows, as values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from flink_autoscaler.pipeline.reports.measures import JobFigures
from flink_autoscaler.pipeline.reports.period import Period

Series = Sequence[float | None]
"""A value per bucket; None where nothing is known."""


@dataclass(frozen=True, slots=True)
class VertexLine:
    """The parallelism of one vertex per bucket."""

    name: str
    parallelism: Series


@dataclass(frozen=True, slots=True)
class RescaleLine:
    """One rescale. ``changes`` are texts such as ``map 2 → 4``; ``outage`` is in seconds, None when not known."""

    at: float
    changes: tuple[str, ...]
    origin: str
    mechanism: str
    stage: str
    reason: str
    outage: float | None
    is_reverted: bool

    @property
    def is_bad(self) -> bool:
        """Whether it did not come to stay."""
        return self.is_reverted or self.stage in ("refused", "partially reached")


@dataclass(frozen=True, slots=True)
class ForecastLine:
    """What was expected of a job at the beginning of the period.

    Attributes:
        median: Records/s per bucket.
        upper: The upper quantile of the same.
        wape: Error of the medians as a share of what arrived; None when nothing did.
        exceeded: Share of the buckets in which more arrived than the upper quantile; None as for ``wape``.
        problem: Why there is no forecast; None where there is one.
    """

    median: Series = ()
    upper: Series = ()
    wape: float | None = None
    exceeded: float | None = None
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class JobSection:
    """Everything that is shown of one job; one value per bucket in each series."""

    figures: JobFigures
    load: Series = ()
    capacity: Series = ()
    slots: Series = ()
    lag: Series = ()
    lag_seconds: Series = ()
    vertices: tuple[VertexLine, ...] = ()
    rescales: tuple[RescaleLine, ...] = ()
    forecast: ForecastLine = field(default_factory=ForecastLine)


@dataclass(frozen=True, slots=True)
class FleetSeries:
    """Sums over all jobs per bucket."""

    slots: Series = ()
    load: Series = ()
    late: Series = ()
    rescales: Series = ()


@dataclass(frozen=True, slots=True)
class Report:
    """A whole report.

    Attributes:
        jobs: All jobs, by key.
        sections: Those that are shown in detail, by key.
        slo_lag: Seconds of lag that are allowed.
        warnings: What is wrong with the history, so that figures are missing or too low.
        notes: What is left out of the page.
    """

    title: str
    period: Period
    made_at: float
    jobs: tuple[JobFigures, ...]
    sections: tuple[JobSection, ...]
    fleet: FleetSeries
    slo_lag: float
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def problems(self) -> tuple[str, ...]:
        """Why the page does not tell all; empty when it does."""
        if all(job.is_too_short for job in self.jobs):
            return (*self.warnings, "no job has enough passes for charts")
        return self.warnings

    @property
    def clusters(self) -> Mapping[str, Sequence[JobFigures]]:
        """The jobs by cluster, by name."""
        names = sorted({job.cluster for job in self.jobs})
        return {name: [job for job in self.jobs if job.cluster == name] for name in names}
