"""Shows what backtests came to: tables for people, documents for programs."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any, Final

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from flink_autoscaler.pipeline.backtest.compare import Comparison, JobComparison, Total
from flink_autoscaler.pipeline.backtest.plan import BOUNDS, Bounds
from flink_autoscaler.pipeline.backtest.tune import Recommendation, basis_of
from flink_autoscaler.pipeline.history.catalog import Progress as Tell
from flink_autoscaler.pipeline.simulator.measures import Measures
from flink_autoscaler.pipeline.simulator.workloads import DAY
from flink_autoscaler.standalone.cli import report_view
from flink_autoscaler.standalone.fetchers.job_keys import printable

MOST_JOBS: Final = 20
"""Jobs whose tables are printed; JSON and the report have all."""

_MOST_LINES: Final = 10
_TITLES: Final = ("SLOT-HOURS", "CHANGE", "UP/DOWN", "LAG P95", "P99", "MAX", "MIN OVER SLO", "SCORE")


@contextmanager
def progress(what: str) -> Iterator[Tell]:
    """Show a bar on standard error while something is done, where that is a terminal."""
    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, of: bar.update(task, completed=done, total=of)


def print_comparison(comparison: Comparison) -> None:
    """Print the totals, and the jobs where there are several, but not too many."""
    if comparison.totals:
        report_view.print_table(_totals_table(comparison.totals, comparison.bounds))
    jobs = comparison.jobs if len(comparison.jobs) > 1 or not comparison.totals else ()
    for job in jobs[:MOST_JOBS]:
        sys.stdout.write("\n")
        report_view.print_table(_job_table(job))
    if len(jobs) > MOST_JOBS:
        sys.stdout.write(f"\nand {len(jobs) - MOST_JOBS} more jobs; --json and --output have all\n")
    print_notes(comparison)


def print_notes(comparison: Comparison) -> None:
    """Print what had to be assumed about jobs, where there are few."""
    notes = [(job.subject.job_key, note) for job in comparison.jobs for note in job.notes]
    if notes:
        sys.stdout.write("\n")
    for job_key, note in notes[:_MOST_LINES]:
        sys.stdout.write(f"{printable(job_key)}: {printable(note)}\n")
    if len(notes) > _MOST_LINES:
        sys.stdout.write(f"and {len(notes) - _MOST_LINES} more remarks; --json and --output have all\n")


def print_problems(comparison: Comparison, damaged: Sequence[str]) -> None:
    """Print to standard error what was left out, and what went wrong."""
    left_out = [f"{each.job_key} was left out: {each.reason}" for each in comparison.left_out]
    _print_errors([*comparison.problems, *left_out])
    print_damaged(damaged)
    if comparison.pending:
        report_view.print_error(f"{comparison.pending} of the runs were not finished")


def print_damaged(damaged: Sequence[str]) -> None:
    """Print to standard error which files were left out."""
    _print_errors([f"a damaged file was left out: {problem}" for problem in damaged])


def _print_errors(lines: Sequence[str]) -> None:
    for line in lines[:_MOST_LINES]:
        report_view.print_error(printable(line))
    if len(lines) > _MOST_LINES:
        report_view.print_error(f"and {len(lines) - _MOST_LINES} more; --json has all")


def print_recommendations(recommendations: Sequence[Recommendation]) -> None:
    """Print what to change, and what is expected of it."""
    table = report_view.table_of("JOB", "CHANGE", "SLOT-HOURS", "RESCALES", "LAG P99", "MIN OVER SLO", "SCORE")
    for each in recommendations:
        changes = ", ".join(f"{key}: {value}" for key, value in each.changes.items()) or "none"
        report_view.add_row(table, each.job_key, changes, *_expected(each))
    report_view.print_table(table)
    lines = basis_of(recommendations)
    if lines:
        sys.stdout.write("\n")
    for line in lines[:_MOST_LINES]:
        sys.stdout.write(f"{printable(line)}\n")
    if len(lines) > _MOST_LINES:
        sys.stdout.write(f"and {len(lines) - _MOST_LINES} more; --json and --output have all\n")


def recommendation_document(each: Recommendation) -> dict[str, Any]:
    """Return the same for JSON, with the expected change of the figures."""
    present, expected = each.present, each.expected
    known = present is not None and expected is not None
    return {
        "job_key": each.job_key,
        "changes": dict(each.changes),
        "present": None if present is None else asdict(present),
        "expected": None if expected is None else asdict(expected),
        "difference": _differences(present, expected) if known else None,  # type: ignore[arg-type]
        "chosen_on_days": each.chosen_on / DAY,
        "judged_on_days": each.judged_on / DAY,
        "is_judged_on_unseen_days": each.is_unseen,
        "rejected": dict(each.rejected),
    }


def _differences(present: Measures, expected: Measures) -> dict[str, float]:
    names = ("slot_hours", "rescales", "lag_p95", "lag_p99", "lag_max", "over_slo", "score")
    return {name: getattr(expected, name) - getattr(present, name) for name in names}


def _expected(each: Recommendation) -> tuple[str, ...]:
    present, expected = each.present, each.expected
    if present is None or expected is None:
        return ("-",) * 5
    pairs = (
        (present.slot_hours, expected.slot_hours, ",.1f"),
        (present.rescales, expected.rescales, "d"),
        (present.lag_p99, expected.lag_p99, ".0f"),
        (present.over_slo / 60, expected.over_slo / 60, ",.1f"),
        (present.score, expected.score, ",.1f"),
    )
    if not each.changes:
        return tuple(format(now, form) for now, _, form in pairs)
    return tuple(f"{now:{form}} → {then:{form}}" for now, then, form in pairs)


def _totals_table(totals: Sequence[Total], bounds: Bounds | None) -> Table:
    table = report_view.table_of("CONFIGURATION", "JOBS", *_TITLES)
    first = totals[0].slot_hours
    for total in totals:
        report_view.add_row(table, total.name, str(total.jobs), *_cells(total, first))
    _add_bounds(table, bounds, first, ("",))
    return table


def _job_table(job: JobComparison) -> Table:
    table = report_view.table_of(printable(job.subject.job_key), *_TITLES)
    first = next((run.figures.slot_hours for run in job.runs.values() if run.figures is not None), None)
    for name, run in job.runs.items():
        cells = _cells(run.figures, first) if run.figures is not None else ("-",) * len(_TITLES)
        report_view.add_row(table, name, *cells)
    _add_bounds(table, None if job.bounds is None else job.bounds.bounds, first)
    return table


def _cells(figures: Measures | Total, first: float | None) -> tuple[str, ...]:
    return (
        f"{figures.slot_hours:,.1f}",
        _change(figures.slot_hours, first),
        f"{figures.ups}/{figures.downs}",
        f"{figures.lag_p95:.0f}",
        f"{figures.lag_p99:.0f}",
        f"{figures.lag_max:.0f}",
        f"{figures.over_slo / 60:,.1f}",
        f"{figures.score:,.1f}",
    )


def _add_bounds(table: Table, bounds: Bounds | None, first: float | None, before: tuple[str, ...] = ()) -> None:
    """Add a row per bound that is known, the greatest first."""
    for name, label in BOUNDS.items() if bounds is not None else ():
        value = getattr(bounds, name)
        if value is not None:
            report_view.add_row(table, f"  {label}", *before, f"{value:,.1f}", _change(value, first))


def _change(value: float, first: float | None) -> str:
    return "" if not first or value == first else f"{value / first - 1:+.1%}"
