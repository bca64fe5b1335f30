"""A comparison as one HTML file that needs nothing else."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Final

from jinja2 import Environment

from flink_autoscaler.pipeline.backtest.compare import Comparison, JobComparison
from flink_autoscaler.pipeline.backtest.tune import Recommendation, basis_of

WIDTH: Final = 720
HEIGHT: Final = 110
COLORS: Final = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
"""Okabe and Ito: apart for people who see colours differently, too."""

MOST_CHARTS: Final = 100
MOST_LINES: Final = len(COLORS)


@dataclass(frozen=True, slots=True)
class Line:
    """One curve, its points as SVG wants them."""

    name: str
    color: str
    points: str


@dataclass(frozen=True, slots=True)
class Chart:
    """Curves on one scale from 0 to ``peak``."""

    title: str
    peak: float
    lines: tuple[Line, ...]


@dataclass(frozen=True, slots=True)
class Section:
    """One job with its charts."""

    job: JobComparison
    charts: tuple[Chart, ...]


def rendered(comparison: Comparison, recommendations: Sequence[Recommendation] = ()) -> str:
    """Return the file.

    Args:
        comparison: What came of a plan.
        recommendations: What a search for better options came to.
    """
    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    template = environment.from_string(files(__package__).joinpath("page.html").read_text(encoding="utf-8"))
    sections = [
        Section(job, tuple(charts_of(job)) if number < MOST_CHARTS else ())
        for number, job in enumerate(comparison.jobs)
    ]
    return template.render(
        title="Tuning" if recommendations else "Backtest",
        comparison=comparison,
        recommendations=recommendations,
        basis=basis_of(recommendations),
        sections=sections,
        most_charts=MOST_CHARTS,
        width=WIDTH,
        height=HEIGHT,
    )


def charts_of(job: JobComparison) -> Iterator[Chart]:
    """Yield arrivals, slots and lags of a job over time; of many configurations the first and the best."""
    runs = [(name, run.curves) for name, run in job.runs.items() if run.figures is not None]
    if len(runs) > MOST_LINES:
        runs = list(dict([runs[0], *(run for run in runs if run[0] == job.best)]).items())
    if job.bounds is not None:
        yield _chart("records/s that arrive", [("arrivals", job.bounds.curves.arrivals)])
    if runs:
        yield _chart("slots", [(name, curves.slots) for name, curves in runs])
        yield _chart("lag, seconds", [(name, curves.lags) for name, curves in runs])


def _chart(title: str, curves: Sequence[tuple[str, Sequence[float]]]) -> Chart:
    peak = max((value for _, values in curves for value in values), default=0.0)
    lines = (Line(name, color, _points(values, peak)) for (name, values), color in zip(curves, COLORS, strict=False))
    return Chart(title, peak, tuple(lines))


def _points(values: Sequence[float], peak: float) -> str:
    """Place values evenly from left to right."""
    step = WIDTH / max(1, len(values) - 1)
    scale = HEIGHT / peak if peak > 0 else 0.0
    return " ".join(f"{number * step:.1f},{HEIGHT - value * scale:.1f}" for number, value in enumerate(values))
