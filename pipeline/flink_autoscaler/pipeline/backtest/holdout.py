"""Which days options are chosen on, and which are kept to judge the choice."""

from __future__ import annotations

import math
from typing import Final

from flink_autoscaler.pipeline.simulator.workloads import DAY

LEAST_DAYS: Final = 2
"""Days without which none can be kept."""

_SHARE: Final = 1 / 3
_WEEK: Final = 7


def seen_seconds(duration: float) -> float | None:
    """Return how much of the beginning of a period options are chosen on; None where it is too short to be divided.

    The last third is kept, in whole days: of two weeks and more at least one week, so that every day of the week is
    in both.

    Args:
        duration: Seconds.
    """
    days = math.floor(duration / DAY)
    if days < LEAST_DAYS:
        return None
    kept = max(1, round(days * _SHARE), _WEEK if days >= 2 * _WEEK else 0)
    return duration - kept * DAY
