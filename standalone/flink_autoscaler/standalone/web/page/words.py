"""Figures and instants as people read them; instants are put into local time by the script of the page."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from urllib.parse import urlencode

from markupsafe import Markup

from flink_autoscaler.core.model.numbers import three_digits

_MINUTE, _HOUR, _DAY = 60, 3600, 86_400


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


def instant(at_ms: int | None) -> Markup:
    """Write an instant; the script shows it in the time of the browser."""
    if at_ms is None:
        return Markup("–")
    at = datetime.fromtimestamp(at_ms / 1000, UTC)
    machine, text = f"{at:%Y-%m-%dT%H:%M:%SZ}", f"{at:%Y-%m-%d %H:%M:%S} UTC"
    return Markup('<time datetime="{}">{}</time>').format(machine, text)


def link(path: str, **parameters: object) -> str:
    """Make an address of this page; parameters that are None or empty are left out."""
    given = {name: value for name, value in parameters.items() if value not in (None, "")}
    return f"{path}?{urlencode(given)}" if given else path
