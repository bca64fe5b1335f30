"""Reports and backtests as pages: one file each, with nothing from elsewhere and no script."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from markupsafe import Markup

from flink_autoscaler.pipeline.backtest.compare import Comparison, JobComparison
from flink_autoscaler.pipeline.backtest.plan import BOUNDS
from flink_autoscaler.pipeline.backtest.tune import Recommendation, basis_of
from flink_autoscaler.pipeline.pages.drawing import COLOURS, Curve, Times, Values, chart
from flink_autoscaler.pipeline.pages.rendering import style, templates_of
from flink_autoscaler.pipeline.reports.report import (
    JobSection,
    Report,
    ReportMetrics,
    ReportPeriod,
    Series,
    saved_share,
)

GENERATOR: Final = "flink-autoscaler report"
"""By which a report is known to be ours."""

MAX_CHARTS: Final = 100
"""Jobs of a backtest with charts."""

TALKERS: Final = 10

TALK: Final[Mapping[str, str]] = {
    "slot_hours": "Slot-hours",
    "load": "Records/s arriving",
    "rescales": "Rescales",
    "outage": "Outages, s",
    "late_minutes": "Minutes too late",
}
"""What top talkers are looked for by, and its title."""


def fleet_page(report: Report) -> str:
    """Return a report as HTML."""
    names = sorted({job.cluster for job in report.jobs})
    return _page(
        "fleet",
        generator=GENERATOR,
        report=report,
        totals=totals_of(report.jobs),
        clusters={name: totals_of(job for job in report.jobs if job.cluster == name) for name in names},
        talkers={TALK[name]: found for name, found in top_talkers(report.jobs).items() if found},
        fleet=_fleet_charts(report),
        charts_of=lambda job: _job_charts(job, report),
        anchors={each.figures.job_key: f"job-{number}" for number, each in enumerate(report.sections)},
    )


def backtest_page(comparison: Comparison, recommendations: Sequence[Recommendation] = ()) -> str:
    """Return a comparison as HTML, with what a search for better options came to."""
    return _page(
        "backtest",
        generator="flink-autoscaler backtest",
        title="Tuning" if recommendations else "Backtest",
        comparison=comparison,
        recommendations=recommendations,
        basis=basis_of(recommendations),
        bound_titles=BOUNDS,
        charts_of=backtest_charts,
        most_charts=MAX_CHARTS,
    )


def _page(template: str, **values: object) -> str:
    sheet = Markup(style())  # noqa: S704 - ours
    return (
        templates_of("flink_autoscaler.pipeline.reports")
        .get_template(f"{template}.html.j2")
        .render(style=sheet, **values)
    )


def totals_of(jobs: Iterable[ReportMetrics]) -> Mapping[str, Any]:
    """Sum up jobs; None where no job knows its part. ``unknown`` are those whose lag is not known."""
    jobs = list(jobs)
    sums = {
        name: math.fsum(known)
        if (known := [part for job in jobs if (part := getattr(job, name)) is not None])
        else None
        for name in ("slot_hours", "static_hours", "late_minutes", "rescales", "outage", "failed")
    }
    return {
        **sums,
        "jobs": len(jobs),
        "saved_share": saved_share(sums["slot_hours"], sums["static_hours"]),
        "unknown": sum(job.late_minutes is None for job in jobs),
    }


def top_talkers(jobs: Sequence[ReportMetrics]) -> Mapping[str, Sequence[tuple[ReportMetrics, float]]]:
    """Return by every figure of ``TALK`` the ten jobs with the most of it, the greatest first; none without any."""
    found = {name: [(job, value) for job in jobs if (value := getattr(job, name) or 0) > 0] for name in TALK}
    return {name: sorted(each, key=lambda it: (-it[1], it[0].job_key))[:TALKERS] for name, each in found.items()}


def _at(period: ReportPeriod, series: Series) -> Values:
    return [(period.start_of(bucket) * 1000, value) for bucket, value in enumerate(series)]


def _times(period: ReportPeriod, section: JobSection | None = None) -> Times:
    rescales = () if section is None else section.rescales
    return Times(period.since * 1000, period.until * 1000, [(each["at"] * 1000, each["is_bad"]) for each in rescales])


def _fleet_charts(report: Report) -> Sequence[Markup]:
    """Draw the whole fleet."""
    period, times = report.period, _times(report.period)
    load, slots, late, rescales = (_at(period, report.fleet[name]) for name in ("load", "slots", "late", "rescales"))
    peaks = [job.peak for job in report.jobs if job.peak is not None]
    static = Curve(
        "every job at its own peak", _at(period, [sum(peaks)] * period.count if peaks else ()), is_dashed=True
    )
    return [
        chart("Slots", "", [Curve("held", slots, is_filled=True), static], times),
        chart("Load", "records/s", [Curve("arriving at all sources", load)], times),
        chart("Jobs too late", "", [Curve("with more lag than allowed", late, is_step=True, is_filled=True)], times),
        chart("Rescales", "", [Curve("rescales", rescales, is_step=True, is_filled=True)], times),
    ]


def _job_charts(job: JobSection, report: Report) -> Sequence[Markup]:
    """Draw a job."""
    period, times = report.period, _times(report.period, job)
    load, capacity, slots, lag, age = (
        _at(period, job.series[name]) for name in ("load", "capacity", "slots", "lag", "lag_seconds")
    )
    vertices = [Curve(name, _at(period, series), is_step=True) for name, series in job.vertices]
    allowed = Curve("allowed", _at(period, [report.slo_lag] * period.count), is_dashed=True)
    waiting = [Curve("at all sources", lag, is_filled=True)] if any(value for _, value in lag) else []
    median, upper = (_at(period, series) for series in (job.forecast.median, job.forecast.upper))
    expected = [Curve("expected", median, is_dashed=True), Curve("upper quantile", upper, is_dashed=True)]
    shown = [
        ("Load against capacity", "records/s", [Curve("load", load), Curve("capacity", capacity)], load),
        ("Parallelism", "subtasks", [*vertices, Curve("slots", slots, is_step=True, is_dashed=True)], slots),
        ("Lag", "seconds", [Curve("oldest waiting record", age, is_filled=True), allowed], age),
        ("Records waiting", "records", waiting, lag),
        ("Forecast against actual", "records/s", [Curve("arrived", load), *expected], median),
    ]
    return [chart(title, unit, curves, times) for title, unit, curves, main in shown if Curve("", main).known]


def backtest_charts(job: JobComparison) -> Sequence[Markup]:
    """Draw arrivals, slots and lags of a job over time; of many configurations the first and the best."""
    since_ms, duration_ms = job.subject.start_ms, job.subject.workload.duration * 1000
    times = Times(since_ms, since_ms + duration_ms)

    def spread(values: Sequence[float]) -> Values:
        return [(since_ms + place * duration_ms / len(values), value) for place, value in enumerate(values)]

    runs = {name: run.curves for name, run in job.runs.items() if run.figures is not None}
    if len(runs) > COLOURS - 2:  # so that both bounds have colours of their own, too
        runs = {name: curves for name, curves in runs.items() if name in (next(iter(runs)), job.best)}
    slots = [Curve(name, spread(curves.slots), is_step=True) for name, curves in runs.items()]
    arrivals = []
    if job.bounds is not None:
        bounds = job.bounds.curves
        arrivals = [Curve("arriving at all sources", spread(bounds.arrivals), is_filled=True)]
        slots += [
            Curve(BOUNDS[name], spread(values), is_step=True, is_dashed=True)
            for name, values in (("oracle", bounds.oracle), ("area", bounds.busy))
        ]
    lags = [Curve(name, spread(curves.lags)) for name, curves in runs.items()]
    return [
        chart("Arrivals", "records/s", arrivals, times),
        chart("Slots", "slots", slots if runs else [], times),
        chart("Lag", "seconds", lags, times),
    ]
