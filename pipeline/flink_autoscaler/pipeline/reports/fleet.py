"""The page of a fleet report: figures, charts and what a person should look at, of all jobs and of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from flink_autoscaler.pipeline.reports.charts import Chart, Line, chart
from flink_autoscaler.pipeline.reports.measures import TALK, JobFigures, top_talkers, totals_of
from flink_autoscaler.pipeline.reports.page import written
from flink_autoscaler.pipeline.reports.report import FleetSeries, JobSection, Period, Report

GENERATOR: Final = "flink-autoscaler report"
"""By which a page is known to be ours."""

_WAITING: Final = "Records waiting"


def fleet_page(report: Report) -> str:
    """Return a report as HTML."""
    peaks = [job.peak for job in report.jobs if job.peak is not None]
    return written(
        "fleet.html.j2",
        generator=GENERATOR,
        report=report,
        totals=totals_of(report.jobs),
        clusters={name: totals_of(jobs) for name, jobs in report.clusters.items()},
        concerned=[job for job in report.jobs if job.concerns],
        talkers=_talkers(report),
        fleet=_fleet_charts(report.fleet, sum(peaks) if peaks else None, report.period),
        charts={each.figures.job_key: _job_charts(each, report) for each in report.sections},
        anchors={each.figures.job_key: f"job-{number}" for number, each in enumerate(report.sections)},
    )


def _talkers(report: Report) -> Mapping[str, Sequence[tuple[JobFigures, Any]]]:
    found = top_talkers(report.jobs)
    return {TALK[name]: [(job, getattr(job, name)) for job in jobs] for name, jobs in found.items() if jobs}


def _fleet_charts(fleet: FleetSeries, static_peak: int | None, period: Period) -> Sequence[Chart]:
    """Return the charts of the whole fleet; those that have data."""
    peak = [None if static_peak is None else float(static_peak)] * period.count
    wanted = (
        (
            "Slots",
            "",
            [Line("held", fleet.slots, is_area=True), Line("every job at its own peak", peak, is_dashed=True)],
        ),
        ("Load", "records/s", [Line("arriving at all sources", fleet.load)]),
        ("Jobs too late", "", [Line("with more lag than allowed", fleet.late, is_bar=True)]),
        ("Rescales", "", [Line("rescales", fleet.rescales, is_bar=True)]),
    )
    return [chart(title, unit, lines, period) for title, unit, lines in wanted if lines[0].is_known]


def _job_charts(job: JobSection, report: Report) -> Sequence[Chart]:
    """Return the charts of a job; those that have data."""
    period = report.period
    limit = Line("allowed", [report.slo_lag] * period.count, is_dashed=True)
    vertices = [Line(each.name, each.parallelism, is_step=True) for each in job.vertices]
    wanted = (
        ("Load against capacity", "records/s", [Line("load", job.load), Line("capacity", job.capacity)]),
        ("Parallelism", "subtasks", [*vertices, Line("slots", job.slots, is_step=True, is_dashed=True)]),
        ("Lag", "seconds", [Line("oldest waiting record", job.lag_seconds, is_area=True), limit]),
        (_WAITING, "records", [Line("at all sources", job.lag, is_area=True)]),
    )
    marks = [(each.at, each.is_bad) for each in job.rescales]
    shown = [each for each in wanted if each[2][0].is_known and (each[0] != _WAITING or each[2][0].top > 0)]
    charts = [chart(title, unit, lines, period, marks) for title, unit, lines in shown]
    return [*charts, *_forecast_chart(job, period)]


def _forecast_chart(job: JobSection, period: Period) -> Sequence[Chart]:
    middle = Line("expected", job.forecast.median, is_dashed=True)
    if not middle.is_known:
        return ()
    upper = Line("upper quantile", job.forecast.upper, is_dashed=True)
    return [chart("Forecast against actual", "records/s", [Line("arrived", job.load), middle, upper], period)]
