"""Small drawings as SVG: lines over time, and the graph of a job. Colours come from the style sheet."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from markupsafe import Markup, escape

from flink_autoscaler.standalone.web.api.models import PointDoc, VertexDoc
from flink_autoscaler.standalone.web.page.words import number

_BOX: Final = (190, 58)
_GAP: Final = (60, 18)


@dataclass(frozen=True, slots=True)
class Curve:
    """Values over time.

    Attributes:
        name: For the legend.
        values: Instants (epoch milliseconds) and values; None is not known.
        is_step: Whether a value holds until the next.
        upper: Where given, the upper edge of a band that begins at the values.
    """

    name: str
    values: Sequence[tuple[int, float | None]]
    is_step: bool = False
    upper: Sequence[tuple[int, float]] = ()


@dataclass(frozen=True, slots=True)
class Times:
    """The time that charts are about, epoch milliseconds.

    Attributes:
        marks: Instants at which something happened.
    """

    since_ms: int
    until_ms: int
    marks: Sequence[int] = ()

    def at(self, at_ms: float) -> float:
        """Return where an instant is: 0 at the beginning, 1 at the end."""
        return (at_ms - self.since_ms) / max(1, self.until_ms - self.since_ms)


def sparkline(points: Sequence[PointDoc]) -> Markup:
    """Draw the load of the last hours, without axes."""
    curve = Curve("load", [(each.at_ms, each.load) for each in points])
    known = [at for at, value in curve.values if value is not None]
    times = Times(min(known), max(known)) if known else Times(0, 0)
    paths = Markup("").join(_paths([curve], times, (120, 24), 2)) if len(known) > 1 else Markup("")
    return Markup(
        '<svg class="spark" width="120" height="24" viewBox="0 0 120 24" role="img" aria-label="load lately">{}</svg>'
    ).format(paths)


def chart(title: str, unit: str, curves: Sequence[Curve], times: Times) -> Markup:
    """Draw curves with their greatest value, a legend and what happened; nothing where none has two values."""
    known = [each for each in curves if sum(value is not None for _, value in each.values) > 1]
    if not known:
        return Markup("")
    width, height = 640, 160
    top = _top(known)
    legend = Markup("").join(
        Markup('<span class="key c{}">{}</span>').format(place, curve.name) for place, curve in enumerate(known)
    )
    return Markup(
        '<figure class="chart"><figcaption>{title} <small>{unit}, up to {top}</small> {legend}</figcaption>'
        '<svg viewBox="0 0 {width} {height}" preserveAspectRatio="none" role="img" aria-label="{title}">{paths}</svg>'
        "</figure>"
    ).format(
        title=title,
        unit=unit,
        top=number(top),
        legend=legend,
        width=width,
        height=height,
        paths=Markup("").join((*_marks(times, width, height), *_paths(known, times, (width, height), 4))),
    )


def graph(vertices: Sequence[VertexDoc]) -> Markup:
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


def _top(curves: Iterable[Curve]) -> float:
    values = (value for curve in curves for _, value in (*curve.values, *curve.upper) if value is not None)
    return max(values, default=0.0) or 1.0


def _marks(times: Times, width: int, height: int) -> Iterator[Markup]:
    for at_ms in times.marks:
        yield Markup('<path class="mark" d="M{x:.1f} 0V{height}"/>').format(
            x=4 + (width - 8) * times.at(at_ms), height=height
        )


def _paths(curves: Sequence[Curve], times: Times, size: tuple[int, int], margin: int) -> Iterator[Markup]:
    (width, height), top = size, _top(curves)

    def at(at_ms: int, value: float) -> tuple[float, float]:
        return margin + (width - 2 * margin) * times.at(at_ms), height - margin - (height - 2 * margin) * value / top

    for place, curve in enumerate(curves):
        line = [at(at_ms, value) for at_ms, value in curve.values if value is not None]
        if curve.upper:
            edge = [at(at_ms, value) for at_ms, value in reversed(curve.upper)]
            yield Markup('<path class="band c{}" d="{}Z"/>').format(place, _path([*line, *edge], is_step=False))
        yield Markup('<path class="c{}" d="{}"/>').format(place, _path(line, is_step=curve.is_step))


def _path(places: Sequence[tuple[float, float]], *, is_step: bool) -> str:
    parts = [f"M{places[0][0]:.1f} {places[0][1]:.1f}"] if places else []
    for x, y in places[1:]:
        parts.append(f"H{x:.1f}V{y:.1f}" if is_step else f"L{x:.1f} {y:.1f}")
    return "".join(parts)


def _layers(vertices: Sequence[VertexDoc]) -> list[list[VertexDoc]]:
    """Put every vertex behind all its inputs; inputs come before outputs."""
    depth: dict[str, int] = {}
    for vertex in vertices:
        depth[vertex.vertex_id] = 1 + max((depth.get(each, 0) for each in vertex.inputs), default=-1)
    layers: list[list[VertexDoc]] = [[] for _ in range(max(depth.values(), default=-1) + 1)]
    for vertex in vertices:
        layers[depth[vertex.vertex_id]].append(vertex)
    return layers


def _edges(vertices: Sequence[VertexDoc], places: Mapping[str, tuple[int, int]]) -> Iterator[Markup]:
    for vertex in vertices:
        for upstream in vertex.inputs:
            if upstream in places:
                (x, y), (to_x, to_y) = places[upstream], places[vertex.vertex_id]
                x, y, to_y = x + _BOX[0], y + _BOX[1] // 2, to_y + _BOX[1] // 2
                middle = (x + to_x) // 2
                yield Markup('<path class="edge" d="M{} {}C{} {} {} {} {} {}"/>').format(
                    x, y, middle, y, middle, to_y, to_x, to_y
                )


def _box(vertex: VertexDoc, place: tuple[int, int]) -> Markup:
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


_SHORT: Final = 26
"""Characters of a name in the drawing."""
