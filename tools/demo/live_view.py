"""The picture on a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from demo.plan import JOB_NAME
from demo.screen import Frame, count_text, note_line, parallelism_text, rate_text
from flink_cluster.job import WORK_VERTEX

_BARS = "▁▂▃▄▅▆▇█"
# Everything fits a terminal of 80 columns and 24 rows.
_WIDTH = 78
_HISTORY_WIDTH = 44
_NOTES = 6
_REASONS = 3


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
    return Group(_progress(frame), _quantities(frame), _vertices(frame), _notes(frame), _thinking(frame))


def _progress(frame: Frame) -> RenderableType:
    total = frame.plan.seconds
    title = f"job '{JOB_NAME}' on Flink, daemon with the {frame.engine} engine   {frame.second:4.0f} of {total} s"
    waiting = [Text(f"waiting: {text}", style="yellow") for text in frame.waiting_for]
    bar = Table.grid()  # the bar alone does not end its line
    bar.add_row(ProgressBar(total, max(0.0, min(frame.second, total)), width=_WIDTH))
    return Group(Text(title, style="bold"), bar, *waiting)


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
    for name, now, points, style in (
        ("arrival", rate_text(arrivals[-1][1] if arrivals else None), arrivals, "cyan"),
        ("lag", count_text(story.lag), lags, "red"),
        (f"parallelism of {WORK_VERTEX}", count_text(work[-1][1] if work else None), work, "green"),
    ):
        table.add_row(name, now, Text(sparkline(points, frame.start, end), style=style))
    return table


def _vertices(frame: Frame) -> Table:
    story = frame.story
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("vertex", width=22)
    table.add_column("parallelism")
    for name, real in story.parallelism.items():
        wanted = story.wanted.get(name)
        style = "" if wanted in (None, real) else "bold yellow"
        table.add_row(Text(name), Text(parallelism_text(real, wanted), style=style))
    return table


def _notes(frame: Frame) -> RenderableType:
    lines = [note_line(note, frame.start) for note in frame.story.notes[-_NOTES:]] or ["nothing yet"]
    return Panel(Text("\n".join(lines), no_wrap=True, overflow="ellipsis"), title="what happened", title_align="left")


def _thinking(frame: Frame) -> RenderableType:
    thinking = frame.story.thinking
    if thinking is None:
        return Text("the daemon has not looked at the job yet", style="dim")
    lines = [f"daemon: {thinking.phase}", *(f"  {reason}" for reason in thinking.reasons[:_REASONS])]
    return Text("\n".join(lines), style="dim", no_wrap=True, overflow="ellipsis")


class LiveScreen:
    """Draws every frame over the one before."""

    def __init__(self, console: Console) -> None:
        self._live = Live(console=console, auto_refresh=False, transient=False)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()

    def show(self, frame: Frame) -> None:
        """Draw the frame."""
        self._live.update(picture(frame), refresh=True)
