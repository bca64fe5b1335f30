"""Expected load of the next eight hours: several forecasters, each scored by its own errors, and their blend.

A course is the mean load of each of the next :data:`HORIZON` buckets of five minutes. The errors of the blend are kept
as they were, so that no model of noise is needed to say how far the load may stray from what is expected.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from statistics import fmean, median
from typing import Final

from flink_autoscaler.core.model.value import replace, value
from flink_autoscaler.core.policies.slo.constants import CONSTANTS
from flink_autoscaler.core.policies.slo.load_history import (
    DAY,
    HORIZON,
    HOUR,
    MIDDLES,
    MIN_LOAD,
    PER_BUCKET,
    PER_LOG,
    WEEK,
    LoadHistory,
    packed_log,
    required_capacity,
)

LEADS: Final = (1, 3, 6, 12, 24)
"""Buckets ahead at which forecasters are scored: 5 minutes to 2 hours."""
ERROR_LEADS: Final = (1, 3)
"""Buckets ahead at which the errors of the blend are kept."""

_MIN_RAMP, _MIN_TREND = 3, 15
"""Minutes that a slope is taken of at least."""
_ANALOGS: Final = 3
_MAX_ERROR: Final = 4.0
"""Errors are kept by their root, 8 bits each: to a thousandth near none, up to a factor of 55."""
_ERROR_BYTES: Final = 1 + len(ERROR_LEADS)
"""Bytes of what is kept of the errors of a bucket."""
_PER_LEVEL: Final = 10.0
"""Levels that errors were made at are kept as integers of 8 bits: to a tenth, from e^-12.7 to e^12.7."""


def _fading(minutes: float) -> tuple[float, ...]:
    return tuple(math.exp(-each / minutes) for each in MIDDLES)


_RAMP: Final = tuple(8.0 * (1.0 - each) for each in _fading(8.0))
_TREND: Final = tuple(60.0 * (1.0 - each) for each in _fading(60.0))
_TWENTY_MINUTES, _HOUR = _fading(20.0), _fading(60.0)

LAST, TREND, MEAN, OF_DAY, OF_WEEK, ANALOG, JUMP = "last", "trend", "mean", "day", "week", "analog", "jump"
PROFILE: Final = "profile"


def forecast_courses(history: LoadHistory, usual: Sequence[float] = ()) -> dict[str, list[float]]:
    """Return the course of every forecaster that has an opinion; empty where nothing has been seen.

    Args:
        history: Of the load.
        usual: What stored profiles expect of the present bucket and the next ones; empty where there are none.
    """
    if not history.minutes:
        return {}
    found = {
        LAST: [fmean(history.last(2 if history.is_fresh else PER_BUCKET))] * HORIZON,
        TREND: _trend(history),
        MEAN: _mean(history),
        OF_DAY: _season(history, DAY),
        OF_WEEK: _season(history, WEEK),
        ANALOG: _analog(history),
        PROFILE: _profile(history, usual),
        JUMP: history.jumps.course(history.since) if history.is_fresh and history.since is not None else None,
    }
    limit = CONSTANTS.growth * max(*history.minutes, *map(math.exp, history.logs(DAY)))
    return {name: [min(max(each, MIN_LOAD), limit) for each in course] for name, course in found.items() if course}


def _trend(history: LoadHistory) -> list[float] | None:
    """Expect that the slope of the last hour goes on and fades; after a jump that of the last minutes."""
    if history.is_fresh:
        if len(history.minutes) < _MIN_RAMP:
            return None
        before, middle, now = history.minutes[-3:]
        rises = (now - middle, middle - before)
        slope = min(rises, key=abs) if rises[0] * rises[1] > 0.0 else 0.0
        return [now + slope * each for each in _RAMP]
    values = history.last(60)
    count = len(values)
    if count < _MIN_TREND:
        return None
    center, mean = (count - 1) / 2.0, fmean(values)
    slope = sum((place - center) * each for place, each in enumerate(values)) / (count * (count * count - 1) / 12.0)
    return [mean + slope * center + slope * each for each in _TREND]


def _mean(history: LoadHistory) -> list[float] | None:
    """Expect that what is off the mean of six hours is noise, which is gone within half an hour."""
    logs = history.logs(6 * HOUR)
    if len(logs) < 2 * HOUR:
        return None
    mean = fmean(map(math.exp, logs))
    away = fmean(history.last(PER_BUCKET)) - mean
    return [mean + away * fade for fade in _TWENTY_MINUTES]


def _season(history: LoadHistory, period: int) -> list[float] | None:
    """Expect what was a period ago, times how the last half hour and, later, the last six hours differ from it.

    After a jump its minutes alone count: one that came a period ago, too, was foreseen.
    """
    start = history.count - period
    compared = min(6 * HOUR, start - 1)
    if compared < HOUR // 2:
        return None
    logs = history.logs(period + compared + 1)
    then = logs[: compared + HORIZON + 3]
    smooth = [(a + b + c) / 3.0 for a, b, c in zip(then, then[1:], then[2:], strict=False)]
    more = [now - usual for now, usual in zip(logs[-compared:], smooth, strict=False)]
    long_run = median(more)
    lately = history.recent_level - smooth[compared] if history.is_fresh else fmean(more[-HOUR // 2 :])
    at_first = min(max(lately - long_run, -1.4), 1.4)
    ahead = smooth[compared : compared + HORIZON]
    ahead += [ahead[-1]] * (HORIZON - len(ahead))
    return [math.exp(each + long_run + at_first * fade) for each, fade in zip(ahead, _HOUR, strict=True)]


def _profile(history: LoadHistory, usual: Sequence[float]) -> list[float] | None:
    """Expect what is usual, times how the last minutes differ from it, which fades within hours."""
    if len(usual) <= HORIZON:
        return None
    away = min(max(history.recent_level - math.log(max(usual[0], MIN_LOAD)), -1.4), 1.4)
    return [each * math.exp(away * fade) for each, fade in zip(usual[1:], _HOUR, strict=False)]


def _analog(history: LoadHistory) -> list[float] | None:
    """Expect what followed the three hours of the past that were most like the last one."""
    logs = history.logs()
    if len(logs) < 3 * HOUR:
        return None
    level = fmean(logs[-3:])
    rough = sorted(_distance(logs, end, (1, 6, 11)) for end in range(HOUR, len(logs) - HOUR, 2))[:24]
    chosen: list[tuple[float, int]] = []
    for distance, end in sorted(_distance(logs, end, range(HOUR)) for _, end in rough):
        if len(chosen) < _ANALOGS and all(abs(end - other) > HOUR // 2 for _, other in chosen):
            chosen.append((distance, end))
    total = [0.0] * HORIZON
    weights = [1.0 / (distance + 4e-4) for distance, _ in chosen]
    for weight, (_, end) in zip(weights, chosen, strict=True):
        share, offset = weight / sum(weights), level - fmean(logs[end - 3 : end])
        future = logs[end : end + HORIZON]
        future += [future[-1]] * (HORIZON - len(future))
        total = [before + share * (each + offset) for before, each in zip(total, future, strict=True)]
    return list(map(math.exp, total))


def _distance(logs: Sequence[float], end: int, places: Sequence[int]) -> tuple[float, int]:
    """Return how far the hour up to a bucket was from the last one, in shape and a little in level, and its end."""
    off, shape = logs[end - 1] - logs[-1], 0.0
    for place in places:
        difference = logs[end - 1 - place] - logs[-1 - place] - off
        shape += difference * difference
    return shape / len(places) + 0.15 * off * off, end


# How they have done, and their blend.


@value
class ForecastScores:
    """What forecasters said, how right they were, and how far the need was from the blend.

    Attributes:
        said: By forecaster and *blend* and by lead, what was said after each of the last buckets and is not due yet,
            oldest first; logarithms of 16 bits.
        totals: Sums of squared errors by forecaster and lead, newer ones counting for more.
        count: Sum of their weights.
        errors: Of the last buckets, oldest first, what the blend was and ``log need - log blend`` by lead of
            :data:`ERROR_LEADS`, 8 bits each.
    """

    said: Mapping[str, tuple[bytes, ...]] = field(default_factory=dict)
    totals: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    count: float = 0.0
    errors: bytes = b""

    def after(self, load: float, needed: float, little: float) -> ForecastScores:
        """Return the scores after a bucket is complete: what was said of it is compared.

        Args:
            load: Logarithm of its mean.
            needed: Logarithm of its need.
            little: Load that is added to both sides: by how many times next to nothing was missed tells nothing.
        """
        fading, came = 0.5 ** (1.0 / CONSTANTS.half_life), math.log(math.exp(load) + little)
        totals = {}
        for name, said in self.said.items():
            if name == BLEND:
                continue
            squares = {lead: (came - math.log(math.exp(log) + little)) ** 2 for lead, log in _due(said)}
            before = self.totals.get(name) or [self.count * each for each in self._prior]
            totals[name] = tuple(
                [fading * each + squares.get(lead, 0.0) for lead, each in zip(LEADS, before, strict=True)]
            )
        kept, expected = self.errors, dict(_due(self.said.get(BLEND, ())))
        if all(lead in expected for lead in ERROR_LEADS):
            new = [_packed_error(needed - expected[lead]) for lead in ERROR_LEADS]
            kept = (kept + bytes([_packed_level(expected[ERROR_LEADS[0]]), *new]))[-_ERROR_BYTES * CONSTANTS.errors :]
        is_scored = any(name != BLEND for name in self.said)
        return replace(self, totals=totals, count=fading * self.count + is_scored, errors=kept)

    def with_forecasts(self, expected: Mapping[str, Sequence[float]], blend: Sequence[float]) -> ForecastScores:
        """Return the scores with what is expected after the newest bucket."""
        said = {n: self._said(n, course) for n, course in {**expected, BLEND: blend}.items() if n != JUMP}
        return replace(self, said=said)

    def without_pending(self) -> ForecastScores:
        """Return the scores after a hole: what was said before it is compared to nothing."""
        return replace(self, said={})

    def _said(self, name: str, course: Sequence[float]) -> tuple[bytes, ...]:
        before = self.said.get(name, (b"",) * len(LEADS))
        new = (array("h", [packed_log(math.log(course[lead - 1]))]).tobytes() for lead in LEADS)
        return tuple([(old + each)[-2 * lead :] for old, each, lead in zip(before, new, LEADS, strict=True)])

    @property
    def _prior(self) -> list[float]:
        """Mean squared errors, by lead, of a forecaster of which nothing is known."""
        last = self.totals.get(LAST) if self.count > 0.0 else None
        mean = [each / self.count for each in last] if last else [1e-3] * len(LEADS)
        return [max(CONSTANTS.prior_error**2 * each, 1e-7) for each in mean]

    def error(self, name: str) -> float:
        """Return the root mean square of a forecaster's errors of a quarter of an hour, relative to the load."""
        totals = self.totals.get(name)
        return math.sqrt(totals[1] / self.count) if totals and self.count > 0.0 else 0.0

    def weights(self, names: Sequence[str]) -> dict[str, float]:
        """Return how much each forecaster counts, together 1: by its errors, those at every lead counting alike."""
        count, prior = CONSTANTS.prior_count, self._prior
        unknown = [self.count * each for each in prior]
        logs = {
            name: fmean(
                [
                    math.log(total + count * each)
                    for total, each in zip(self.totals.get(name) or unknown, prior, strict=True)
                ]
            )
            for name in names
        }
        best = min(logs.values())
        raw = {name: math.exp(-CONSTANTS.sharpness / 2.0 * (each - best)) for name, each in logs.items()}
        total = sum(raw.values())
        return {name: each / total for name, each in raw.items()}


BLEND: Final = "blend"


def _due(said: Sequence[bytes]) -> Iterator[tuple[int, float]]:
    """Yield lead and logarithm of what was said of the bucket that is complete now."""
    for lead, data in zip(LEADS, said, strict=False):
        if len(data) == 2 * lead:
            yield lead, memoryview(data).cast("h")[0] / PER_LOG


def _packed_error(error: float) -> int:
    return round(127.0 * math.copysign(math.sqrt(min(abs(error) / _MAX_ERROR, 1.0)), error)) + 128


def _packed_level(log: float) -> int:
    return min(max(round(log * _PER_LEVEL), -128), 127) + 128


_ERRORS: Final = tuple(math.copysign(_MAX_ERROR * (root / 127.0) ** 2, root) for root in range(-128, 128))


def like_errors(data: bytes, load: float, lead: int) -> list[float]:
    """Return errors of the blend, those that were made where it expected the likest loads.

    What strays by night says little about the day, and a load that comes out of nothing much about nothing alone.

    Args:
        data: See :attr:`ForecastScores.errors`.
        load: Logarithm of what is expected.
        lead: Place in :data:`ERROR_LEADS`.
    """
    level = _packed_level(load)
    distances = [abs(each - level) for each in data[::_ERROR_BYTES]][::-1]  # the newest of those that are alike count
    count = max(CONSTANTS.prior_errors, math.ceil(CONSTANTS.like * len(distances)))
    like = sorted(range(len(distances)), key=distances.__getitem__)[:count]
    errors = data[1 + lead :: _ERROR_BYTES][::-1]
    return [_ERRORS[errors[place]] for place in like]


@value
class Forecast:
    """What the next hours may bring.

    Attributes:
        courses: By forecaster.
        weights: By forecaster, together 1.
        blend: Their weighted mean.
    """

    courses: Mapping[str, Sequence[float]]
    weights: Mapping[str, float]
    blend: Sequence[float]


def forecast(history: LoadHistory, scores: ForecastScores, usual: Sequence[float] = ()) -> Forecast | None:
    """Return what is expected; None where nothing has been seen. See :func:`forecast_courses`."""
    found = forecast_courses(history, usual)
    if not found:
        return None
    weights = scores.weights(list(found))
    if history.is_fresh:
        doubted = {name: each * (CONSTANTS.doubt if name in {MEAN, ANALOG} else 1.0) for name, each in weights.items()}
        belief = history.jumps.belief if JUMP in found else 0.0
        total = sum(each for name, each in doubted.items() if name != JUMP) / (1.0 - belief)
        weights = {name: belief if name == JUMP else each / total for name, each in doubted.items()}
    blend = [0.0] * HORIZON
    for name, course in found.items():
        weight = weights[name]
        blend = [before + weight * each for before, each in zip(blend, course, strict=True)]
    return Forecast(found, weights, blend)


def learn(
    history: LoadHistory, scores: ForecastScores, load: float, minutes: int, limit: float
) -> tuple[LoadHistory, ForecastScores, int]:
    """Return history and scores after some minutes of one load, and how many buckets they completed.

    Args:
        history: Before.
        scores: Before.
        load: Mean of the minutes.
        minutes: How many, at least one.
        limit: Acceptable lag, seconds.
    """
    history, completed = history.after(load, minutes)
    if minutes > CONSTANTS.hole:
        return history, scores.without_pending(), 0
    known = history.minutes
    for log, ago in zip(history.logs(completed) if completed else (), range(completed - 1, -1, -1), strict=True):
        end = len(known) - history.filling - PER_BUCKET * ago
        needed = math.log(max(MIN_LOAD, required_capacity(known[: max(end, 1)], limit)))
        scores = scores.after(log, needed, CONSTANTS.little * history.day_mean)
    return history, scores, completed
