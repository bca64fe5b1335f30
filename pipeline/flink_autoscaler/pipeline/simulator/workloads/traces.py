"""Workloads that were recorded elsewhere: counts with their instants, in files of comma-separated values."""

from __future__ import annotations

import csv
import gzip
import math
from bisect import bisect_right
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, TextIO

from flink_autoscaler.pipeline.simulator.workloads.workload import MINUTE, Workload, recorded

COLUMNS: Final = ("timestamp", "value")
COUNTED: Final = 300.0
"""Seconds that a count covers."""

Point = tuple[float, float]
"""Epoch seconds and count."""


def read_trace(path: Path, name: str) -> Workload:
    """Read a series with the columns ``COLUMNS``, compressed or not, as a workload of minutes.

    The rows may be in any order, and those of one instant are one count, of ``COUNTED`` seconds. Between instants rates
    lie on a line, so that a hole becomes a slope.

    Raises:
        OSError: The file cannot be read.
        ValueError: It has other columns, or less than two counts, or some row is not an instant and a count.
    """
    with _opened(path) as lines:
        points = sorted(_points(lines, path).items())
    if len(points) < 2:  # noqa: PLR2004 - a line needs two
        raise ValueError(f"{path}: a recorded load needs two counts at least")
    return recorded(name, [count / COUNTED for count in _by_minute(points)])


def _opened(path: Path) -> TextIO:
    if path.suffix == ".gz":
        return gzip.open(path, "rt", encoding="utf-8", newline="")
    return path.open(encoding="utf-8", newline="")


def _points(lines: Iterable[str], path: Path) -> dict[float, float]:
    rows = csv.reader(lines)
    if tuple(next(rows, ())) != COLUMNS:
        raise ValueError(f"{path}: the first line has to be {','.join(COLUMNS)}")
    points: dict[float, float] = {}
    for number, row in enumerate(rows, start=2):
        try:
            instant, count = row
            at, value = datetime.fromisoformat(instant).replace(tzinfo=UTC).timestamp(), float(count)
        except ValueError as error:
            raise ValueError(f"{path}, line {number}: {error}") from error
        points[at] = points.get(at, 0.0) + value
    return points


def _by_minute(points: list[Point]) -> list[float]:
    """Return the value at the beginning of every minute from the first point to the last."""
    instants = [at for at, _ in points]
    minutes = math.floor((instants[-1] - instants[0]) / MINUTE)
    return [_on_line(points, instants, instants[0] + number * MINUTE) for number in range(minutes + 1)]


def _on_line(points: list[Point], instants: list[float], at: float) -> float:
    after = min(max(1, bisect_right(instants, at)), len(points) - 1)
    (before_at, before), (after_at, then) = points[after - 1], points[after]
    return before + (then - before) * (at - before_at) / (after_at - before_at)
