"""What backtests came to: tables for people, documents for programs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

from flink_autoscaler.pipeline.backtest.compare import Comparison, JobComparison, Total
from flink_autoscaler.pipeline.backtest.plan import BOUNDS, Bounds
from flink_autoscaler.pipeline.backtest.tune import Recommendation, basis_of
from flink_autoscaler.pipeline.simulator.measures import Measures
from flink_autoscaler.pipeline.simulator.workloads import DAY
from flink_autoscaler.standalone.cli.output import (
    Row,
    Rows,
    first_of,
    one_line,
    print_document,
    print_error,
    print_table,
    write_out,
)

_MOST_JOBS: Final = 20
"""Jobs whose tables are printed; JSON and the report have all."""

_MOST_LINES: Final = 10
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


def print_comparison(comparison: Comparison) -> None:
    """Print the totals, and the jobs where there are several, but not too many."""
    if comparison.totals:
        print_table(*_totals_table(comparison.totals, comparison.bounds))
    jobs = comparison.jobs if len(comparison.jobs) > 1 or not comparison.totals else ()
    for job in jobs[:_MOST_JOBS]:
        write_out("\n")
        print_table(*_job_table(job))
    if len(jobs) > _MOST_JOBS:
        write_out(f"\nand {len(jobs) - _MOST_JOBS} more jobs; --json and --output have all\n")
    _print_notes(comparison)


def _print_notes(comparison: Comparison) -> None:
    """Print what had to be assumed about jobs, where there are few."""
    notes = [f"{one_line(job.subject.job_key)}: {one_line(note)}" for job in comparison.jobs for note in job.notes]
    _print_lines(notes, " remarks; --json and --output have all")


def _print_lines(lines: Sequence[str], rest: str) -> None:
    """Print the first of some lines below an empty one."""
    if lines:
        write_out("\n")
    for line in first_of(lines, _MOST_LINES, rest):
        write_out(f"{line}\n")


def print_problems(comparison: Comparison, damaged: Sequence[str]) -> None:
    """Print to standard error what was left out, and what went wrong."""
    left_out = [f"{each.job_key} was left out: {each.reason}" for each in comparison.left_out]
    _print_errors([*comparison.problems, *left_out])
    print_damaged(damaged)
    if comparison.pending:
        print_error(f"{comparison.pending} of the runs were not finished")


def print_damaged(damaged: Sequence[str]) -> None:
    """Print to standard error which files were left out."""
    _print_errors([f"a damaged file was left out: {problem}" for problem in damaged])


def _print_errors(lines: Sequence[str]) -> None:
    for line in first_of(list(map(one_line, lines)), _MOST_LINES, "; --json has all"):
        print_error(line)


def show_recommendations(
    recommendations: Sequence[Recommendation], comparison: Comparison, document: Mapping[str, Any] | None
) -> None:
    """Print what to change, and what is expected of it.

    Args:
        recommendations: One per job.
        comparison: What they rest on.
        document: Of the comparison: print JSON, with this behind the recommendations; None prints tables.
    """
    if document is not None:
        print_document({"recommendations": list(map(_document, recommendations)), **document})
        return
    titles = ("JOB", "CHANGE", "SLOT-HOURS", "RESCALES", "LAG P99", "MIN OVER SLO", "SCORE")
    rows = [(each.job_key, _changes(each), *_expected(each)) for each in recommendations]
    print_table(titles, rows)
    _print_lines(list(map(one_line, basis_of(recommendations))), "; --json and --output have all")
    _print_notes(comparison)


def _changes(each: Recommendation) -> str:
    return ", ".join(f"{key}: {value}" for key, value in each.changes.items()) or "none"


def _document(each: Recommendation) -> dict[str, Any]:
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


def _totals_table(totals: Sequence[Total], bounds: Bounds | None) -> Rows:
    first = totals[0].slot_hours
    rows = [(total.name, str(total.jobs), *_cells(total, first)) for total in totals]
    return ("CONFIGURATION", "JOBS", *_TITLES), [*rows, *_bound_rows(bounds, first, ("",))]


def _job_table(job: JobComparison) -> Rows:
    first = next((run.figures.slot_hours for run in job.runs.values() if run.figures is not None), None)
    rows = [
        (name, *(("-",) * len(_TITLES) if run.figures is None else _cells(run.figures, first)))
        for name, run in job.runs.items()
    ]
    bounds = None if job.bounds is None else job.bounds.bounds
    return (one_line(job.subject.job_key), *_TITLES), [*rows, *_bound_rows(bounds, first)]


def _cells(figures: Measures | Total, first: float | None) -> tuple[str, ...]:
    return (
        _shown(figures, "slot_hours"),
        _change(figures.slot_hours, first),
        f"{figures.ups}/{figures.downs}",
        *(_shown(figures, name) for name in ("lag_p95", "lag_p99", "lag_max", "over_slo", "score")),
    )


def _bound_rows(bounds: Bounds | None, first: float | None, before: Row = ()) -> Iterator[Row]:
    """Yield a row per bound that is known, the greatest first."""
    for name, label in BOUNDS.items() if bounds is not None else ():
        value = getattr(bounds, name)
        if value is not None:
            yield f"  {label}", *before, f"{value:,.1f}", _change(value, first)


def _change(value: float, first: float | None) -> str:
    return "" if not first or value == first else f"{value / first - 1:+.1%}"
