"""Tables of backtest results for people, and documents for programs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any, Final

from flink_autoscaler.pipeline.backtest.compare import JobComparison, Total
from flink_autoscaler.pipeline.backtest.plan import BOUNDS, Bounds
from flink_autoscaler.pipeline.backtest.tune import Recommendation
from flink_autoscaler.pipeline.simulator.measures import Measures
from flink_autoscaler.pipeline.simulator.workloads import DAY

Table = tuple[Sequence[str], Sequence[Sequence[str]]]
"""Titles and rows."""

_FORMATS: Final = {
    "slot_hours": ",.1f",
    "rescales": "d",
    "lag_p95": ".0f",
    "lag_p99": ".0f",
    "lag_max": ".0f",
    "over_slo": ",.1f",
    "score": ",.1f",
}
"""Figures of a run and how they are shown."""

_TITLES: Final = ("SLOT-HOURS", "CHANGE", "UP/DOWN", "LAG P95", "P99", "MAX", "MIN OVER SLO", "SCORE")


def recommendations_table(recommendations: Sequence[Recommendation]) -> Table:
    """Return a row per job: what to change, and what is expected of it."""
    titles = ("JOB", "CHANGE", "SLOT-HOURS", "RESCALES", "LAG P99", "MIN OVER SLO", "SCORE")
    changes = [", ".join(f"{key}: {value}" for key, value in each.changes.items()) for each in recommendations]
    rows = [
        (each.job_key, text or "none", *_expected(each)) for each, text in zip(recommendations, changes, strict=True)
    ]
    return titles, rows


def recommendation_document(each: Recommendation) -> dict[str, Any]:
    """Return what is recommended for a job, for JSON."""
    present, expected = each.present, each.expected
    return {
        "job_key": each.job_key,
        "changes": dict(each.changes),
        "present": None if present is None else asdict(present),
        "expected": None if expected is None else asdict(expected),
        "difference": None
        if present is None or expected is None
        else {name: getattr(expected, name) - getattr(present, name) for name in _FORMATS},
        "chosen_on_days": each.chosen_on / DAY,
        "judged_on_days": each.judged_on / DAY,
        "is_judged_on_unseen_days": each.is_unseen,
        "rejected": dict(each.rejected),
        "head_room": each.head_room,
    }


def _expected(each: Recommendation) -> tuple[str, ...]:
    names = ("slot_hours", "rescales", "lag_p99", "over_slo", "score")
    present, expected = each.present, each.expected
    if present is None or expected is None:
        return ("-",) * len(names)
    return tuple(
        f"{_shown(present, name)} → {_shown(expected, name)}" if each.changes else _shown(present, name)
        for name in names
    )


def _shown(figures: Measures | Total, name: str) -> str:
    value = getattr(figures, name)
    return format(value / 60 if name == "over_slo" else value, _FORMATS[name])  # minutes are what people read


def totals_table(totals: Sequence[Total], bounds: Bounds | None) -> Table:
    """Return a row per configuration, and one per bound."""
    first = totals[0].slot_hours
    rows = [(total.name, str(total.jobs), *_cells(total, first)) for total in totals]
    return ("CONFIGURATION", "JOBS", *_TITLES), [*rows, *_bound_rows(bounds, first, ("",))]


def job_table(job: JobComparison) -> Table:
    """Return a row per configuration, and one per bound, of a job."""
    first = next((run.figures.slot_hours for run in job.runs.values() if run.figures is not None), None)
    rows = [
        (name, *(("-",) * len(_TITLES) if run.figures is None else _cells(run.figures, first)))
        for name, run in job.runs.items()
    ]
    bounds = None if job.bounds is None else job.bounds.bounds
    return (job.subject.job_key, *_TITLES), [*rows, *_bound_rows(bounds, first)]


def _cells(figures: Measures | Total, first: float | None) -> tuple[str, ...]:
    return (
        _shown(figures, "slot_hours"),
        _change(figures.slot_hours, first),
        f"{figures.ups}/{figures.downs}",
        *(_shown(figures, name) for name in ("lag_p95", "lag_p99", "lag_max", "over_slo", "score")),
    )


def _bound_rows(bounds: Bounds | None, first: float | None, before: Sequence[str] = ()) -> Iterator[Sequence[str]]:
    """Yield a row per bound that is known, the greatest first."""
    for name, label in BOUNDS.items() if bounds is not None else ():
        value = getattr(bounds, name)
        if value is not None:
            yield f"  {label}", *before, f"{value:,.1f}", _change(value, first)


def _change(value: float, first: float | None) -> str:
    return "" if not first or value == first else f"{value / first - 1:+.1%}"
