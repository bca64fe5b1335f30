"""The change of a backlog over a window shorter than the metric window."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

Sample = tuple[float, float]
"""An instant and the records of lag then."""

_LEAST_SHARE: Final = 0.5
"""Of the window that samples have to span before their slope is taken for that of the window."""


def with_sample(samples: Sequence[Sample], now: float, lag: float, window: float) -> tuple[Sample, ...]:
    """Return the samples of the window with one more; those of the future, which a clock that was set left, go."""
    return (*((at, value) for at, value in samples if now - window <= at < now), (now, lag))


def slope_of(samples: Sequence[Sample], window: float) -> float | None:
    """Return the least-squares slope, records/s; None where the samples span less than half of the window."""
    if not samples or samples[-1][0] - samples[0][0] < _LEAST_SHARE * window:
        return None
    middle = sum(at for at, _ in samples) / len(samples)
    spread = sum((at - middle) ** 2 for at, _ in samples)
    return sum((at - middle) / spread * lag for at, lag in samples)
