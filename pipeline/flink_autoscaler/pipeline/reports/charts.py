"""Charts, drawn by Bokeh in the browser."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Final, NamedTuple

import numpy as np
from bokeh.embed import json_item
from bokeh.models import (
    BasicTicker,
    ColumnDataSource,
    CrosshairTool,
    DatetimeTicker,
    DatetimeTickFormatter,
    HoverTool,
    NumeralTickFormatter,
    Range1d,
)
from bokeh.plotting import figure
from bokeh.resources import Resources
from jinja2.utils import htmlsafe_json_dumps
from markupsafe import Markup

from flink_autoscaler.pipeline.reports.report import Period, Series

COLORS: Final = ("#2f7ed8", "#e07b00", "#2a9d5c", "#c2453d", "#8e63ce", "#00929e", "#b8860b", "#c9509d", "#7d8590")
"""Told apart on white and on black; the first means what is, the second what could be or was expected."""

_BAD: Final = "#c2453d"
_MARK: Final = "#7d8590"
_HEIGHT: Final = 230
_LEGEND_HEIGHT: Final = 24
_SHORT_LEGEND: Final = 20
_LONGEST_LEGEND: Final = 40
"""Characters, of which as many fit on a phone."""

_INSTANT: Final = "%Y-%m-%d %H:%M"


class Chart(NamedTuple):
    """One chart.

    Attributes:
        title: For people.
        unit: Of the vertical axis.
        item: What BokehJS embeds: JSON that may stand within an element ``script``.
    """

    title: str
    unit: str
    item: Markup


class Line(NamedTuple):
    """One line of a chart.

    Attributes:
        is_step: Whether values hold until the next one.
        is_dashed: Whether it is something that was not measured.
        is_area: Whether what is below is filled.
        is_bar: Whether every value is a bar of its own.
        color: None takes the next one.
    """

    label: str
    values: Series
    is_step: bool = False
    is_dashed: bool = False
    is_area: bool = False
    is_bar: bool = False
    color: str | None = None

    @property
    def legend(self) -> str:
        """The label, cut to what fits on a phone."""
        return self.label if len(self.label) <= _LONGEST_LEGEND else f"{self.label[: _LONGEST_LEGEND - 1]}…"

    @property
    def is_known(self) -> bool:
        """Whether there is any value."""
        return any(value is not None for value in self.values)

    @property
    def top(self) -> float:
        """The greatest value; 0 without any."""
        return max((value for value in self.values if value is not None), default=0.0)


@cache
def script() -> str:
    """Return BokehJS, as the installed package has it; about 1.2 MB."""
    return "\n".join(Resources(mode="inline", components=["bokeh"], log_level="warn").js_raw)


def chart(
    title: str, unit: str, lines: Sequence[Line], period: Period, marks: Sequence[tuple[float, bool]] = ()
) -> Chart:
    """Draw lines over the period.

    Args:
        title: For people.
        unit: Of the vertical axis.
        lines: The first one has to have values; those without any are left out.
        period: One value of each line per bucket.
        marks: Instants of rescales, epoch seconds, and whether they went wrong.
    """
    known = [line for line in lines if line.is_known]
    plot = _figure(known, period)
    source = ColumnDataSource(_columns(known, period))
    for number, line in enumerate(known):
        _draw(plot, source, number, line)
    _mark(plot, marks, period)
    _add_hover(plot, known)
    _place_legend(plot, known)
    return Chart(title, unit, htmlsafe_json_dumps(json_item(plot), allow_nan=False))


def _figure(lines: Sequence[Line], period: Period) -> Any:
    top = max(line.top for line in lines)
    plot = figure(
        height=_HEIGHT,
        sizing_mode="stretch_width",
        x_axis_type="datetime",
        x_range=Range1d(start=period.since * 1000, end=period.until * 1000),
        y_range=Range1d(start=0, end=top * 1.08 if top > 0 else 1.0),
        tools="xpan,xbox_zoom,reset",
        active_drag=None,
        toolbar_location="above",
        border_fill_color=None,
    )
    plot.toolbar.update(logo=None, autohide=True)
    plot.yaxis.formatter = NumeralTickFormatter(format="0.[0]a" if top >= 10_000 else "0,0.[00]")  # noqa: PLR2004
    if all(line.is_bar for line in lines):
        plot.yaxis.ticker = BasicTicker(min_interval=1)  # bars count something: there is no half of it
    plot.xaxis.formatter = DatetimeTickFormatter(
        minutes="%H:%M", hourmin="%H:%M", hours="%H:%M", days="%d %b", months="%b %Y"
    )
    plot.xaxis.update(ticker=DatetimeTicker(desired_num_ticks=4))
    return plot


def _place_legend(plot: Any, lines: Sequence[Line]) -> None:
    """Put the legend below; the heading says enough about a single line."""
    legend = plot.legend[0]
    if len(lines) == 1:
        legend.visible = False
        return
    columns = 1 if any(len(line.legend) > _SHORT_LEGEND for line in lines) else 2
    plot.height = _HEIGHT + _LEGEND_HEIGHT * math.ceil(len(lines) / columns) + 10
    plot.add_layout(legend, "below")
    legend.update(
        orientation="horizontal",
        location="left",
        ncols=columns,
        click_policy="hide",
        border_line_alpha=0.0,
        padding=0,
        margin=4,
        spacing=2,
        label_text_font_size="12px",
    )


def _mark(plot: Any, marks: Sequence[tuple[float, bool]], period: Period) -> None:
    """Mark rescales at the foot of a chart, and those that went wrong from top to bottom."""
    top = plot.y_range.end
    for is_bad, color, height in ((False, _MARK, 0.06 * top), (True, _BAD, top)):
        instants = [at * 1000 for at, each in marks if each is is_bad and period.since <= at < period.until]
        if instants:
            source = ColumnDataSource({"at": np.array(instants)})
            plot.segment("at", 0, "at", height, source=source, line_color=color, line_width=1.5)


def _columns(lines: Sequence[Line], period: Period) -> Mapping[str, Any]:
    instants = [period.start_of(bucket) * 1000 for bucket in range(period.count)]
    columns = {f"y{number}": np.array(line.values, dtype=np.float32) for number, line in enumerate(lines)}
    return {"at": np.array(instants, dtype=np.float64), **columns}


def _draw(plot: Any, source: ColumnDataSource, number: int, line: Line) -> None:
    color, column = line.color or COLORS[number % len(COLORS)], f"y{number}"
    look = {
        "line_color": color,
        "line_width": 2,
        "line_dash": "dashed" if line.is_dashed else "solid",
        "legend_label": line.legend,
        "name": column,
    }
    if line.is_area:
        for stretch in _stretches(source, column):
            plot.varea("at", 0, "y", source=stretch, fill_color=color, fill_alpha=0.18, legend_label=line.legend)
    if line.is_bar:
        bars = {"width": _width(source), "fill_color": color, "line_color": color}
        plot.vbar("at", top=column, source=source, **bars, legend_label=line.legend, name=column)
    elif line.is_step:
        plot.step("at", column, source=source, mode="after", **look)
    else:
        plot.line("at", column, source=source, **look)


def _stretches(source: ColumnDataSource, column: str) -> list[ColumnDataSource]:
    """Return the stretches of a line that are known: an area that is drawn across a gap begins as a ramp from zero."""
    at, values = np.asarray(source.data["at"]), np.asarray(source.data[column])
    known = np.flatnonzero(np.isfinite(values))
    runs = np.split(known, np.flatnonzero(np.diff(known) > 1) + 1)
    return [ColumnDataSource({"at": at[run], "y": values[run]}) for run in runs if len(run)]


def _width(source: ColumnDataSource) -> float:
    at = source.data["at"]
    return float(at[1] - at[0]) * 0.8 if len(at) > 1 else 1.0


def _add_hover(plot: Any, lines: Sequence[Line]) -> None:
    """Tell all values of an instant at once: one hover on the first line, whose source has the columns of all."""
    first = next(each for each in plot.renderers if each.name == "y0")
    values = [(line.label, f"@y{number}{{0,0.[00]}}") for number, line in enumerate(lines)]
    plot.add_tools(
        HoverTool(
            renderers=[first],
            mode="vline",
            line_policy="nearest",
            tooltips=[("", f"@at{{{_INSTANT}}}"), *values],
            formatters={"@at": "datetime"},
        ),
        CrosshairTool(dimensions="height", line_alpha=0.4, line_color=_MARK),
    )
