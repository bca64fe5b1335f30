"""What somebody else than Flink says about the lag of a source: values that travel with a request."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

FLINK: Final = "flink"
"""What the cluster's own metrics say, in the order of sources."""

HOT_SHARE: Final = 0.5
"""Of the whole lag; with a smaller share a partition is one of several that are late."""

HOT_FACTOR: Final = 4.0
"""How many times the mean lag of the others a partition has to have to count as hot."""

LEAST_HOT_LAG: Final = 1_000.0
"""Records; below that no partition is worth a word."""


@dataclass(frozen=True, slots=True)
class SourceLag:
    """The answer of one place about the sources that a pattern fits; several are asked in order.

    Attributes:
        pattern: Id of a vertex, or a pattern of its name.
        origin: Who answered, for people; :data:`FLINK` stands for what the cluster's own metrics say.
        total: Records that wait, all partitions together; None when unknown.
        partitions: How many there are; 0 when unknown.
        hot: The partition that has most of the lag by itself; empty where the lag is spread.
        problem: Why the lag is unknown; empty where it is known.
    """

    pattern: str
    origin: str
    total: float | None = None
    partitions: int = 0
    hot: str = ""
    problem: str = ""


def spread_lag(pattern: str, origin: str, lags: Mapping[str, float]) -> SourceLag:
    """Return what the lags of the partitions, by name, come to. A lag that cannot be makes all of it unknown."""
    wrong = next((name for name, lag in lags.items() if not (math.isfinite(lag) and lag >= 0)), None)
    if wrong is not None:
        return SourceLag(pattern, origin, problem=f"the lag of {wrong} is {lags[wrong]:g}")
    if not lags:
        return SourceLag(pattern, origin, problem="there are no partitions")
    return SourceLag(pattern, origin, math.fsum(lags.values()), len(lags), hot_partition(lags))


def hot_partition(lags: Mapping[str, float]) -> str:
    """Return the partition whose lag more subtasks would not shrink; empty where there is none.

    Subtasks take whole partitions: what one partition is behind, one subtask has to catch up. A partition is hot that
    has more than ``HOT_SHARE`` of the whole lag and more than ``HOT_FACTOR`` times the mean of the others.
    """
    if len(lags) <= 1:
        return ""
    name = max(lags, key=lambda each: lags[each])
    others = math.fsum(lag for each, lag in lags.items() if each != name)
    is_hot = lags[name] > HOT_SHARE * (lags[name] + others) and lags[name] > HOT_FACTOR * others / (len(lags) - 1)
    return name if is_hot and lags[name] >= LEAST_HOT_LAG else ""
