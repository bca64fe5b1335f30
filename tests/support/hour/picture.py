"""What the report says about a job beside what Flink itself said while it ran."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from bokeh.embed import file_html
from bokeh.layouts import column, row
from bokeh.models import BasicTicker
from bokeh.models.widgets import Div
from bokeh.plotting import figure
from bokeh.resources import INLINE
from pictures.browser import plots_picture, report_picture

_REPORT_WIDTH = 1100
_OWN_WIDTH = 620
_HEIGHT = 220

Seen = Sequence[tuple[float, Mapping[str, int]]]
"""Epoch seconds, and by job the parallelism that Flink gave for it; jobs that did not run are left out."""


def beside(report: Path, seen: Seen, job: str, picture: Path) -> None:
    """Take a picture of a job in a report beside Flink's own figures of all jobs.

    Args:
        report: A file that ``flink-autoscaler report`` wrote.
        seen: What Flink said.
        job: Its name.
        picture: The PNG file to write.
    """
    told = picture.with_name("report.png")
    report_picture(report, told, width=_REPORT_WIDTH, job=job)
    page = picture.with_suffix(".html")
    page.write_text(_page(told, seen), encoding="utf-8")
    plots_picture(page, picture, width=_REPORT_WIDTH + _OWN_WIDTH + 40)
    told.unlink()
    page.unlink()


def _page(told: Path, seen: Seen) -> str:
    names = sorted({name for _, running in seen for name in running})
    data = base64.b64encode(told.read_bytes()).decode("ascii")
    heading = Div(text="<b>Flink's own figures</b>: parallelism of the vertex <i>work</i>, asked every 5 s over REST")
    own = column(heading, *(_chart(name, seen) for name in names))
    image = Div(text=f'<img src="data:image/png;base64,{data}" alt="the report">')
    return file_html(row(image, own, spacing=16), INLINE, "The report, and Flink's own figures")


def _chart(name: str, seen: Seen) -> figure:
    plot = figure(title=name, height=_HEIGHT, width=_OWN_WIDTH, x_axis_type="datetime", toolbar_location=None)
    instants = [datetime.fromtimestamp(at, UTC).replace(tzinfo=None) for at, _ in seen]
    plot.step(instants, [running.get(name, float("nan")) for _, running in seen], mode="after", line_width=2)
    plot.y_range.update(start=0)
    plot.yaxis.ticker = BasicTicker(min_interval=1)
    return plot
