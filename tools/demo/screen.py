"""Display of the demo: one moving picture on a terminal, lines elsewhere, and a summary at the end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Final

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from demo.daemon import PASSES
from demo.plan import JOB_NAME, DemoPlan
from demo.story import Change, Rescale, Story
from testkit.clusters.flink.job import WORK_VERTEX

_BARS: Final = "▁▂▃▄▅▆▇█"
# Everything fits a terminal of 80 columns and 24 rows.
_WIDTH: Final = 78
_HISTORY_WIDTH: Final = 44
_NOTES: Final = 6
_REASONS: Final = 3
_LINE_EVERY: Final = 10.0


@dataclass(frozen=True)
class Frame:
    """Picture of one instant.

    Attributes:
        start: Second 0 of the curve, epoch seconds.
        now: Epoch seconds.
        engine: Where the daemon evaluates.
        waiting_for: What is still missing after the end of the curve; empty before.
    """

    plan: DemoPlan
    story: Story
    start: float
    now: float
    engine: str
    waiting_for: tuple[str, ...] = ()

    @property
    def second(self) -> float:
        """Seconds since the start."""
        return self.now - self.start


class Screen:
    """Shows frames. Belongs to one thread, which calls :meth:`show` about once a second inside :meth:`opened`."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = Live(console=console, auto_refresh=False) if console.is_terminal else None
        self._next_line = 0.0
        self._notes_shown = 0

    def opened(self) -> AbstractContextManager[object]:
        """Keep the place on a terminal where frames are drawn over each other."""
        return self._live or nullcontext()

    def show(self, frame: Frame) -> None:
        """Show how things are now: as a picture, or in lines what is new and every ten seconds the rest."""
        if self._live is not None:
            self._live.update(picture(frame), refresh=True)
            return
        for note in frame.story.notes[self._notes_shown :]:
            self._print(note_line(note, frame.start))
        self._notes_shown = len(frame.story.notes)
        if frame.second >= self._next_line:
            self._next_line = frame.second + _LINE_EVERY
            self._print(status_line(frame))

    def _print(self, text: str) -> None:
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)


def count_text(value: float | None, unit: str = "") -> str:
    """Return a number for people."""
    return "-" if value is None else f"{value:,.0f}{unit}"


def parallelism_text(real: int, wanted: int | None) -> str:
    """Return the real parallelism, and what is wanted instead."""
    return str(real) if wanted in (None, real) else f"{real} (wanted {wanted})"


def note_line(note: tuple[float, str], start: float) -> str:
    """Return one line about something that happened."""
    return f"{note[0] - start:6.0f} s  * {note[1]}"


def status_line(frame: Frame) -> str:
    """Return one line about how things are."""
    story = frame.story
    vertices = ", ".join(
        f"{name} {parallelism_text(real, story.wanted.get(name))}" for name, real in story.parallelism.items()
    )
    line = (
        f"{frame.second:6.0f} s  arrival {count_text(_last(story.arrivals()), '/s'):>8}"
        f"  lag {count_text(story.lag):>7}  parallelism: {vertices}  [{story.phase or '-'}]"
    )
    return f"{line}  waiting: {'; '.join(frame.waiting_for)}" if frame.waiting_for else line


def _last(points: Sequence[tuple[float, float]]) -> float | None:
    return points[-1][1] if points else None


def sparkline(points: Sequence[tuple[float, float]], start: float, end: float, width: int = _HISTORY_WIDTH) -> str:
    """Draw values over time, one character per slice of time and 0 as the lowest bar.

    Args:
        points: Instants and values, instants ascending.
        start: Instant of the left edge.
        end: Instant of the right edge, later than ``start``.
        width: Characters for the whole time; what has not happened yet is left out.

    Returns:
        The greatest value of every slice; a slice without one shows the value before it, or is blank.
    """
    slices: dict[int, float] = {}
    for at, value in points:
        index = min(width - 1, int((at - start) / (end - start) * width))
        if index >= 0:
            slices[index] = max(value, slices.get(index, 0.0))
    top = max(slices.values(), default=0.0)
    drawn, bar = [], " "
    for index in range(max(slices, default=-1) + 1):
        if index in slices:
            bar = _BARS[round(slices[index] / top * (len(_BARS) - 1))] if top > 0 else _BARS[0]
        drawn.append(bar)
    return "".join(drawn)


def picture(frame: Frame) -> RenderableType:
    """Draw everything."""
    story, total = frame.story, frame.plan.seconds
    title = f"job '{JOB_NAME}' on Flink, daemon with the {frame.engine} engine   {frame.second:4.0f} of {total} s"
    bar = Table.grid()  # the bar alone does not end its line
    bar.add_row(ProgressBar(total, max(0.0, min(frame.second, total)), width=_WIDTH))
    waiting = [Text(f"waiting: {text}", style="yellow") for text in frame.waiting_for]
    lines = [note_line(note, frame.start) for note in story.notes[-_NOTES:]] or ["nothing yet"]
    notes = Panel(Text("\n".join(lines), no_wrap=True, overflow="ellipsis"), title="what happened", title_align="left")
    phase = f"daemon: {story.phase}" if story.phase else "the daemon has not looked at the job yet"
    thinking = "\n".join([phase, *(f"  {reason}" for reason in story.reasons[:_REASONS])])
    last = Text(thinking, style="dim", no_wrap=True, overflow="ellipsis")
    return Group(Text(title, style="bold"), bar, *waiting, _quantities(frame), _vertices(story), notes, last)


def _quantities(frame: Frame) -> Table:
    story = frame.story
    arrivals = story.arrivals()
    lags = [(look.at, look.lag) for look in story.looks if look.lag is not None]
    work = [(look.at, float(look.parallelism[WORK_VERTEX])) for look in story.looks if look.parallelism]
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("quantity", width=22)
    table.add_column("now", justify="right", width=9)
    table.add_column(f"history, {frame.plan.seconds} s", no_wrap=True, min_width=_HISTORY_WIDTH)
    end = frame.start + max(frame.plan.seconds, frame.second)
    for name, unit, points, style in (
        ("arrival", "/s", arrivals, "cyan"),
        ("lag", "", lags, "red"),
        (f"parallelism of {WORK_VERTEX}", "", work, "green"),
    ):
        drawn = Text(sparkline(points, frame.start, end), style=style)
        table.add_row(name, count_text(_last(points), unit), drawn)
    return table


def _vertices(story: Story) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("vertex", width=22)
    table.add_column("parallelism")
    for name, real in story.parallelism.items():
        wanted = story.wanted.get(name)
        style = "" if wanted in (None, real) else "bold yellow"
        table.add_row(Text(name), Text(parallelism_text(real, wanted), style=style))
    return table


def print_summary(console: Console, story: Story, start: float, totals: Mapping[str, float]) -> None:
    """Print every rescale and the numbers.

    Args:
        console: Where to.
        story: What happened.
        start: Second 0 of the curve, epoch seconds.
        totals: The daemon's own counters; empty when it did not tell them.
    """
    rows: list[tuple[float, Change | Rescale, float | None, str]]
    rows = [(each.at, each, each.confirmed, each.reason) for each in story.changes]
    rows += [(each.at, each, 0.0, "not by the daemon") for each in story.rescales if each.change is None]
    table = Table(title="Rescales", title_justify="left", title_style="bold")
    for heading in ("time", "vertex", "from -> to", "confirmed by Flink", "reason"):
        table.add_column(heading, overflow="fold")
    for at, each, confirmed, reason in sorted(rows, key=lambda row: row[0]):
        told = "no" if confirmed is None else f"yes, after {confirmed:.1f} s"
        cells = (f"{at - start:.0f} s", each.vertex, f"{each.before} -> {each.after}", told, reason)
        table.add_row(*map(Text, cells))
    lags = (look.lag for look in story.looks if look.lag is not None)
    taken = (look.taken for look in story.looks if look.taken is not None)
    numbers = Table(box=None, pad_edge=False, show_header=False)
    numbers.add_row("peak lag", count_text(max(lags, default=None), " records"))
    numbers.add_row("final lag", count_text(story.final_lag, " records"))
    numbers.add_row("processed", count_text(max(taken, default=None), " records"))
    if totals:
        passes, on_spark = count_text(totals.get(PASSES)), count_text(totals.get(f"{PASSES} on spark", 0.0))
        fallbacks = count_text(totals.get("flink_autoscaler_spark_fallbacks_total"))
        numbers.add_row("the daemon", f"{passes} passes, {on_spark} on Spark, {fallbacks} fell back")
    console.print()
    console.print(Group(table if rows else Text("no rescale was decided"), Text(), numbers))
    console.print()
