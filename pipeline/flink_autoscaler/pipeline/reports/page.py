"""Writes a report as one page of HTML that needs nothing else."""

from __future__ import annotations

import base64
import hashlib
import math
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any, Final

import jinja2
from markupsafe import Markup

from flink_autoscaler.pipeline.reports.charts import Chart, fleet_charts, job_charts, script
from flink_autoscaler.pipeline.reports.measures import TALK, JobFigures, instant, top_talkers, totals_of
from flink_autoscaler.pipeline.reports.report import JobSection, Report

GENERATOR: Final = "flink-autoscaler report"
"""By which a page is known to be ours."""

_LARGE: Final = 10_000
_UNITS: Final = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
_SHORT: Final = 120.0


def page(report: Report) -> str:
    """Return a report as HTML. Every text of the history is foreign, and escaped."""
    scripts = [script(), _resource("report.js")]
    return _template().render(
        report=report,
        generator=GENERATOR,
        policy=_policy(scripts),
        scripts=[Markup(each) for each in scripts],  # noqa: S704 - from installed packages, not from the history
        style=Markup(_resource("report.css")),  # noqa: S704 - likewise
        totals=totals_of(report.jobs),
        clusters={name: totals_of(jobs) for name, jobs in report.clusters.items()},
        concerned=[job for job in report.jobs if job.concerns],
        talkers=_talkers(report),
        fleet=fleet_charts(report.fleet, _static_peak(report.jobs), report.period),
        charts=_charts(report),
        anchors={each.figures.job_key: f"job-{number}" for number, each in enumerate(report.sections)},
    )


def _policy(scripts: Sequence[str]) -> str:
    """Return the content security policy: nothing from elsewhere, no script but these."""
    hashes = (base64.b64encode(hashlib.sha256(each.encode()).digest()).decode() for each in scripts)
    allowed = " ".join(f"'sha256-{each}'" for each in hashes)
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data:; font-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def _charts(report: Report) -> Mapping[str, Sequence[Chart]]:
    return {each.figures.job_key: _of(each, report) for each in report.sections}


def _of(section: JobSection, report: Report) -> Sequence[Chart]:
    return job_charts(section, report.period, slo_lag=report.slo_lag)


def _static_peak(jobs: Sequence[JobFigures]) -> int | None:
    peaks = [job.peak for job in jobs if job.peak is not None]
    return sum(peaks) if peaks else None


def _talkers(report: Report) -> Mapping[str, Sequence[tuple[JobFigures, Any]]]:
    found = top_talkers(report.jobs)
    return {TALK[name]: [(job, getattr(job, name)) for job in jobs] for name, jobs in found.items() if jobs}


@cache
def _template() -> jinja2.Template:
    environment = jinja2.Environment(
        autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters.update(number=number, share=share, duration=duration, instant=instant)
    return environment.from_string(_resource("report.html.j2"))


def _resource(name: str) -> str:
    return files("flink_autoscaler.pipeline.reports").joinpath(name).read_text(encoding="utf-8")


def number(value: float | None) -> str:
    """Write a number for people, with three digits or more; a dash where it is not known."""
    if value is None or not math.isfinite(value):
        return "–"
    if abs(value) >= _LARGE:
        size, unit = next((size, unit) for size, unit in _UNITS if abs(value) >= size)
        return f"{value / size:.3g} {unit}" if abs(value) < 1000 * size else f"{value / size:,.0f} {unit}"
    return f"{value:,.0f}" if abs(value) >= 100 or value == int(value) else f"{value:.3g}"  # noqa: PLR2004


def share(value: float | None) -> str:
    """Write a share, 0..1, in percent."""
    return "–" if value is None else f"{value:.0%}"


def duration(seconds: float | None) -> str:
    """Write seconds for people."""
    if seconds is None:
        return "–"
    if seconds < _SHORT:
        return f"{seconds:.3g} s"
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min"
