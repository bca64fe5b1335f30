"""The part of the nightly job that looks at one source at a time, in Spark's Python workers."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from flink_autoscaler.core.model.load_profile import BUCKET, BUCKETS_PER_WEEK, LEAST_OF_DAYS, VERSION
from flink_autoscaler.pipeline.profiles.backtest import backtest
from flink_autoscaler.pipeline.profiles.fit import History, Series
from flink_autoscaler.pipeline.profiles.settings import ProfileSettings

SCHEMA = pa.schema(
    [
        pa.field("job_key", pa.string()),
        pa.field("source_id", pa.string()),
        pa.field("level", pa.float64()),
        pa.field("growth", pa.float64()),
        pa.field("weeks", pa.int32()),
        pa.field("missing", pa.float64()),
        pa.field("wape", pa.float64()),
        pa.field("exceed", pa.float64()),
        pa.field("asof", pa.float64()),
        pa.field("timezone", pa.string()),
        pa.field("version", pa.int32()),
        pa.field("problem", pa.string()),
    ]
)
"""``forecast_meta`` in Arrow."""


@dataclass(frozen=True)
class MetaTask:
    """The function of ``mapInArrow``: a row per source with its quarter hours to a row of ``forecast_meta``."""

    settings: ProfileSettings

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Fit and test the sources of a partition one after the other."""
        for batch in batches:
            # Row by row: as Python numbers a whole batch would be many times as large.
            rows = [self.meta(batch.slice(place, 1).to_pylist()[0]) for place in range(batch.num_rows)]
            yield pa.RecordBatch.from_pylist(rows, schema=SCHEMA)

    def meta(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """Return the result row of one source.

        Args:
            row: ``job_key``, ``source_id``; ``first`` index of a complete quarter hour, None without any; ``recent``
                complete ones of the last seven days; ``index``, ``slot`` and ``rate`` of those to be learned from.
        """
        series = Series(row["index"], row["slot"], row["rate"])
        missing = missing_share(row["first"], row["recent"], self.settings.asof // BUCKET)
        who = {"job_key": row["job_key"], "source_id": row["source_id"]}
        return {**who, "missing": missing, **learned(History(series, self.settings), series, self.settings)}


def learned(history: History, series: Series, settings: ProfileSettings) -> dict[str, Any]:
    """Return what is found out about one source: its columns of ``forecast_meta``, those that are null left out.

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
