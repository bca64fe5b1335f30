"""Lines over time as SVG, which needs no script. Colours come from the style sheet."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from markupsafe import Markup

from flink_autoscaler.pipeline.pages.rendering import number, time_element, utc

COLOURS: Final = 9
"""Curves that can be told apart."""

_WIDTH, _HEIGHT, _MARGIN = 640, 160, 4
_COLUMNS: Final = 48
"""Of a chart, each of which tells its values to a mouse."""
_TICKS: Final = 4
_SPARK_POINTS: Final = 40
_CLOCK_SPAN_MS: Final = 36 * 3_600_000
"""Up to so long a time of day says when something was."""
_ROUND: Final = (1, 2, 4, 6, 8, 10)

Values = Sequence[tuple[float, float | None]]
"""Instants (epoch milliseconds), in order, and values; None is not known."""


@dataclass(frozen=True, slots=True)
class Curve:
    """Values over time.

    Attributes:
        name: For the legend.
        is_step: Whether a value holds until the next.
        is_dashed: Whether it is something that was not measured.
        is_filled: Whether what is below is filled.
        upper: Where given, the upper edge of a band that begins at the values.
    """

    name: str
    values: Values
    is_step: bool = False
    is_dashed: bool = False
    is_filled: bool = False
    upper: Values = ()

    @property
    def known(self) -> list[tuple[float, float]]:
        """The instants at which something is known, and what."""
        return [(at_ms, value) for at_ms, value in self.values if value is not None]


@dataclass(frozen=True, slots=True)
class Times:
    """The time that charts are about, epoch milliseconds.

    Attributes:
        marks: Instants at which something happened, and whether it went wrong.
    """

    since_ms: float
    until_ms: float
    marks: Sequence[tuple[float, bool]] = ()

    def share(self, at_ms: float) -> float:
        """Return where an instant is: 0 at the beginning, 1 at the end."""
        return (at_ms - self.since_ms) / max(1, self.until_ms - self.since_ms)

    def instant(self, share: float) -> float:
        """Return the instant that is somewhere."""
        return self.since_ms + share * (self.until_ms - self.since_ms)


def sparkline(values: Values, ticks: Sequence[tuple[float, bool]] = ()) -> Markup:
    """Draw a curve without axes, in few bytes: a long list has one for every job.

    Args:
        values: What is drawn; of many every second or third.
        ticks: Instants (epoch milliseconds) at which something happened, and whether it went up.
    """
    known = Curve("load", values).known
    known = known[:: -(1 + len(known) // _SPARK_POINTS)][::-1]
    drawn = ""
    if len(known) > 1:
        times, top = Times(known[0][0], known[-1][0]), max(value for _, value in known) or 1.0
        points = [(round(120 * times.share(at_ms)), round(23 - 21 * value / top)) for at_ms, value in known]
        line = "L".join(f"{x} {y}" for x, y in points)
        marks = (
            f"M{x - 3} 24l3-5l3 5z" if is_up else f"M{x - 3} 19l3 5l3-5z"
            for x, is_up in ((round(120 * times.share(at_ms)), is_up) for at_ms, is_up in ticks)
            if 0 <= x <= 120  # noqa: PLR2004 - the width
        )
        drawn = f'<path class="area" d="M0 24L{line}V24z"/><path d="M{line}"/><path class="tick" d="{"".join(marks)}"/>'
    label = f"load lately{f', {len(ticks)} rescales' if ticks else ''}"
    return Markup('<svg class="spark" width="120" height="24" role="img" aria-label="{}">{}</svg>').format(
        label,
        Markup(drawn),  # noqa: S704 - numbers alone
    )


def chart(title: str, unit: str, curves: Sequence[Curve], times: Times) -> Markup:
    """Draw curves with axes, a legend and what happened; nothing where none has two values."""
    known = [each for each in curves if len(each.known) > 1]
    if not known:
        return Markup("")
    top = _round_top(known)
    plane = _Plane(times, (_WIDTH, _HEIGHT), _MARGIN, top)
    legend = Markup("").join(
        Markup('<span class="key c{}">{}</span> ').format(place % COLOURS, curve.name)
        for place, curve in enumerate(known)
    )
    return Markup(
        '<figure class="chart"><figcaption>{title} <small>{unit}</small> {legend}</figcaption>'
        '<div class="plot"><div class="values" aria-hidden="true"><span>{top}</span><span>{half}</span><span>0</span>'
        '</div><svg viewBox="0 0 {width} {height}" preserveAspectRatio="none" role="img" aria-label="{label}">'
        '<path class="grid" d="M0 {middle}H{width}"/>{drawn}</svg></div>'
        '<div class="times" aria-hidden="true">{ticks}</div></figure>'
    ).format(
        title=title,
        unit=unit,
        label=f"{title}, up to {number(_greatest(known))} {unit}",
        legend=legend,
        top=number(top),
        half=number(top / 2),
        width=_WIDTH,
        height=_HEIGHT,
        middle=_HEIGHT // 2,
        drawn=Markup("").join((*plane.marks(), *plane.paths(known), *plane.columns(known))),
        ticks=Markup("").join(_ticks(times)),
    )


def _greatest(curves: Sequence[Curve]) -> float:
    values = (value for curve in curves for _, value in (*curve.values, *curve.upper) if value is not None)
    return max(values, default=0.0) or 1.0


def _round_top(curves: Sequence[Curve]) -> float:
    """Return where an axis ends, of which the half is round, too; there is no half of what is counted."""
    top = _greatest(curves)
    if all(value % 1 == 0 for curve in curves for _, value in curve.known):
        top = max(2.0, top)
    power = 10.0 ** math.floor(math.log10(top))
    return next((step * power for step in _ROUND if step * power >= top), 10 * power)


def _ticks(times: Times) -> Iterator[Markup]:
    is_short = times.until_ms - times.since_ms <= _CLOCK_SPAN_MS
    for tick in range(_TICKS + 1):
        at_ms = times.instant(tick / _TICKS)
        yield time_element(
            at_ms, f"{utc(at_ms):{'%H:%M' if is_short else '%d %b %H:%M'}}", "clock" if is_short else "day"
        )


@dataclass(frozen=True, slots=True)
class _Plane:
    """Plane that maps instants and values to places of a drawing."""

    times: Times
    size: tuple[int, int]
    margin: int
    top: float

    def x(self, at_ms: float) -> float:
        return self.margin + (self.size[0] - 2 * self.margin) * self.times.share(at_ms)

    def y(self, value: float) -> float:
        return self.size[1] - self.margin - (self.size[1] - 2 * self.margin) * value / self.top

    def marks(self) -> Iterator[Markup]:
        """Yield lines for what happened; those of what went well end below."""
        for at_ms, is_bad in self.times.marks:
            if self.times.since_ms <= at_ms <= self.times.until_ms:
                yield Markup('<path class="mark{}" d="M{:.1f} {}V{}"/>').format(
                    " bad" if is_bad else "", self.x(at_ms), 0 if is_bad else self.size[1] // 2, self.size[1]
                )

    def paths(self, curves: Sequence[Curve]) -> Iterator[Markup]:
        """Yield the curves; what is not known interrupts them."""
        for place, curve in enumerate(curves):
            colour = f"c{place % COLOURS}{' dashed' if curve.is_dashed else ''}"
            if curve.upper:
                edge = [(self.x(at_ms), self.y(value)) for at_ms, value in reversed(curve.upper) if value is not None]
                line = [(self.x(at_ms), self.y(value)) for at_ms, value in curve.known]
                yield Markup('<path class="band {}" d="{}Z"/>').format(colour, _path([*line, *edge], is_step=False))
            paths, areas = [], []
            for is_known, stretch in groupby(curve.values, lambda each: each[1] is not None):
                if is_known:
                    points = [(self.x(at_ms), self.y(value or 0.0)) for at_ms, value in stretch]
                    paths.append(path := _path(points, is_step=curve.is_step))
                    areas.append(f"{path}V{self.y(0):.1f}H{points[0][0]:.1f}Z")
            if curve.is_filled:
                yield Markup('<path class="band {}" d="{}"/>').format(colour, "".join(areas))
            yield Markup('<path class="{}" d="{}"/>').format(colour, "".join(paths))

    def columns(self, curves: Sequence[Curve]) -> Iterator[Markup]:
        """Yield parts of the time that tell a mouse what was."""
        instants = [[at_ms for at_ms, _ in curve.values] for curve in curves]
        width = self.size[0] / _COLUMNS
        for column in range(_COLUMNS):
            at_ms = self.times.instant((column + 0.5) / _COLUMNS)
            lines = [f"{utc(at_ms):%Y-%m-%d %H:%M} UTC"]
            for curve, known in zip(curves, instants, strict=True):
                place = bisect_left(known, at_ms)
                value = curve.values[place][1] if place < len(known) else None
                lines.append(f"{curve.name}: {number(value)}")
            yield Markup('<rect class="column" x="{:.1f}" width="{:.1f}" height="{}"><title>{}</title></rect>').format(
                column * width, width, self.size[1], "\n".join(lines)
            )


def _path(points: Sequence[tuple[float, float]], *, is_step: bool) -> str:
    """Return the data of a path; a single point is one that has no length."""
    (x, y), *more = points
    steps = (f"H{x:.1f}V{y:.1f}" if is_step else f"L{x:.1f} {y:.1f}" for x, y in more)
    return f"M{x:.1f} {y:.1f}{''.join(steps) or 'h0'}"
