"""Values of a report: of each job its slot-hours, late minutes, rescales, and reasons why it needs attention."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from flink_autoscaler.pipeline.pages.rendering import utc

Row = Mapping[str, Any]

Series = Sequence[float | None]
"""A value per bucket; None where nothing is known."""

MAX_BUCKETS: Final = 500
"""Of a chart: more points than a screen can tell apart only make the page larger."""

FEWEST_PASSES: Final = 5
"""With fewer passes nothing can be said about a job, and lines in charts would be made up."""

_WIDTHS: Final = (60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400)
_HOUR: Final = 3600.0
_DAY: Final = 86_400
_ROUNDING: Final = 1e-9
_SILENT: Final = 3600.0
_LIMITED_SHARE: Final = 0.05
_BLIND_SHARE: Final = 0.2
_BLIND: Final = ("not_ready", "error", "invalid_config")
_PAUSE_CODES: Final = ("PAUSED_AFTER_ROLLBACK", "ROLLING_BACK")


@dataclass(frozen=True, slots=True)
class ReportPeriod:
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
    def of(cls, since: float, until: float) -> ReportPeriod:
        """Divide a stretch into round buckets, 500 of them at most.

        Raises:
            ValueError: It has no length.
        """
        if since >= until:
            raise ValueError("the period is empty")
        wanted = (until - since) / (MAX_BUCKETS - 1)
        width = next((width for width in _WIDTHS if width >= wanted), math.ceil(wanted / _DAY) * _DAY)
        return cls(math.floor(since / width) * width, until, width)

    @property
    def count(self) -> int:
        """Buckets, the last of which may end after the period."""
        return math.ceil((self.until - self.since) / self.width - _ROUNDING)

    def start_of(self, bucket: int) -> float:
        """Return the instant at which a bucket begins."""
        return self.since + bucket * self.width


class AttentionReason(NamedTuple):
    """Reason why a job needs attention: one or two words, such as ``paused``, and what is known about it."""

    kind: str
    text: str


@dataclass(frozen=True, slots=True)
class SlotHours:
    """Slots that a job held over a time, beside as many all the time as it ever held in it.

    Attributes:
        slot_seconds: Slots held, times seconds.
        seconds: That are known.
        peak: Most slots that it held.
    """

    slot_seconds: float
    seconds: float
    peak: int

    @property
    def used_hours(self) -> float:
        """Slots held, times hours."""
        return self.slot_seconds / _HOUR

    @property
    def static_hours(self) -> float:
        """The same for the static peak."""
        return self.peak * self.seconds / _HOUR

    @property
    def saved_hours(self) -> float:
        """Slot-hours of the static peak that were not used."""
        return self.static_hours - self.used_hours


@dataclass(frozen=True, slots=True)
class ReportMetrics:
    """One job over the period; None is not known.

    Attributes:
        passes: Over the job that the history has.
        status: Of the last of them, such as ``RUNNING``.
        slot_hours: Slots held, times hours; gaps in the history do not count.
        static_hours: The same for as many slots all the time as it ever held.
        peak: Most slots that it held.
        load: Records/s that arrived on average.
        lag_seconds: Greatest age of records that waited.
        late_minutes: With more lag than allowed.
        rescales: That settled.
        outage: Seconds during which rescales kept it from running.
        failed: Rescales that were rolled back, refused, or reached in part.
        concerns: Why it needs a person; empty when it does not.
        shadow: The row of its last policy in shadow mode; None where none was asked.
    """

    job_key: str
    cluster: str
    passes: int
    status: str | None = None
    slot_hours: float | None = None
    static_hours: float | None = None
    peak: int | None = None
    load: float | None = None
    lag_seconds: float | None = None
    late_minutes: float | None = None
    rescales: int = 0
    outage: float = 0.0
    failed: int = 0
    concerns: tuple[AttentionReason, ...] = ()
    shadow: Row | None = None

    @property
    def saved_share(self) -> float | None:
        """Share of the static peak that was not used, 0..1."""
        return saved_share(self.slot_hours, self.static_hours)

    @property
    def is_too_short(self) -> bool:
        """True when there are too few passes for charts."""
        return self.passes < FEWEST_PASSES


@dataclass(frozen=True, slots=True)
class ReportForecast:
    """Expected load of a job at the beginning of the period.

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
    """Everything that is shown of one job.

    Attributes:
        series: ``load``, ``capacity``, ``slots``, ``lag`` and ``lag_seconds``.
        vertices: The parallelism of the widest vertices, with their names.
        rescales: Rows of ``aggregate.latest_rescales``, the newest first, with ``changes`` such as ``map 2 → 4``.
    """

    figures: ReportMetrics
    series: Mapping[str, Series]
    vertices: Sequence[tuple[str, Series]] = ()
    rescales: Sequence[Row] = ()
    forecast: ReportForecast = field(default_factory=ReportForecast)


@dataclass(frozen=True, slots=True)
class Report:
    """A whole report.

    Attributes:
        jobs: All jobs, by key.
        sections: Those that are shown in detail, by key.
        fleet: ``slots``, ``load``, ``late`` (jobs) and ``rescales``, summed over all jobs.
        slo_lag: Seconds of lag that are allowed.
        warnings: What is wrong with the history, so that figures are missing or too low.
        notes: What is left out of the page.
    """

    title: str
    period: ReportPeriod
    made_at: float
    jobs: Sequence[ReportMetrics]
    sections: Sequence[JobSection]
    fleet: Mapping[str, Series]
    slo_lag: float
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def problems(self) -> tuple[str, ...]:
        """Reasons why the page is incomplete; empty when it is complete."""
        if all(job.is_too_short for job in self.jobs):
            return (*self.warnings, "no job has enough passes for charts")
        return self.warnings


def report_metrics(
    job_key: str, totals: Row, decisions: Row, rescales: Row, *, until: float, shadow: Row | None = None
) -> ReportMetrics:
    """Work out the figures of a job over a period that ends at an instant.

    The rows are what ``aggregate`` returns about the job; empty where a table has none.
    """
    latest = decisions.get("latest") or {}
    last = max((row["last"] for row in (totals, decisions) if row.get("last") is not None), default=None)
    clusters = (row.get("cluster") for row in (totals, decisions, rescales))
    usage = None
    if totals.get("slot_seconds") is not None:  # a bucket whose slots are known has all three
        usage = SlotHours(totals["slot_seconds"], totals["slot_known"], totals["peak"])
    return ReportMetrics(
        job_key=job_key,
        cluster=next((name for name in clusters if name), ""),
        passes=max(totals.get("passes") or 0, decisions.get("passes") or 0),
        status=latest.get("status"),
        slot_hours=None if usage is None else usage.used_hours,
        static_hours=None if usage is None else usage.static_hours,
        peak=None if usage is None else usage.peak,
        load=totals.get("load"),
        lag_seconds=totals.get("lag_seconds"),
        late_minutes=(totals.get("late") or 0.0) / 60.0 if totals.get("lag_known") else None,
        rescales=rescales.get("rescales") or 0,
        outage=rescales.get("outage") or 0.0,
        failed=(rescales.get("reverted") or 0) + (rescales.get("failed") or 0),
        concerns=tuple(_concerns(latest, decisions, rescales, last, until)),
        shadow=shadow,
    )


def saved_share(used: float | None, static: float | None) -> float | None:
    """Return the share of the static peak that was not used, 0..1; None where it is not known."""
    return None if used is None or not static else 1.0 - used / static


def _concerns(
    latest: Row, decisions: Row, rescales: Row, last: float | None, until: float
) -> Iterator[AttentionReason]:
    """Yield why a person should look: the job is suspended, was rolled back, cannot grow, or cannot be seen."""
    reasons, supervision, status = latest.get("reasons") or (), latest.get("supervision"), latest.get("status")
    if supervision in ("paused", "rolling back"):
        texts = (reason["text"] for reason in reasons if reason["code"] in _PAUSE_CODES)
        yield AttentionReason(supervision, next(filter(None, texts), "since a rollback"))
    for kind, name, latest_one in (("rolled back", "reverted", "revert"), ("failed", "failed", "failure")):
        if count := rescales.get(name):
            told = rescales.get(latest_one) or {}
            at = "" if told.get("at") is None else f", the last one on {format_utc(told['at'])}"
            why = f": {told['reason']}" if told.get("reason") else ""
            yield AttentionReason(kind, f"{count} rescale{'s' if count > 1 else ''}{at}{why}")
    passes = decisions.get("passes") or 0
    limited, blind = ((decisions.get(name) or 0) / max(1, passes) for name in ("limited", "blind"))
    if limited >= _LIMITED_SHARE:
        yield AttentionReason("limited", f"in {limited:.0%} of the passes: {decisions.get('limit')}")
    is_blind_now = latest.get("phase") in _BLIND
    if passes and (is_blind_now or blind >= _BLIND_SHARE):
        texts = (text for text in (latest.get("error"), *(reason["text"] for reason in reasons)) if text)
        now = next((f"; now: {text}" for text in texts), "") if is_blind_now else ""
        yield AttentionReason("no metrics", f"in {blind:.0%} of the passes{now}")
    if status not in ("FINISHED", "CANCELED", "RUNNING", None):
        yield AttentionReason("not running", f"its status is {status}")
    if last is not None and until - last > _SILENT and status in ("RUNNING", None):
        yield AttentionReason("not seen", f"the history has nothing about it since {format_utc(last)}")


def format_utc(at: float) -> str:
    """Write an instant of epoch seconds in a sentence, such as ``2026-01-31 12:00 UTC``."""
    return f"{utc(at * 1000):%Y-%m-%d %H:%M} UTC"
