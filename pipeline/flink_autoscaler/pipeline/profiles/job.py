"""The nightly job: from samples of arrival rates to profiles, level, growth and backtest of every source."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from flink_autoscaler.core.model.load_profile import (
    BUCKET,
    BUCKETS_PER_WEEK,
    MIN_MINUTES,
    MINUTE,
    MINUTES,
    LoadProfile,
    ProfileResult,
)
from flink_autoscaler.pipeline.profiles import ProfileSettings
from flink_autoscaler.pipeline.profiles.source import RESULT, ProfileTask
from flink_autoscaler.pipeline.spark.executors import map_in_arrow

_KEYS: Final = ["job_key", "source_id"]

_CHUNK: Final = 64
"""Profiles that become Python numbers at once."""


def results(profiles: DataFrame) -> Iterator[ProfileResult]:
    """Compute profiles and return one result per source, in no order. Raises what Spark raises.

    Args:
        profiles: What :func:`profiles_of` returns.
    """
    for batch in profiles.toArrow().to_batches(max_chunksize=_CHUNK):
        yield from map(_result, batch.to_pylist())


def _result(row: Mapping[str, Any]) -> ProfileResult:
    problem = row["problem"]
    profile = _load_profile(row) if problem is None else None
    return ProfileResult(row["job_key"], row["source_id"], row["asof"], profile, problem)


def _load_profile(row: Mapping[str, Any]) -> LoadProfile:
    names = ("weeks", "level", "growth", "asof", "timezone", "missing", "wape", "exceed")
    return LoadProfile(tuple(row["q50"]), tuple(row["q90"]), **{name: row[name] for name in names})


def profiles_of(samples: DataFrame, settings: ProfileSettings) -> DataFrame:
    """Return profiles, which are made when they are used, in one look at the samples.

    Args:
        samples: ``job_key`` and ``source_id`` (string), ``ts`` (timestamp), ``arrival_rate`` (double, records/s, null
            where it cannot be computed), ``span`` (double, seconds before ``ts`` that the rate covers, null for one
            minute) and ``is_running`` (boolean). Rows without a job or source do not count.
        settings: How profiles are made.

    Returns:
        One row per source, of the schema ``RESULT``.
    """
    return map_in_arrow(_per_source(quarter_hours(samples, settings)), ProfileTask(settings), RESULT)


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
        _covered_quarters(samples.dropna(subset=_KEYS), settings)
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
        (F.col("minutes") >= MIN_MINUTES).alias("is_kept"),
        F.to_date("local").isin([F.lit(day) for day in settings.excluded]).alias("is_excluded"),
    )


def _covered_quarters(samples: DataFrame, settings: ProfileSettings) -> DataFrame:
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


def _per_source(quarters: DataFrame) -> DataFrame:
    """Return one row per source, as ``ProfileTask.result`` wants it."""
    is_kept = F.col("is_kept")
    entry = F.when(is_kept & ~F.col("is_excluded"), F.struct("index", "slot", "rate"))
    gathered = quarters.groupBy(*_KEYS).agg(
        F.min(F.when(is_kept, F.col("index"))).alias("first"),
        F.count_if(is_kept & (F.col("week") == 0)).alias("recent"),
        F.sort_array(F.collect_list(entry)).alias("entries"),
    )
    columns = (F.col(f"entries.{name}").alias(name) for name in ("index", "slot", "rate"))
    return gathered.select(*_KEYS, "first", "recent", *columns)
