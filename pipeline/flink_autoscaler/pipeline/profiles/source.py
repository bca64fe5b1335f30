"""The part of the nightly job that looks at one source at a time, in Spark's Python workers: it makes the profile.

It also tells how good the forecasts would have been: made every hour of the last week from what was known then.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa

from flink_autoscaler.core.forecast.guard import Score, exceed_of, wape_of
from flink_autoscaler.core.forecast.online import RECENT, bounded_median, faded
from flink_autoscaler.core.model.load_profile import BUCKET, BUCKETS_PER_WEEK, LEAST_OF_DAYS, VERSION
from flink_autoscaler.pipeline.profiles import ProfileSettings
from flink_autoscaler.pipeline.profiles.fit import Fit, History, Quantiles, Series, Shape

LEADS: Final = (2, 4, 8)
"""How far ahead, in quarter hours: 30, 60 and 120 minutes."""
STRIDE: Final = 4
"""Quarter hours from origin to origin."""

RESULT: Final = (
    "job_key string, source_id string, level double, growth double, weeks int, missing double, wape double, "
    "exceed double, asof double, timezone string, version int, problem string, q50 array<double>, q90 array<double>"
)
"""A row per source; without a profile ``level``, ``q50`` and ``q90`` are null and ``problem`` says why.

``q50`` and ``q90`` have an entry per quarter hour of the week, null where nothing is known about it.
"""
_ARROW: Final = {
    "string": pa.string(), "int": pa.int32(), "double": pa.float64(), "array<double>": pa.list_(pa.float64()),
}  # fmt: skip
SCHEMA: Final = pa.schema([(name, _ARROW[kind]) for name, kind in map(str.split, RESULT.split(", "))])
"""The same in Arrow."""


@dataclass(frozen=True, slots=True)
class ProfileBacktest:
    """Result of the backtest of a profile.

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
    history.measure(origins)
    issued = (score for origin in origins for score in _scores(history, series, settings, origin))
    scores = [score for score in issued if score.at < end * BUCKET]
    return ProfileBacktest(wape_of(scores), exceed_of(scores), len(scores)) if scores else None


def _scores(history: History, series: Series, settings: ProfileSettings, origin: int) -> tuple[Score, ...]:
    """Return the forecasts that are made at an origin, with what came; the same for all that look at it later."""
    found = history.scores.get(origin)
    if found is None:
        found = history.scores[origin] = tuple(_forecasts(history, series, settings, origin))
    return found


def _forecasts(history: History, series: Series, settings: ProfileSettings, origin: int) -> Iterator[Score]:
    fit = history.fit(origin)
    if fit is None:
        return
    shape = Shape(history, fit)
    k = _correction(history, series, settings, fit, shape)
    for lead in LEADS:
        place = history.place.get(origin + lead)
        quantiles = None if place is None else shape.at(series.slot[place])
        if place is not None and quantiles is not None:
            usual = fit.base(origin + lead) * faded(k, lead * BUCKET, settings.online.tau)
            start = (origin + lead) * BUCKET
            yield Score(start, series.rate[place], usual * quantiles.q50, usual * quantiles.q90)


def _correction(history: History, series: Series, settings: ProfileSettings, fit: Fit, shape: Shape) -> float:
    ratios = []
    for index in range(fit.origin - RECENT, fit.origin):
        place = history.place.get(index)
        quantiles = None if place is None else shape.at(series.slot[place])
        if place is not None and quantiles is not None and quantiles.q50 > 0.0:
            ratios.append(series.rate[place] / (fit.base(index) * quantiles.q50))
    return bounded_median(ratios, settings.online.k_bounds)


@dataclass(frozen=True)
class ProfileTask:
    """The function of ``mapInArrow``: a row per source with its quarter hours to a row of ``RESULT``."""

    settings: ProfileSettings

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Fit and test the sources of a partition one after the other."""
        for batch in batches:
            # Row by row: as Python numbers a whole batch would be many times as large.
            rows = [self.result(batch.slice(place, 1).to_pylist()[0]) for place in range(batch.num_rows)]
            yield pa.RecordBatch.from_pylist(rows, schema=SCHEMA)

    def result(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """Return the result row of one source.

        Args:
            row: ``job_key``, ``source_id``; ``first`` index of a complete quarter hour, None without any; ``recent``
                complete ones of the last seven days; ``index``, ``slot`` and ``rate`` of those to be learned from.
        """
        series = Series(row["index"], row["slot"], row["rate"])
        missing = missing_share(row["first"], row["recent"], self.settings.asof // BUCKET)
        who = {"job_key": row["job_key"], "source_id": row["source_id"]}
        history = History(series, self.settings)
        found = learned(history, series, self.settings)
        shape = shape_of(history, self.settings.asof // BUCKET)
        shares = {"q50": [each and each.q50 for each in shape], "q90": [each and each.q90 for each in shape]}
        return {**who, "missing": missing, **found, **(shares if shape else {})}


def shape_of(history: History, end: int) -> list[Quantiles | None]:
    """Return the profile as it is known at a quarter hour, by quarter hour of the week; empty where there is none."""
    fit = history.fit(end)
    return [] if fit is None else Shape(history, fit).whole()


def learned(history: History, series: Series, settings: ProfileSettings) -> dict[str, Any]:
    """Return what is found out about one source: its columns of ``RESULT``, without the profile and nulls.

    Args:
        history: Of the series.
        series: What is later than ``settings.asof`` does not count.
        settings: How profiles are made.
    """
    common = {"asof": float(settings.asof), "timezone": settings.timezone, "version": VERSION}
    fit = history.fit(settings.asof // BUCKET)
    if fit is None:
        return {**common, "problem": _problem(history, settings.asof // BUCKET)}
    tested = backtest(history, series, settings)
    # An infinite error, where nothing arrived, is none that anything can be said about.
    scores = {} if tested is None or math.isinf(tested.wape) else {"wape": tested.wape, "exceed": tested.exceed}
    return {**common, **scores, "level": fit.level, "growth": fit.growth, "weeks": fit.weeks}


def missing_share(first: int | None, recent: int, end: int) -> float:
    """Return the share of the last seven days that is not there; what was before a source began is not missing.

    Args:
        first: Index of the first quarter hour that is there; None without any.
        recent: How many of the last seven days are there.
        end: Index of the first quarter hour that is not looked at.
    """
    wanted = 0 if first is None else min(BUCKETS_PER_WEEK, end - first)
    return 1.0 - recent / wanted if wanted else 1.0


def _problem(history: History, end: int) -> str:
    most = max(week.size for week in history.weeks(end))
    if most >= LEAST_OF_DAYS:
        return "in most quarter hours nothing arrived, so there is no level to forecast from"
    return f"too little history: {most} of the {LEAST_OF_DAYS} quarter hours within seven days that a profile needs"
