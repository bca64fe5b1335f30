"""What the report says about a job beside what Flink itself said while it ran."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from pathlib import Path

from markupsafe import Markup
from pictures.browser import page_picture, report_picture

from flink_autoscaler.pipeline.pages.drawing import Curve, Times, chart
from flink_autoscaler.pipeline.pages.rendering import style

_REPORT_WIDTH = 1100
_OWN_WIDTH = 620

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
    page_picture(page, picture, width=_REPORT_WIDTH + _OWN_WIDTH + 40)
    told.unlink()
    page.unlink()


def _page(told: Path, seen: Seen) -> str:
    names = sorted({name for _, running in seen for name in running})
    times = Times(seen[0][0] * 1000, seen[-1][0] * 1000)
    charts = [
        chart(
            name,
            "subtasks",
            [Curve("work", [(at * 1000, running.get(name)) for at, running in seen], is_step=True)],
            times,
        )
        for name in names
    ]
    return Markup(
        "<style>{}</style><div style='display: flex; gap: 16px'><img src='data:image/png;base64,{}' alt='the report'>"
        "<div style='width: {}px'><p><b>Flink's own figures</b>: parallelism of the vertex <i>work</i>, asked every "
        "5 s over REST</p>{}</div></div>"
    ).format(
        Markup(style()),
        base64.b64encode(told.read_bytes()).decode("ascii"),
        _OWN_WIDTH,
        Markup("").join(charts),
    )
