"""The page of a backtest: figures of every configuration, and how arrivals, slots and lags went."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from flink_autoscaler.pipeline.backtest.compare import Comparison, JobComparison
from flink_autoscaler.pipeline.backtest.plan import BOUNDS
from flink_autoscaler.pipeline.backtest.tune import Recommendation, basis_of
from flink_autoscaler.pipeline.reports.charts import COLORS, Chart, Line, chart
from flink_autoscaler.pipeline.reports.page import written
from flink_autoscaler.pipeline.reports.report import Period, Series

MOST_CHARTS: Final = 100
"""Jobs with charts."""

_MOST_LINES: Final = len(COLORS) - 2
"""Configurations in a chart, so that each has a color of its own, and both bounds have."""


def backtest_page(comparison: Comparison, recommendations: Sequence[Recommendation] = ()) -> str:
    """Return a comparison as HTML, with what a search for better options came to."""
    return written(
        "backtest.html.j2",
        generator="flink-autoscaler backtest",
        title="Tuning" if recommendations else "Backtest",
        comparison=comparison,
        recommendations=recommendations,
        basis=basis_of(recommendations),
        bound_titles=BOUNDS,
        charts_of=charts_of,
        most_charts=MOST_CHARTS,
    )


def charts_of(job: JobComparison) -> Sequence[Chart]:
    """Return arrivals, slots and lags of a job over time; of many configurations the first and the best."""
    runs = {name: run.curves for name, run in job.runs.items() if run.figures is not None}
    if len(runs) > _MOST_LINES:
        runs = {name: curves for name, curves in runs.items() if name in (next(iter(runs)), job.best)}
    slots = [Line(name, curves.slots, is_step=True) for name, curves in runs.items()]
    lags = [Line(name, curves.lags) for name, curves in runs.items()]
    arrivals = []
    if job.bounds is not None:
        bounds = job.bounds.curves
        arrivals = [Line("arriving at all sources", bounds.arrivals, is_area=True)]
        slots += [
            Line(BOUNDS["oracle"], bounds.oracle, is_step=True, is_dashed=True, color=COLORS[-2]),
            Line(BOUNDS["area"], bounds.busy, is_step=True, is_dashed=True, color=COLORS[-1]),
        ]
    wanted = (("Arrivals", "records/s", arrivals), ("Slots", "slots", slots if runs else []), ("Lag", "seconds", lags))
    return [_chart(job, title, unit, lines) for title, unit, lines in wanted if lines]


def _chart(job: JobComparison, title: str, unit: str, lines: Sequence[Line]) -> Chart:
    """Draw lines of which each has its values at equal distances, however many."""
    count = max(len(line.values) for line in lines)
    since = job.subject.start_ms / 1000
    duration = job.subject.workload.duration
    even = [line._replace(values=_stretched(line.values, count)) for line in lines]
    return chart(title, unit, even, Period(since, since + duration, duration / count))


def _stretched(values: Series, count: int) -> Series:
    return [values[number * len(values) // count] for number in range(count)] if values else []
