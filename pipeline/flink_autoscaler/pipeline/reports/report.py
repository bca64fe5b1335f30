"""What a page shows, as values."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from flink_autoscaler.pipeline.reports.measures import JobFigures

MOST_BUCKETS: Final = 500
"""Of a chart: more points than a screen can tell apart only make the page larger."""

_WIDTHS: Final = (60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400)
_DAY: Final = 86_400
_ROUNDING: Final = 1e-9


@dataclass(frozen=True, slots=True)
class Period:
    """A stretch of time in buckets of one width. Instants are epoch seconds.

    Attributes:
        since: First instant, at a multiple of the width.
        until: The instant after the last.
        width: Seconds of a bucket.
    """

    since: float
    until: float
    width: float

    @classmethod
    def of(cls, since: float, until: float) -> Period:
        """Divide a stretch into round buckets, 500 of them at most.

        Raises:
            ValueError: It has no length.
        """
        if since >= until:
            raise ValueError("the period is empty")
        wanted = (until - since) / (MOST_BUCKETS - 1)
        width = next((width for width in _WIDTHS if width >= wanted), math.ceil(wanted / _DAY) * _DAY)
        return cls(math.floor(since / width) * width, until, width)

    @property
    def count(self) -> int:
        """Buckets, the last of which may end after the period."""
        return math.ceil((self.until - self.since) / self.width - _ROUNDING)

    @property
    def seconds(self) -> float:
        """Length."""
        return self.until - self.since

    def start_of(self, bucket: int) -> float:
        """Return the instant at which a bucket begins."""
        return self.since + bucket * self.width

    def holds(self, bucket: int) -> bool:
        """Tell whether a bucket is one of the period."""
        return 0 <= bucket < self.count


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
