"""The drawings of a job: its graph, and what arrived, could have and is expected, lag, slots and parallelism."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Final

from markupsafe import Markup, escape

from flink_autoscaler.core.errors import AutoscalerError
from flink_autoscaler.pipeline.pages.drawing import Curve, Times, chart
from flink_autoscaler.pipeline.pages.rendering import instant
from flink_autoscaler.standalone.settings.secrets import mask_secrets
from flink_autoscaler.standalone.views.jobs import JobDetailView, VertexView
from flink_autoscaler.standalone.views.series import SeriesView, SizeView
from flink_autoscaler.standalone.web.query_service import QueryService
from flink_autoscaler.standalone.web.requests import SeriesQuery

_HOUR_MS: Final = 3_600_000
_CURVES: Final = 4
"""Vertices whose parallelism is drawn; more are hard to tell apart."""
_BOX: Final = (190, 58)
_GAP: Final = (60, 18)
_SHORT: Final = 26
"""Characters of a name in the graph."""


class Range(StrEnum):
    """How much of the past the charts show."""

    HOURS = "hours"
    DAY = "day"
    WEEK = "week"

    @property
    def words(self) -> str:
        """For people."""
        return {"hours": "Last two hours", "day": "Last day", "week": "Last week"}[self.value]

    def query(self, job_key: str, now_ms: int) -> SeriesQuery:
        """Return what is asked of the series: what is in memory, or what the history has."""
        if self is Range.HOURS:
            return SeriesQuery(job=job_key, ahead=1.0)
        hours = 24 if self is Range.DAY else 7 * 24
        return SeriesQuery(job=job_key, from_ms=now_ms - hours * _HOUR_MS, ahead=6.0 if self is Range.DAY else 24.0)


def charts_of(answers: QueryService, job: JobDetailView, time: Range) -> Markup:
    """Draw the charts of a job, or say why there are none."""
    try:
        series = answers.series(time.query(job.job_key, answers.site.now_ms()))
    except AutoscalerError as error:
        return Markup('<p class="notice">{}</p>').format(mask_secrets(f"Nothing of that time can be shown: {error}."))
    drawn = Markup("").join(_charts(series, job.lag_limit_seconds))
    if not drawn:
        return Markup('<p class="notice">Nothing of that time is known.</p>')
    return Markup("<p>{} to {}; dashed lines are rescales.</p>{}{}").format(
        instant(series.since_ms), instant(series.until_ms), _damaged(series), drawn
    )


def _damaged(series: SeriesView) -> Markup:
    if not series.damaged:
        return Markup("")
    return Markup('<p class="notice bad">Files of the history could not be read: {}</p>').format(series.damaged[0])


def _charts(series: SeriesView, limit: float | None) -> Iterator[Markup]:
    points, forecast = series.points, series.forecast
    marks = [(each.decided_ms, each.is_reverted) for each in series.rescales]
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


def _expected(series: SeriesView) -> Iterator[Curve]:
    if series.forecast is not None:
        points = series.forecast.points
        name = "expected, median and upper quantile"
        yield Curve(
            name if series.forecast.is_trusted else f"{name} (not trusted now)",
            [(each.at_ms, each.median) for each in points],
            upper=[(each.at_ms, each.upper) for each in points],
        )


def _sizes(series: SeriesView) -> Iterator[Curve]:
    """Yield the vertices that were widest."""
    known = [each for each in series.vertices if each.sizes]
    for vertex in sorted(known, key=lambda each: -_widest(each.sizes))[:_CURVES]:
        yield Curve(vertex.name[:60], [(each.at_ms, each.parallelism) for each in vertex.sizes], is_step=True)


def _widest(sizes: Sequence[SizeView]) -> int:
    return max(each.parallelism for each in sizes)


def graph(vertices: Sequence[VertexView]) -> Markup:
    """Draw the graph of a job from left to right: parallelism, how busy, and the bottleneck."""
    layers = _layers(vertices)
    places = {
        vertex.vertex_id: (10 + column * (_BOX[0] + _GAP[0]), 10 + row * (_BOX[1] + _GAP[1]))
        for column, layer in enumerate(layers)
        for row, vertex in enumerate(layer)
    }
    if not places:
        return Markup("")
    width = 20 + max(x for x, _ in places.values()) + _BOX[0]
    height = 20 + max(y for _, y in places.values()) + _BOX[1]
    edges = Markup("").join(_edges(vertices, places))
    boxes = Markup("").join(_box(vertex, places[vertex.vertex_id]) for vertex in vertices)
    return Markup(
        '<div class="scroll"><svg class="graph" width="{w}" height="{h}" viewBox="0 0 {w} {h}" role="img" '
        'aria-label="the graph of the job">{edges}{boxes}</svg></div>'
    ).format(w=width, h=height, edges=edges, boxes=boxes)


def _layers(vertices: Sequence[VertexView]) -> list[list[VertexView]]:
    """Put every vertex behind all its inputs; inputs come before outputs."""
    depth: dict[str, int] = {}
    for vertex in vertices:
        depth[vertex.vertex_id] = 1 + max((depth.get(each, 0) for each in vertex.inputs), default=-1)
    layers: list[list[VertexView]] = [[] for _ in range(max(depth.values(), default=-1) + 1)]
    for vertex in vertices:
        layers[depth[vertex.vertex_id]].append(vertex)
    return layers


def _edges(vertices: Sequence[VertexView], places: Mapping[str, tuple[int, int]]) -> Iterator[Markup]:
    for vertex in vertices:
        for upstream in vertex.inputs:
            if upstream in places:
                (x, y), (to_x, to_y) = places[upstream], places[vertex.vertex_id]
                x, y, to_y = x + _BOX[0], y + _BOX[1] // 2, to_y + _BOX[1] // 2
                middle = (x + to_x) // 2
                yield Markup('<path class="edge" d="M{} {}C{} {} {} {} {} {}"/>').format(
                    x, y, middle, y, middle, to_y, to_x, to_y
                )


def _box(vertex: VertexView, place: tuple[int, int]) -> Markup:
    x, y = place
    busy = 0.0 if vertex.busy is None else max(0.0, min(1.0, vertex.busy))
    held = 0.0 if vertex.backpressured is None else max(0.0, min(1.0 - busy, vertex.backpressured))
    inner = _BOX[0] - 20
    wanted = "" if vertex.wanted is None else f" → {vertex.wanted}"
    name = vertex.name if len(vertex.name) <= _SHORT else vertex.name[: _SHORT - 1] + "…"
    shown = "" if vertex.busy is None else f", busy {vertex.busy:.0%}"
    return Markup(
        '<g class="vertex{kind}"><title>{full}</title><rect x="{x}" y="{y}" width="{w}" height="{h}" rx="6"/>'
        '<text x="{tx}" y="{t1}">{name}</text><text class="figures" x="{tx}" y="{t2}">{p}{wanted}{shown}</text>'
        '<rect class="busy" x="{tx}" y="{by}" width="{bw:.1f}" height="5"/>'
        '<rect class="held" x="{hx:.1f}" y="{by}" width="{hw:.1f}" height="5"/></g>'
    ).format(
        kind=" bottleneck" if vertex.is_bottleneck else "",
        full=escape(vertex.name[:500]),
        x=x,
        y=y,
        w=_BOX[0],
        h=_BOX[1],
        tx=x + 10,
        t1=y + 20,
        t2=y + 38,
        name=name,
        p=vertex.parallelism,
        wanted=wanted,
        shown=shown,
        by=y + 46,
        bw=inner * busy,
        hx=x + 10 + inner * busy,
        hw=inner * held,
    )
