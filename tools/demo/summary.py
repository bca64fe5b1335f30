"""What it came to: every rescale, the numbers, and one line that says whether it worked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from demo.daemon import DEFAULT_ENGINE
from demo.daemon_log import Change
from demo.plan import DemoPlan
from demo.screen import count_text
from demo.story import Rescale, Story, longest_above

ONE_RESCALE: Final = 30.0
"""Seconds for which a rescale may keep a job above the lag that is promised."""

_PASSES: Final = "flink_autoscaler_passes_total"


@dataclass(frozen=True)
class Row:
    """One change of one vertex.

    Attributes:
        at: When it was decided, or, without a decision, seen; epoch seconds.
        confirmed: Seconds until Flink showed the vertex running with it; None when it never did.
    """

    at: float
    vertex: str
    before: int
    after: int
    confirmed: float | None
    reason: str


def rescale_rows(story: Story) -> list[Row]:
    """Return every change that was decided or seen, in order; a decision and what came of it are one row."""
    unmatched = list(story.rescales)
    rows = []
    for decision in story.decisions:
        for change in decision.changes:
            rescale = _outcome(change, decision.at, unmatched)
            if rescale is not None:
                unmatched.remove(rescale)
            rows.append(_decided(change, decision.at, rescale))
    rows += [_seen(rescale) for rescale in unmatched]
    return sorted(rows, key=lambda row: row.at)


def _outcome(change: Change, at: float, rescales: list[Rescale]) -> Rescale | None:
    same = (each for each in rescales if each.change is change and each.after == change.after and each.at >= at)
    return next(same, None)


def _decided(change: Change, at: float, rescale: Rescale | None) -> Row:
    confirmed = None if rescale is None else rescale.at - at
    return Row(at, change.vertex, change.before, change.after, confirmed, change.reason)


def _seen(rescale: Rescale) -> Row:
    reason = "not by the daemon" if rescale.change is None else f"on the way to {rescale.change.after}"
    return Row(rescale.at, rescale.vertex, rescale.before, rescale.after, 0.0, reason)


def verdict(story: Story, missing: list[str]) -> str:
    """Return the one line that says whether it worked."""
    if missing:
        return f"FAILED: {'; '.join(missing)}"
    ups = sum(rescale.is_up for rescale in story.rescales)
    downs = len(story.rescales) - ups
    return f"PASSED: Flink confirmed {_counted(ups, 'up')} and {_counted(downs, 'down')}, and the lag drained"


def engine_shortfalls(engine: str, totals: Mapping[str, float]) -> list[str]:
    """Return what is missing where passes should run on Spark.

    Args:
        engine: Of the daemon.
        totals: The daemon's own counters; empty when it did not tell them.
    """
    if engine != DEFAULT_ENGINE or totals.get(f"{_PASSES} on {DEFAULT_ENGINE}"):
        return []
    return ["no pass ran on Spark" if totals else "the daemon did not tell what its passes ran on"]


def late_shortfalls(story: Story, plan: DemoPlan, start: float) -> list[str]:
    """Return what is missing where a lag is promised: it is above it for no longer than one rescale takes.

    Args:
        story: What happened.
        plan: What was to happen.
        start: Second 0 of the curve, epoch seconds.
    """
    limit = plan.lag_limit
    if limit is None:
        return []
    longest = longest_above(story.looks, lambda at: limit * plan.curve.rate(at - start))
    return [f"the lag was above {limit:g} s for {longest:.0f} s in a row"] if longest > ONE_RESCALE else []


def _counted(count: int, direction: str) -> str:
    return f"{count} scale-{direction}{'' if count == 1 else 's'}"


def summary(story: Story, start: float, totals: Mapping[str, float]) -> RenderableType:
    """Draw the table and the numbers.

    Args:
        story: What happened.
        start: Second 0 of the curve, epoch seconds.
        totals: The daemon's own counters; empty when it did not tell them.
    """
    numbers = Table(box=None, pad_edge=False, show_header=False)
    for name, value in _numbers(story, totals):
        numbers.add_row(name, value)
    return Group(_rescales(story, start), Text(), numbers)


def _rescales(story: Story, start: float) -> RenderableType:
    if not (story.decisions or story.rescales):
        return Text("no rescale was decided")
    table = Table(title="Rescales", title_justify="left", title_style="bold")
    table.add_column("time", justify="right")
    table.add_column("vertex")
    table.add_column("from -> to", justify="center")
    table.add_column("confirmed by Flink")
    table.add_column("reason", overflow="fold")
    for row in rescale_rows(story):
        confirmed = "no" if row.confirmed is None else f"yes, after {row.confirmed:.1f} s"
        cells = (f"{row.at - start:.0f} s", row.vertex, f"{row.before} -> {row.after}", confirmed, row.reason)
        table.add_row(*(Text(cell) for cell in cells))
    return table


def _numbers(story: Story, totals: Mapping[str, float]) -> list[tuple[str, str]]:
    rows = [
        ("peak lag", f"{count_text(story.peak_lag)} records"),
        ("final lag", f"{count_text(story.final_lag)} records"),
        ("processed", f"{count_text(story.processed)} records"),
    ]
    if totals:
        passes = count_text(totals.get(_PASSES))
        on_spark = count_text(totals.get(f"{_PASSES} on {DEFAULT_ENGINE}", 0.0))
        fallbacks = count_text(totals.get("flink_autoscaler_spark_fallbacks_total"))
        rows.append(("the daemon", f"{passes} passes, {on_spark} on Spark, {fallbacks} fell back"))
    return rows


def print_summary(console: Console, story: Story, start: float, totals: Mapping[str, float]) -> None:
    """Print it, with room around."""
    console.print()
    console.print(summary(story, start, totals))
    console.print()
