"""The charts of a job: what arrived, could have and is expected, lag, slots and parallelism, with its rescales."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Final

from markupsafe import Markup

from flink_autoscaler.core.errors import AutoscalerError
from flink_autoscaler.standalone.settings.secrets import masked
from flink_autoscaler.standalone.web.api.answers import Answers
from flink_autoscaler.standalone.web.api.course_models import SeriesDoc, SizeDoc
from flink_autoscaler.standalone.web.api.models import JobDetailDoc
from flink_autoscaler.standalone.web.api.series import Asked
from flink_autoscaler.standalone.web.page.drawing import Curve, Times, chart
from flink_autoscaler.standalone.web.page.words import instant

_HOUR_MS: Final = 3_600_000
_CURVES: Final = 4
"""Vertices whose parallelism is drawn; there are as many colours."""


class Range(StrEnum):
    """How much of the past the charts show."""

    HOURS = "hours"
    DAY = "day"
    WEEK = "week"

    @property
    def words(self) -> str:
        """For people."""
        return {"hours": "Last two hours", "day": "Last day", "week": "Last week"}[self.value]

    def asked(self, now_ms: int) -> Asked:
        """Return what is asked of the series: what is in memory, or what the history has."""
        if self is Range.HOURS:
            return Asked(ahead=1.0)
        hours = 24 if self is Range.DAY else 7 * 24
        return Asked(now_ms - hours * _HOUR_MS, ahead=6.0 if self is Range.DAY else 24.0)


def charts_of(answers: Answers, job: JobDetailDoc, time: Range) -> Markup:
    """Draw the charts of a job, or say why there are none."""
    try:
        series = answers.series(job.job_key, time.asked(answers.site.now_ms()))
    except AutoscalerError as error:
        return Markup('<p class="notice">{}</p>').format(masked(f"Nothing of that time can be shown: {error}."))
    drawn = Markup("").join(_charts(series, job.lag_limit_seconds))
    if not drawn:
        return Markup('<p class="notice">Nothing of that time is known.</p>')
    return Markup("<p>{} to {}; dashed lines are rescales.</p>{}{}").format(
        instant(series.since_ms), instant(series.until_ms), _damaged(series), drawn
    )


def _damaged(series: SeriesDoc) -> Markup:
    if not series.damaged:
        return Markup("")
    return Markup('<p class="notice bad">Files of the history could not be read: {}</p>').format(series.damaged[0])


def _charts(series: SeriesDoc, limit: float | None) -> Iterator[Markup]:
    points, forecast = series.points, series.forecast
    marks = [each.decided_ms for each in series.rescales]
    times = Times(series.since_ms, series.until_ms, marks)
    ahead = times if forecast is None else Times(series.since_ms, forecast.points[-1].at_ms, marks)
    could = Curve("could", [(each.at_ms, each.capacity) for each in points])
    arrives = Curve("arrives", [(each.at_ms, each.load) for each in points])
    yield chart("Load", "records/s", [arrives, could, *_expected(series)], ahead)
    lag = Curve("lag", [(each.at_ms, each.lag_seconds) for each in points])
    allowed = Curve("allowed", [(each.at_ms, limit) for each in points])
    yield chart("Lag", "s", [lag, allowed], times)
    yield chart("Slots", "slots", [Curve("held", [(each.at_ms, each.slots) for each in points], is_step=True)], times)
    yield chart("Parallelism", "subtasks", list(_sizes(series)), times)


def _expected(series: SeriesDoc) -> Iterator[Curve]:
    if series.forecast is not None:
        points = series.forecast.points
        name = "expected, median and upper quantile"
        yield Curve(
            name if series.forecast.is_trusted else f"{name} (not trusted now)",
            [(each.at_ms, each.median) for each in points],
            upper=[(each.at_ms, each.upper) for each in points],
        )


def _sizes(series: SeriesDoc) -> Iterator[Curve]:
    """Yield the vertices that were widest."""
    known = [each for each in series.vertices if each.sizes]
    for vertex in sorted(known, key=lambda each: -_widest(each.sizes))[:_CURVES]:
        yield Curve(vertex.name[:60], [(each.at_ms, each.parallelism) for each in vertex.sizes], is_step=True)


def _widest(sizes: Sequence[SizeDoc]) -> int:
    return max(each.parallelism for each in sizes)
