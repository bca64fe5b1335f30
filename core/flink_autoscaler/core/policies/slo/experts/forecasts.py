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

from flink_autoscaler.core.model.load_profile import BUCKET as QUARTER
from flink_autoscaler.core.model.load_profile import LoadProfile
from flink_autoscaler.core.model.quick import quick
from flink_autoscaler.core.policies.slo import packing
from flink_autoscaler.core.policies.slo.experts.echoes import NO_ECHOES, Echoes
from flink_autoscaler.core.policies.slo.history import DAY, PER_BUCKET, History
from flink_autoscaler.core.policies.slo.model import BUCKET, HORIZON, LEAST_DEMAND

WEEK: Final = 7 * DAY
LAST, SLOW, TREND, DRIFT = "last", "slow", "trend", "drift"
RAMP, OF_DAY, OF_WEEK, ANALOG, PROFILE, ECHO = "ramp", "day", "week", "analog", "profile", "echo"
MEAN: Final = "mean"
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
_TWENTY_MINUTES: Final = _fading(20.0)
_HOUR: Final = _fading(60.0)
_SIX_HOURS: Final = _fading(360.0)
GREATEST_LOG_RATIO: Final = math.log(4.0)
"""How far the last half hour may differ from the last six, in a comparison with another day."""
MOST_NEW: Final = 1.25
"""How much more than was ever seen then or lately another day can foresee: a day after a load has doubled for good, its
past would make it double again."""
ANOTHER_LEVEL: Final = math.log(1.5)
"""How much higher than another day a load may be for that to be foreseen: what was higher by more may have come to stay
then, and is as usual from then on."""
SIX_HOURS: Final = 72
HALF_HOUR: Final = 30
HOUR: Final = 12
LEAST_MEAN: Final = 2 * HOUR
MOST_SKEWED: Final = 1.5
"""Times the median, above which a mean is one of idle hours and of bursts, or of an error: nothing goes back to it."""
MOST_AWAY: Final = 1.5
"""Times what any of the hours before was away from their mean, above which the last hour is no noise."""


@quick
@dataclass(frozen=True, slots=True)
class Match:
    """An hour of the past that was like the last one.

    Attributes:
        age: Buckets since its end.
        weight: How much it counts.
    """

    age: int
    weight: float


@dataclass(frozen=True, slots=True)
class Usual:
    """Demand that stored profiles expect, by buckets of five minutes.

    Attributes:
        before: Of the last buckets that are complete, oldest first.
        lately: Of the time up to now, oldest first.
        ahead: From now on, as many as a path has.
    """

    before: Sequence[float]
    lately: Sequence[float]
    ahead: Sequence[float]


def paths(
    history: History, matches: Sequence[Match], usual: Usual | None = None, echoes: Echoes = NO_ECHOES
) -> dict[str, tuple[float, ...]]:
    """Return the paths of all experts that have an opinion.

    Args:
        history: With at least one minute.
        matches: See :func:`nearest_hours`.
        usual: What profiles expect; None where there are none.
        echoes: What became of jumps.
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
        MEAN: _mean(history),
        OF_DAY: _season(history, DAY),
        OF_WEEK: _season(history, WEEK),
        ANALOG: _analog(history, matches),
        PROFILE: None if usual is None else _profile(history, usual),
        ECHO: _echo(history, echoes),
    }
    return {name: _possible(path, limit) for name, path in found.items() if path is not None}


def _echo(history: History, echoes: Echoes) -> Sequence[float] | None:
    """Expect of the last jump what came of those before."""
    factors = echoes.factors(_MIDDLES)
    return None if factors is None else [history.minutes[-1] * each for each in factors]


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


def _mean(history: History) -> Sequence[float] | None:
    """Expect that what is above or below the mean of the last hours is noise, which is gone within half an hour."""
    if history.count < LEAST_MEAN:
        return None
    values = packing.shorts(history.buckets[-SIX_HOURS * packing.SHORT :])
    mean = fmean(values)
    if mean > MOST_SKEWED * median(values) or _goes_away(values, mean):
        return None
    away = fmean(history.last(PER_BUCKET)) - mean
    return [mean + away * fade for fade in _TWENTY_MINUTES]


def _goes_away(values: Sequence[float], mean: float) -> bool:
    """Tell whether the last hour is much farther from a mean than any hour before it was."""
    *before, last = [abs(fmean(values[max(end - HOUR, 0) : end]) - mean) for end in range(len(values), 0, -HOUR)][::-1]
    return last > MOST_AWAY * max(before)


def _season(history: History, period: int) -> Sequence[float] | None:
    """Expect what was a period ago, times how the last half hour and, later, the last six hours differ from it."""
    start = history.count - period
    ratios = min(SIX_HOURS, start - 1)
    if ratios < HALF_HOUR // PER_BUCKET:
        return None
    values = [history.bucket(place) for place in range(start - ratios - 1, min(start + HORIZON + 3, history.count))]
    smooth = [sum(values[at : at + 3]) / 3.0 for at in range(len(values) - 2)]
    more = _more_than_usual(history, smooth[:ratios])
    long_run = median(more)
    at_first = _bounded(_half_hour(history, smooth, ratios) - long_run)
    usual = _from_now(history, smooth[ratios : ratios + HORIZON + 1])
    newest = MOST_NEW if max(more) < ANOTHER_LEVEL else 1.0
    limit = newest * max(history.day_greatest, *usual)
    return [min(each * math.exp(long_run + at_first * fade), limit) for each, fade in zip(usual, _HOUR, strict=True)]


def _from_now(history: History, buckets: Sequence[float]) -> list[float]:
    """Return buckets that begin now, one fewer, from those that begin with the last whole one."""
    share = history.filling / PER_BUCKET
    return [(1.0 - share) * one + share * two for one, two in pairwise(buckets)]


def _more_than_usual(history: History, usual: Sequence[float]) -> list[float]:
    """Return the logarithms of how much more there was than usual in the last complete buckets."""
    logs = packing.short_logs(history.buckets[-len(usual) * packing.SHORT :])
    return [log - math.log(each) for log, each in zip(logs, usual, strict=True)]


def _profile(history: History, usual: Usual) -> Sequence[float]:
    """Expect what a profile does, times how the last hour and, at first, the last half hour differ from it."""
    count = min(len(usual.before), history.count)
    logs = packing.short_logs(history.buckets[-count * packing.SHORT :]) if count else ()
    before = usual.before[len(usual.before) - count :]
    hour = _bounded(median([log - math.log(each) for log, each in zip(logs, before, strict=True)] or [0.0]))
    minutes = history.last(HALF_HOUR)
    expected = usual.lately[-math.ceil(len(minutes) / PER_BUCKET) :]
    at_first = _bounded(math.log(fmean(minutes) / fmean(expected)) - hour)
    fades = zip(usual.ahead, _SIX_HOURS, _HOUR, strict=True)
    return [each * math.exp(hour * slow + at_first * fast) for each, slow, fast in fades]


def _bounded(log_ratio: float) -> float:
    return min(max(log_ratio, -GREATEST_LOG_RATIO), GREATEST_LOG_RATIO)


def _half_hour(history: History, smooth: Sequence[float], present: int) -> float:
    """Return the same for the minutes of the last half hour, as one number."""
    minutes = history.last(HALF_HOUR)
    usual = 0.0
    for ago in range(len(minutes)):
        usual += smooth[present + (history.filling - 1 - ago) // PER_BUCKET]
    return math.log(sum(minutes) / usual)


LATELY: Final = HALF_HOUR // PER_BUCKET


def usual_rates(profile: LoadProfile, complete: float, now: float) -> tuple[Sequence[float], ...] | None:
    """Return what a source usually has to take, records/s; None where not all of it is known.

    Args:
        profile: Of the source.
        complete: End of the last bucket that is complete, epoch seconds.
        now: Not before it, epoch seconds.

    Returns:
        Of the hour before the first instant, of the half hour before the second one, and of the horizon after it.
    """
    spans = ((complete - HOUR * BUCKET, HOUR), (now - LATELY * BUCKET, LATELY), (now, HORIZON))
    try:
        found = [_quarters(profile, since, count) for since, count in spans]
    except OverflowError:
        return None
    known = tuple(each for each in found if each is not None and all(map(math.isfinite, each)))
    return known if len(known) == len(spans) else None


def _quarters(profile: LoadProfile, since: float, count: int) -> Sequence[float] | None:
    """Return the rates of buckets from an instant on: points of the lines between the middles of quarter hours."""
    first = math.floor(since / QUARTER - 0.5)
    instants = [at * QUARTER for at in range(first, math.ceil((since + count * BUCKET) / QUARTER + 0.5) + 1)]
    shares = [(at, profile.q50[profile.slot(at)]) for at in instants]
    rates = [share * profile.base(at) for at, share in shares if share is not None]
    if len(rates) < len(shares):
        return None
    places = ((since + (each + 0.5) * BUCKET) / QUARTER - 0.5 - first for each in range(count))
    return [_between(rates, place) for place in places]


def _between(values: Sequence[float], place: float) -> float:
    left = int(place)
    return values[left] + (place - left) * (values[left + 1] - values[left])


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
    path = [math.exp(each) for each in logs]
    return _from_now(history, (*path, path[-1]))


def _future(history: History, age: int, level: float) -> Iterator[float]:
    """Give the logarithms of what followed an hour of the past, moved to the present level, which fades."""
    width = packing.SHORT
    end = len(history.buckets) - age * width
    past = packing.short_logs(history.buckets[end - 3 * width : end])
    future = packing.short_logs(history.buckets[end : end + HORIZON * width])
    future += future[-1:] * (HORIZON - len(future))
    offset = level - sum(past) / 3.0
    return (each + offset * fade for each, fade in zip(future, _HOUR, strict=True))
