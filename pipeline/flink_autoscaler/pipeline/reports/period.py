"""The time that a report is about, and how it is divided."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

MOST_BUCKETS: Final = 500
"""Of a chart: more points than a screen can tell apart only make the page larger."""

_WIDTHS: Final = (60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200, 86_400)
_DAY: Final = 86_400


@dataclass(frozen=True, slots=True)
class Period:
    """A stretch of time in buckets of one width. Instants are epoch seconds.

    Attributes:
        since: First instant, at a multiple of the width.
        until: The instant after the last.
        width: Seconds of a bucket.
    """

    since: float
    until: float
    width: int

    @classmethod
    def of(cls, since: float, until: float) -> Period:
        """Divide a stretch into round buckets, 500 of them at most.

        Raises:
            ValueError: It has no length.
        """
        if since >= until:
            raise ValueError("the period is empty")
        wanted = (until - since) / (MOST_BUCKETS - 1)
        width = next((width for width in _WIDTHS if width >= wanted), math.ceil(wanted / _DAY) * _DAY)
        return cls(math.floor(since / width) * width, until, width)

    @property
    def count(self) -> int:
        """Buckets, the last of which may end after the period."""
        return math.ceil((self.until - self.since) / self.width)

    @property
    def seconds(self) -> float:
        """Length."""
        return self.until - self.since

    def start_of(self, bucket: int) -> float:
        """Return the instant at which a bucket begins."""
        return self.since + bucket * self.width

    def holds(self, bucket: int) -> bool:
        """Tell whether a bucket is one of the period."""
        return 0 <= bucket < self.count
