"""The nightly job: from samples of arrival rates to profiles, level, growth and backtest of every source."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from flink_autoscaler.core.model.load_profile import (
    BUCKET,
    BUCKETS_PER_DAY,
    BUCKETS_PER_WEEK,
    FULL_WEEKS,
    LEAST_MINUTES,
    LEAST_OF_DAYS,
    LEAST_OF_WEEK,
    LEAST_WEEKS,
    MINUTE,
    MINUTES,
    LoadProfile,
    ProfileResult,
)
from flink_autoscaler.pipeline.profiles import ProfileSettings
from flink_autoscaler.pipeline.profiles.source import META, MetaTask
from flink_autoscaler.pipeline.spark.executors import map_in_arrow

_KEYS: Final = ["job_key", "source_id"]

PROFILE: Final = "job_key string, source_id string, slot int, q50 double, q90 double, weeks int"
"""``forecast_profile``: a row per source and quarter hour of the week that is known."""


@dataclass(frozen=True, slots=True)
class ForecastTables:
    """What the job made, of the schemas ``PROFILE`` and ``META``."""

    profile: DataFrame
    meta: DataFrame


def results(tables: ForecastTables) -> Iterator[ProfileResult]:
    """Compute the tables and return one result per source, in no order. Raises what Spark raises."""
    slots = F.sort_array(F.collect_list(F.struct("slot", "q50", "q90")))
    profiles = tables.profile.groupBy(*_KEYS).agg(slots.alias("slots"))
    rows = tables.meta.join(profiles, on=_KEYS, how="left")
    columns = (F.col(f"slots.{name}").alias(name) for name in ("slot", "q50", "q90"))
    for batch in rows.select(*tables.meta.columns, *columns).toArrow().to_batches():
        yield from map(_result, batch.to_pylist())


def _result(row: Mapping[str, Any]) -> ProfileResult:
    problem = row["problem"]
    profile = _load_profile(row) if problem is None else None
    return ProfileResult(row["job_key"], row["source_id"], row["asof"], profile, problem)


def _load_profile(row: Mapping[str, Any]) -> LoadProfile:
    q50: list[float | None] = [None] * BUCKETS_PER_WEEK
    q90 = list(q50)
    for slot, middle, upper in zip(row["slot"] or (), row["q50"] or (), row["q90"] or (), strict=True):
        q50[slot], q90[slot] = middle, upper
    names = ("weeks", "level", "growth", "asof", "timezone", "missing", "wape", "exceed")
    return LoadProfile(tuple(q50), tuple(q90), **{name: row[name] for name in names})


@contextmanager
def profiles_of(samples: DataFrame, settings: ProfileSettings) -> Iterator[ForecastTables]:
    """Give the result tables, which are computed when they are used; the quarter hours are kept until the block ends.

    Args:
        samples: ``job_key`` and ``source_id`` (string), ``ts`` (timestamp), ``arrival_rate`` (double, records/s, null
            where it cannot be computed), ``span`` (double, seconds before ``ts`` that the rate covers, null for one
            minute) and ``is_running`` (boolean). Rows without a job or source do not count.
        settings: How profiles are made.
    """
    quarters = quarter_hours(samples, settings).persist()
    try:
        learned = quarters.where("is_kept and not is_excluded")
        meta = map_in_arrow(_per_source(quarters), MetaTask(settings), META)
        yield ForecastTables(_profile(learned, settings), meta)
    finally:
        quarters.unpersist()


def quarter_hours(samples: DataFrame, settings: ProfileSettings) -> DataFrame:
    """Average the rates of quarter hours.

    Returns:
        One row per source and quarter hour with a sample: ``job_key``, ``source_id``, ``index`` (epoch seconds / 900),
        ``rate``, ``week`` (age, 0 is the newest), ``slot`` (of the local week), ``is_kept`` (enough minutes with the
        job running), ``is_excluded``.
    """
    rate = F.col("arrival_rate")
    is_usable = F.col("is_running") & (rate >= 0.0) & (rate < float("inf"))
    minutes = F.when(is_usable, F.bit_count("minutes"))
    averaged = (
        _covered(samples.dropna(subset=_KEYS), settings)
        .groupBy(*_KEYS, "index")
        .agg(
            (F.sum(rate * minutes) / F.sum(minutes)).alias("rate"),
            F.bit_count(F.coalesce(F.bit_or(F.when(is_usable, F.col("minutes"))), F.lit(0))).alias("minutes"),
        )
    )
    utc = F.expr(f"timestamp_ntz'1970-01-01 00:00:00' + make_dt_interval(0, 0, 0, index * {BUCKET})")
    local = F.convert_timezone(F.lit("UTC"), F.lit(settings.timezone), utc)
    return averaged.withColumn("local", local).select(
        *_KEYS,
        "index",
        "rate",
        F.floor((settings.asof // BUCKET - 1 - F.col("index")) / BUCKETS_PER_WEEK).cast("int").alias("week"),
        F.expr("(weekday(local) * 24 + hour(local)) * 4 + minute(local) div 15").cast("int").alias("slot"),
        (F.col("minutes") >= LEAST_MINUTES).alias("is_kept"),
        F.to_date("local").isin([F.lit(day) for day in settings.excluded]).alias("is_excluded"),
    )


def _covered(samples: DataFrame, settings: ProfileSettings) -> DataFrame:
    """Repeat samples in every quarter hour that they cover minutes of: its ``index``, and a bit per one of ``minutes``.

    A sample is about the minute that it is of, and about those before that its rate covers: passes may be kept less
    often than every minute. It never covers more than a quarter hour, of which it would not tell the shape.
    """
    at = F.unix_seconds("ts")
    known = F.least(F.coalesce(F.col("span"), F.lit(0.0)), F.lit(float(BUCKET)))
    count = F.greatest(F.round(known / MINUTE).cast("long"), F.lit(1))
    placed = (
        samples.where((at >= settings.begin) & (at < settings.asof))
        .withColumn("last", F.floor(at / MINUTE))
        .withColumn("first", F.col("last") - count + 1)
    )
    earlier, later = (F.floor(F.col(end) / MINUTES) for end in ("first", "last"))
    touched = F.when(earlier == later, F.array(later)).otherwise(F.array(earlier, later))
    spread = placed.withColumn("index", F.explode(touched))
    begin = F.greatest(F.col("first") - F.col("index") * MINUTES, F.lit(0)).cast("int")
    end = F.least(F.col("last") - F.col("index") * MINUTES, F.lit(MINUTES - 1)).cast("int")
    bits = F.expr("shiftleft(1, end + 1) - shiftleft(1, begin)").alias("minutes")
    return spread.withColumns({"begin": begin, "end": end}).select(
        *_KEYS, F.col("index").cast("int").alias("index"), "arrival_rate", "is_running", bits
    )


def weekly_levels(learned: DataFrame, settings: ProfileSettings) -> DataFrame:
    """Return the medians of the weeks that count: usable ones, or weeks with three days where hardly any is usable.

    Args:
        learned: ``job_key``, ``source_id``, ``week``, ``rate``; the quarter hours to be learned from.
        settings: How many weeks.

    Returns:
        One row per source and week: ``job_key``, ``source_id``, ``week``, ``level`` (above 0), ``weeks`` (usable ones),
        ``growth`` (factor per week).
    """
    recent = learned.where(F.col("week") < settings.weeks)
    by_week = recent.groupBy(*_KEYS, "week").agg(F.count("*").alias("count"), F.median("rate").alias("level"))
    by_week = by_week.where("level > 0")
    usable = by_week.groupBy(*_KEYS).agg(F.count_if(F.col("count") >= LEAST_OF_WEEK).cast("int").alias("weeks"))
    least = F.when(F.col("weeks") >= LEAST_WEEKS, LEAST_OF_WEEK).otherwise(LEAST_OF_DAYS)
    counted = by_week.join(usable, on=_KEYS, how="inner").where(F.col("count") >= least)
    return _with_growth(counted.select(*_KEYS, "week", "level", "weeks"), settings)


def _with_growth(levels: DataFrame, settings: ProfileSettings) -> DataFrame:
    """Add the column ``growth``: what ``growth.weekly_growth`` returns, 1 with fewer than four usable weeks."""
    older = levels.where(F.col("weeks") >= FULL_WEEKS).withColumnsRenamed({"week": "older", "level": "before"})
    pairs = levels.join(older.drop("weeks"), on=_KEYS, how="inner").where("week < older")
    slope = F.median(F.log(F.col("level") / F.col("before")) / (F.col("older") - F.col("week")))
    least, most = (F.lit(bound) for bound in settings.growth_bounds)
    growth = pairs.groupBy(*_KEYS).agg(F.least(F.greatest(F.exp(slope), least), most).alias("growth"))
    return levels.join(growth, on=_KEYS, how="left").fillna(1.0, "growth")


def _profile(learned: DataFrame, settings: ProfileSettings) -> DataFrame:
    """Blend the quantiles of the week with those of the day: the table ``forecast_profile``."""
    levels = F.broadcast(weekly_levels(learned, settings))
    near = (
        learned.join(levels, on=[*_KEYS, "week"], how="inner")
        .withColumn("ratio", F.col("rate") / _known_base(settings))
        .select(*_KEYS, "weeks", "ratio", F.explode(_neighbours(F.col("slot"))).alias("slot"))
    )
    quantiles = F.percentile_approx("ratio", [0.5, settings.quantile])
    weekly = near.where(F.col("weeks") >= LEAST_WEEKS).groupBy(*_KEYS, "slot").agg(quantiles.alias("w"))
    time = (F.col("slot") % BUCKETS_PER_DAY).alias("time")
    daily = near.groupBy(*_KEYS, "weeks", time).agg(quantiles.alias("d"))
    same_time = F.array(*(F.col("time") + start for start in range(0, BUCKETS_PER_WEEK, BUCKETS_PER_DAY)))
    every = daily.select(*_KEYS, "weeks", "d", F.explode(same_time).alias("slot"))
    return every.join(weekly, on=[*_KEYS, "slot"], how="left").select(*_KEYS, "slot", *_shrunk(), "weeks")


def _known_base(settings: ProfileSettings) -> Column:
    """Return what ``Fit.known_base`` returns, of the columns ``index``, ``week``, ``level`` and ``growth``."""
    since_middle = (F.col("index") - settings.asof // BUCKET) / BUCKETS_PER_WEEK + F.col("week") + 0.5
    return F.col("level") * F.pow(F.col("growth"), since_middle)


def _neighbours(slot: Column) -> Column:
    return F.array(*((slot + step) % BUCKETS_PER_WEEK for step in (BUCKETS_PER_WEEK - 1, 0, 1)))


def _shrunk() -> tuple[Column, Column]:
    """Return the two columns that ``fit.shrunk`` returns, of the columns ``w``, ``d`` and ``weeks``."""
    weeks = F.col("weeks")
    weekly, daily = ((F.get(name, F.lit(0)), F.get(name, F.lit(1))) for name in ("w", "d"))
    share = F.least(F.lit(1.0), weeks / FULL_WEEKS)
    q50 = F.coalesce(share * weekly[0] + (1 - share) * daily[0], daily[0])
    q90 = F.when(weeks >= FULL_WEEKS, F.coalesce(weekly[1], daily[1])).otherwise(F.greatest(weekly[1], daily[1]))
    return q50.alias("q50"), q90.alias("q90")


def _per_source(quarters: DataFrame) -> DataFrame:
    """Return one row per source, as ``MetaTask.meta`` wants it."""
    is_kept = F.col("is_kept")
    entry = F.when(is_kept & ~F.col("is_excluded"), F.struct("index", "slot", "rate"))
    gathered = quarters.groupBy(*_KEYS).agg(
        F.min(F.when(is_kept, F.col("index"))).alias("first"),
        F.count_if(is_kept & (F.col("week") == 0)).alias("recent"),
        F.sort_array(F.collect_list(entry)).alias("entries"),
    )
    columns = (F.col(f"entries.{name}").alias(name) for name in ("index", "slot", "rate"))
    return gathered.select(*_KEYS, "first", "recent", *columns)
