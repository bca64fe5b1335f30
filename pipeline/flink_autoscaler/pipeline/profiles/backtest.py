"""How good the forecasts would have been: made every hour of the last week from what was known then."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from flink_autoscaler.core.forecast.guard import Score, exceed_of, wape_of
from flink_autoscaler.core.forecast.online import RECENT, bounded_median, faded
from flink_autoscaler.core.model.load_profile import BUCKET, BUCKETS_PER_WEEK
from flink_autoscaler.pipeline.profiles.fit import Fit, History, Series
from flink_autoscaler.pipeline.profiles.settings import ProfileSettings

LEADS: Final = (2, 4, 8)
"""How far ahead, in quarter hours: 30, 60 and 120 minutes."""
STRIDE: Final = 4
"""Quarter hours from origin to origin."""


@dataclass(frozen=True, slots=True)
class ProfileBacktest:
    """What came of it.

    Attributes:
        wape: Sum of the errors of the medians as a share of what arrived.
        exceed: Share of the forecasts in which more arrived than the upper quantile.
        count: Forecasts compared.
    """

    wape: float
    exceed: float
    count: int


def backtest(history: History, series: Series, settings: ProfileSettings) -> ProfileBacktest | None:
    """Compare forecasts with what came before ``settings.asof``; None when none could be made."""
    end = settings.asof // BUCKET
    origins = range(end - BUCKETS_PER_WEEK, end, STRIDE)
    scores = [score for origin in origins for score in _scores(history, series, settings, origin)]
    return ProfileBacktest(wape_of(scores), exceed_of(scores), len(scores)) if scores else None


def _scores(history: History, series: Series, settings: ProfileSettings, origin: int) -> Iterator[Score]:
    fit = history.fit(origin)
    if fit is None:
        return
    k = _correction(history, series, settings, fit)
    known = (lead for lead in LEADS if origin + lead < settings.asof // BUCKET)
    for lead in known:
        place = history.place.get(origin + lead)
        quantiles = None if place is None else history.quantiles(fit, series.slot[place])
        if place is not None and quantiles is not None:
            usual = fit.base(origin + lead) * faded(k, lead * BUCKET, settings.online.tau)
            start = (origin + lead) * BUCKET
            yield Score(start, series.rate[place], usual * quantiles.q50, usual * quantiles.q90)


def _correction(history: History, series: Series, settings: ProfileSettings, fit: Fit) -> float:
    ratios = []
    for index in range(fit.origin - RECENT, fit.origin):
        place = history.place.get(index)
        quantiles = None if place is None else history.quantiles(fit, series.slot[place])
        if place is not None and quantiles is not None and quantiles.q50 > 0.0:
            ratios.append(series.rate[place] / (fit.base(index) * quantiles.q50))
    return bounded_median(ratios, settings.online.k_bounds)
