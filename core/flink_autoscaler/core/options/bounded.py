"""Readers for numbers and durations that only make sense within limits."""

from __future__ import annotations

import math
from collections.abc import Callable

from flink_autoscaler.core.model import syntax


def number_from(least: float, most: float = math.inf) -> Callable[[str], float]:
    """Return a reader of finite numbers from ``least`` to ``most``, both included."""

    def parse(text: str) -> float:
        value = syntax.parse_double(text)
        if not (math.isfinite(value) and least <= value <= most):
            raise ValueError(f"a number in {limits_text(least, most)}")
        return value

    return parse


def limits_text(least: float, most: float = math.inf) -> str:
    """Write limits as the reference page shows them."""
    return f"[{least:g}, {'+Infinity' if math.isinf(most) else f'{most:g}'}]"


def positive_duration(text: str) -> syntax.Duration:
    """Read a duration that is not 0."""
    duration = syntax.parse_duration(text)
    if duration.nanoseconds == 0:
        raise ValueError("a duration above 0")
    return duration
