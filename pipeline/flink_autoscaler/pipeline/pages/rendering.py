"""Templates of pages, and figures and instants as people read them. All texts are foreign, and escaped."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from importlib.resources import files

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from flink_autoscaler.core.model.numbers import three_digits
from flink_autoscaler.core.model.syntax import escape_text

_MINUTE, _HOUR, _DAY = 60, 3600, 86_400


def templates_of(package: str) -> Environment:
    """Return the templates in the folder ``templates`` of a package."""
    environment = Environment(
        loader=PackageLoader(package),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"number": number, "percent": percent, "lasting": lasting, "instant": instant}
    return environment


def style() -> str:
    """Return the style sheet of all pages."""
    return files("flink_autoscaler.pipeline.pages").joinpath("page.css").read_text(encoding="utf-8")


def _shown(value: object) -> object:
    """Return a value of a template as it is shown; drawings are markup already, with foreign texts in them."""
    if isinstance(value, Markup):
        return Markup(escape_text(str(value)))  # noqa: S704 - it was markup before
    return escape_text(value) if isinstance(value, str) else value


def number(value: float | None) -> str:
    """Write a number with three digits, or a dash where it is not known."""
    if value is None or not math.isfinite(value):
        return "–"
    return three_digits(value)


def percent(value: float | None) -> str:
    """Write a share of 0..1."""
    return "–" if value is None else f"{value:.0%}"


def lasting(seconds: float | None) -> str:
    """Write a duration."""
    if seconds is None or not math.isfinite(seconds):
        return "–"
    for unit, length in (("d", _DAY), ("h", _HOUR), ("min", _MINUTE)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.3g} s"


def instant(at_ms: float | None) -> Markup:
    """Write an instant; the page of a daemon shows it in the time of the browser."""
    if at_ms is None:
        return Markup("–")
    return time_element(at_ms, f"{utc(at_ms):%Y-%m-%d %H:%M:%S} UTC")


def time_element(at_ms: float, text: str, kind: str = "") -> Markup:
    """Make an element of an instant, with its text in UTC and a class for scripts and style."""
    of_kind = Markup(' class="{}"').format(kind) if kind else ""
    return Markup('<time{} datetime="{:%Y-%m-%dT%H:%M:%SZ}">{}</time>').format(of_kind, utc(at_ms), text)


def utc(at_ms: float) -> datetime:
    """Return an instant of epoch milliseconds."""
    return datetime.fromtimestamp(at_ms / 1000, UTC)
