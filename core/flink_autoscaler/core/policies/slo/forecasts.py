"""Several opinions on the next eight hours, each from another idea of what loads do.

A path has a mean of demand for each of the next 96 buckets of five minutes. An expert without enough history has none.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from heapq import nsmallest
from itertools import pairwise
from statistics import fmean, median
from typing import Final

from flink_autoscaler.core.policies.slo import packing
from flink_autoscaler.core.policies.slo.history import DAY, PER_BUCKET, History
from flink_autoscaler.core.policies.slo.model import HORIZON, LEAST_DEMAND

WEEK: Final = 7 * DAY
LAST, SLOW, TREND, DRIFT = "last", "slow", "trend", "drift"
RAMP, OF_DAY, OF_WEEK, ANALOG = "ramp", "day", "week", "analog"
GREATEST_GROWTH: Final = 3.0
"""No path goes above so many times the greatest of a day."""

_MIDDLES: Final = tuple(5.0 * place + 2.5 for place in range(HORIZON))
"""Minutes from now to the middle of every bucket."""


def _damped(minutes: float) -> tuple[float, ...]:
    return tuple(minutes * (1.0 - math.exp(-each / minutes)) for each in _MIDDLES)


def _fading(minutes: float) -> tuple[float, ...]:
    return tuple(math.exp(-each / minutes) for each in _MIDDLES)


_TREND: Final = _damped(60.0)
_DRIFT: Final = _damped(180.0)
_RAMP: Final = _damped(8.0)
_HOUR: Final = _fading(60.0)
GREATEST_LOG_RATIO: Final = math.log(4.0)
"""How far the last half hour may differ from the last six, in a comparison with another day."""
SIX_HOURS: Final = 72
HALF_HOUR: Final = 30


@dataclass(frozen=True, slots=True)
class Match:
    """An hour of the past that was like the last one.

    Attributes:
        age: Buckets since its end.
        weight: How much it counts.
    """

    age: int
    weight: float


def paths(history: History, matches: Sequence[Match]) -> dict[str, tuple[float, ...]]:
    """Return the paths of all experts that have an opinion.

    Args:
        history: With at least one minute.
        matches: See :func:`nearest_hours`.
    """
    if not history.minutes:
        return {}
    limit = GREATEST_GROWTH * max(history.day_greatest, *history.minutes)
    found: dict[str, Sequence[float] | None] = {
        LAST: (fmean(history.last(5)),) * HORIZON,
        SLOW: (fmean(history.last(30)),) * HORIZON,
        TREND: _trend(history),
        DRIFT: _drift(history),
        RAMP: _ramp(history),
        OF_DAY: _season(history, DAY),
        OF_WEEK: _season(history, WEEK),
        ANALOG: _analog(history, matches),
    }
    return {name: _possible(path, limit) for name, path in found.items() if path is not None}


def _possible(path: Sequence[float], limit: float) -> tuple[float, ...]:
    if min(path) >= LEAST_DEMAND and max(path) <= limit:
        return tuple(path)
    return tuple([min(max(each, LEAST_DEMAND), limit) for each in path])


def line(values: Sequence[float]) -> tuple[float, float]:
    """Return the end and the slope per value of the line that comes nearest to values."""
    count = len(values)
    center, mean = (count - 1) / 2.0, fmean(values)
    slope = sum((place - center) * each for place, each in enumerate(values)) / (count * (count * count - 1) / 12.0)
    return mean + slope * center, slope


def _trend(history: History) -> Sequence[float] | None:
    values = history.last(60)
    if len(values) < HALF_HOUR:
        return None
    end, slope = line(values)
    return [end + slope * each for each in _TREND]


LEAST_DRIFT: Final = 18
MOST_DRIFT: Final = 24


def _drift(history: History) -> Sequence[float] | None:
    known = history.count if history.since is None else int(history.since) // PER_BUCKET
    count = min(MOST_DRIFT, known, history.count)
    if count < LEAST_DRIFT:
        return None
    end, slope = line(packing.shorts(history.buckets[-count * packing.SHORT :]))
    per_minute = slope / PER_BUCKET
    end += per_minute * (PER_BUCKET / 2.0 + history.filling)
    return [end + per_minute * each for each in _DRIFT]


def _ramp(history: History) -> Sequence[float] | None:
    if history.surprise is None or len(history.minutes) < 3:  # noqa: PLR2004 - two differences
        return None
    first, second = (after - before for before, after in pairwise(history.minutes[-3:]))
    slope = min(first, second, key=abs) if first * second > 0.0 else 0.0
    return [history.minutes[-1] + slope * each for each in _RAMP]


def _season(history: History, period: int) -> Sequence[float] | None:
    """Expect what was a period ago, times how the last half hour and, later, the last six hours differ from it."""
    start = history.count - period
    ratios = min(SIX_HOURS, start - 1)
    if ratios < HALF_HOUR // PER_BUCKET:
        return None
    values = [history.bucket(place) for place in range(start - ratios - 1, min(start + HORIZON + 3, history.count))]
    smooth = [sum(values[at : at + 3]) / 3.0 for at in range(len(values) - 2)]
    long_run = _long_run(history, smooth[:ratios])
    at_first = _half_hour(history, smooth, ratios) - long_run
    at_first = min(max(at_first, -GREATEST_LOG_RATIO), GREATEST_LOG_RATIO)
    share = history.filling / PER_BUCKET
    usual = [(1.0 - share) * one + share * two for one, two in pairwise(smooth[ratios : ratios + HORIZON + 1])]
    return [each * math.exp(long_run + at_first * fade) for each, fade in zip(usual, _HOUR, strict=True)]


def _long_run(history: History, usual: Sequence[float]) -> float:
    """Return the median of the logarithms of how much more there was than usual in the last complete buckets."""
    logs = packing.short_logs(history.buckets[-len(usual) * packing.SHORT :])
    return median([log - math.log(each) for log, each in zip(logs, usual, strict=True)])


def _half_hour(history: History, smooth: Sequence[float], present: int) -> float:
    """Return the same for the minutes of the last half hour, as one number."""
    minutes = history.last(HALF_HOUR)
    usual = 0.0
    for ago in range(len(minutes)):
        usual += smooth[present + (history.filling - 1 - ago) // PER_BUCKET]
    return math.log(sum(minutes) / usual)


HOUR: Final = 12
_WEIGHTS: Final = tuple(0.5 + 0.5 * place / (HOUR - 1) for place in range(HOUR))
LEVEL_WEIGHT: Final = 0.15
APART: Final = 6
BEST: Final = 3
LEAST_DISTANCE: Final = 4e-4
LEAST_ANALOG: Final = 36
LIKELY: Final = 40
"""Hours that look alike at first sight and are compared by every bucket."""


def nearest_hours(history: History) -> tuple[Match, ...]:
    """Return the hours of the past that were most like the last one; empty where there is little history."""
    if history.count < LEAST_ANALOG:
        return ()
    logs = packing.short_logs(history.buckets)
    ends = [(one + two + three) / 3.0 for one, two, three in zip(logs, logs[1:], logs[2:], strict=False)]
    shape = _shape(logs, ends, len(logs) - 1)
    close = sorted((_distance(logs, ends, end, shape), end) for end in _likely(ends))
    chosen: list[tuple[float, int]] = []
    for distance, end in close:
        if len(chosen) < BEST and all(abs(end - other) > APART for _, other in chosen):
            chosen.append((distance, end))
    return tuple(Match(len(logs) - 1 - end, 1.0 / (distance + LEAST_DISTANCE)) for distance, end in chosen)


def _likely(ends: Sequence[float]) -> list[int]:
    """Return the last buckets of hours that look like the last one at three points."""
    now, half, full = ends[-1], ends[-6], ends[-10]
    first, second = now - half, now - full
    rough = [
        ((x := last - before - first) * x + (y := last - long_before - second) * y) / 3.0
        + LEVEL_WEIGHT * (z := last - now) * z
        for last, before, long_before in zip(ends[9:-HOUR], ends[4:], ends, strict=False)
    ]
    limit = max(nsmallest(LIKELY, rough))
    return [place + HOUR - 1 for place, each in enumerate(rough) if each <= limit][-LIKELY:]


def _shape(logs: Sequence[float], ends: Sequence[float], end: int) -> tuple[float, list[float]]:
    level = ends[end - 2]
    return level, [each - level for each in logs[end - HOUR + 1 : end + 1]]


def _distance(logs: Sequence[float], ends: Sequence[float], end: int, shape: tuple[float, list[float]]) -> float:
    level, other = _shape(logs, ends, end)
    differences = zip(_WEIGHTS, other, shape[1], strict=True)
    shapes = sum(weight * (x - y) ** 2 for weight, x, y in differences) / sum(_WEIGHTS)
    return shapes + LEVEL_WEIGHT * (level - shape[0]) ** 2


def _analog(history: History, matches: Sequence[Match]) -> Sequence[float] | None:
    usable = [each for each in matches if each.age >= HOUR and each.age + HOUR <= history.count]
    if not usable:
        return None
    level = sum(packing.short_logs(history.buckets[-3 * packing.SHORT :])) / 3.0
    total = sum(each.weight for each in usable)
    logs = [0.0] * HORIZON
    for match in usable:
        share = match.weight / total
        logs = [sum_ + share * each for sum_, each in zip(logs, _future(history, match.age, level), strict=True)]
    return [math.exp(each) for each in logs]


def _future(history: History, age: int, level: float) -> Iterator[float]:
    """Give the logarithms of what followed an hour of the past, moved to the present level, which fades."""
    width = packing.SHORT
    end = len(history.buckets) - age * width
    past = packing.short_logs(history.buckets[end - 3 * width : end])
    future = packing.short_logs(history.buckets[end : end + HORIZON * width])
    future += future[-1:] * (HORIZON - len(future))
    offset = level - sum(past) / 3.0
    return (each + offset * fade for each, fade in zip(future, _HOUR, strict=True))
