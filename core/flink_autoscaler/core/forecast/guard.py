"""Whether a forecast may be used: forecasts are written down, and compared with what came.

One forecast is issued per quarter hour, half an hour ahead, also while none is used: only so can trust come back.
The limit of 25 % for the error is that of Daedalus, a published autoscaler for distributed stream processing.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Annotated, Final

from flink_autoscaler.core.forecast.online import RECENT, Bucket, OpenBucket, add_sample, correction, expected_rate
from flink_autoscaler.core.model.codec import Key, Rounded, row
from flink_autoscaler.core.model.load_profile import BUCKET, DAY, MIN_WEEKS, LoadProfile, bucket_start
from flink_autoscaler.core.model.numbers import divide
from flink_autoscaler.core.model.value import replace, value
from flink_autoscaler.core.options.forecast import ForecastParams

LEAD: Final = 1800
"""Seconds between issuing a forecast and the quarter hour it is about."""
OLDEST: Final = 2 * DAY
"""Age from which a profile is not used any more."""
MAX_EXCEEDED: Final = 0.20
MAX_BIASED: Final = 0.35
MAX_MISSING: Final = 0.20
FULL_DAY: Final = 77
"""Scores within 24 hours from which on they speak for themselves: four in five of the quarter hours."""

_HOUR: Final = 3600


@row
@value
class PendingForecast:
    """A forecast: the beginning of the quarter hour it is about, the median and the upper quantile, records/s."""

    target: int
    f50: Rounded
    f90: Rounded


@row
@value
class ForecastScore:
    """A forecast whose time has come, and the rate that was measured."""

    at: int
    rate: Rounded
    f50: Rounded
    f90: Rounded


@value
class SourceState:
    """What is remembered about the forecasts of one source.

    Attributes:
        is_trusted: Whether the last pass used them.
        bucket: The quarter hour under way; None at first.
        recent: Complete quarter hours of the last hour, oldest first.
        issued: Forecasts whose time has not come, the next one first.
        scores: Of the last 24 hours, oldest first.
    """

    is_trusted: Annotated[bool, Key("trusted")] = False
    bucket: OpenBucket | None = None
    recent: tuple[Bucket, ...] = ()
    issued: tuple[PendingForecast, ...] = ()
    scores: tuple[ForecastScore, ...] = ()


def score_forecasts(state: SourceState, now: float, rate: float | None) -> SourceState:
    """Take in a measured rate, and score the forecast about a quarter hour that is complete.

    Args:
        state: What is remembered.
        now: Instant of the pass.
        rate: Records/s that arrive; None when it is not known or the job does not run.
    """
    bucket, over = add_sample(state.bucket, now, rate)
    start = bucket.start
    if over is None and state.bucket is not None and state.bucket.start == start:
        return replace(state, bucket=bucket)  # within a quarter hour, nothing else becomes too old
    recent = state.recent if over is None else (*state.recent, over)
    return SourceState(
        is_trusted=state.is_trusted,
        bucket=bucket,
        recent=tuple(each for each in recent if start - RECENT * BUCKET <= each.start < start),
        issued=tuple(each for each in state.issued if start <= each.target <= start + LEAD),
        scores=tuple(each for each in _new_scores(state, over) if start - DAY <= each.at < start),
    )


def _new_scores(state: SourceState, over: Bucket | None) -> Iterator[ForecastScore]:
    yield from state.scores
    if over is not None:
        due = (each for each in state.issued if each.target == over.start)
        yield from (ForecastScore(over.start, over.rate, each.f50, each.f90) for each in due)


def issue(state: SourceState, profile: LoadProfile, now: float, settings: ForecastParams) -> SourceState:
    """Write down the forecast for the quarter hour that begins half an hour after this one, once.

    Raises:
        ConfigError: This machine does not know the profile's time zone.
    """
    begun = bucket_start(now)
    target = begun + LEAD
    if any(each.target == target for each in state.issued):
        return state
    k = correction(profile, state.recent, now, settings)
    f50, f90 = (
        expected_rate(profile, shares, target, now=begun, k=k, tau=settings.decay_time)
        for shares in (profile.q50, profile.q90)
    )
    if f50 is None or f90 is None:
        return state
    return replace(state, issued=(*state.issued, PendingForecast(target, f50, f90)))


def rejection_reasons(
    state: SourceState, profile: LoadProfile, now: float, settings: ForecastParams
) -> tuple[str, ...]:
    """Return why the forecasts are not to be used now; empty when they are."""
    scores = state.scores
    is_full = len(scores) >= FULL_DAY
    wape = wape_of(scores) if is_full else profile.wape
    exceed = exceed_of(scores) if is_full else profile.exceed
    source = "the last 24 h" if is_full else "the backtest"
    last_hour = [each for each in scores if each.at >= bucket_start(now) - _HOUR]
    checks = (
        _wape_problem(wape, settings.wape_disable if state.is_trusted else settings.wape_enable, source),
        _exceed_problem(exceed, source),
        _bias_problem(last_hour),
        _age_problem(now - profile.asof),
        _history_problem(profile),
    )
    return tuple(problem for problem in checks if problem is not None)


def wape_of(scores: Sequence[ForecastScore]) -> float:
    """Return the weighted absolute percentage error of the medians, 0.1 for 10 %; infinite when nothing arrived."""
    missed = sum(abs(each.rate - each.f50) for each in scores)
    return divide(missed, sum(each.rate for each in scores)) if missed else 0.0


def exceed_of(scores: Sequence[ForecastScore]) -> float:
    """Return the share of scores in which more arrived than the upper quantile; there has to be a score."""
    return sum(each.rate > each.f90 for each in scores) / len(scores)


def _wape_problem(wape: float | None, limit: float, source: str) -> str | None:
    if wape is None:
        return "no backtest was possible and 24 h of forecasts have not been compared yet"
    return f"the error of {source} is {_percent(wape)}, more than {limit:.0%}" if wape > limit else None


def _exceed_problem(exceed: float | None, source: str) -> str | None:
    if exceed is None or exceed <= MAX_EXCEEDED:
        return None
    return f"in {exceed:.0%} of {source} more arrived than the upper quantile, more than {MAX_EXCEEDED:.0%}"


def _bias_problem(scores: Sequence[ForecastScore]) -> str | None:
    missed = sum(each.rate - each.f50 for each in scores)
    bias = divide(missed, sum(each.rate for each in scores)) if missed else 0.0
    if abs(bias) <= MAX_BIASED:
        return None
    return f"the last hour was {_percent(abs(bias))} {'above' if bias > 0 else 'below'} what was forecast"


def _age_problem(age: float) -> str | None:
    return f"the profile is {age / 3600:.0f} h old, more than {OLDEST / 3600:.0f} h" if age > OLDEST else None


def _history_problem(profile: LoadProfile) -> str | None:
    if profile.missing <= MAX_MISSING:
        return None
    kind = "week" if profile.weeks >= MIN_WEEKS else "days"
    return f"{profile.missing:.0%} of the last {kind} before the profile were not measured, more than {MAX_MISSING:.0%}"


def _percent(share: float) -> str:
    return f"{share:.0%}" if math.isfinite(share) else "beyond measure"
