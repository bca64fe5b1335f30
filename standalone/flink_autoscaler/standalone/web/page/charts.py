"""The drawings of a job: its graph; and which times its timeline can show."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Final

from markupsafe import Markup, escape

from flink_autoscaler.standalone.views.jobs import VertexView

_BOX: Final = (190, 58)
_GAP: Final = (60, 18)
_SHORT: Final = 26
"""Characters of a name in the graph."""


class Range(StrEnum):
    """How much of the past the timeline shows at first."""

    HOUR = "hour"
    HOURS = "hours"
    QUARTER = "quarter"
    DAY = "day"
    WEEK = "week"
    MONTH = "month"

    @property
    def hours(self) -> int:
        """How long that is; two hours are in memory, more is in the history."""
        return {"hour": 1, "hours": 2, "quarter": 6, "day": 24, "week": 168, "month": 720}[self.value]

    @property
    def words(self) -> str:
        """For people."""
        return f"{self.hours} h" if self.hours <= 24 else f"{self.hours // 24} d"  # noqa: PLR2004 - a day


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
