"""The nightly job with a Spark session of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final, Protocol, cast

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from flink_autoscaler.core.errors import AutoscalerError, ConfigError
from flink_autoscaler.core.forecast.store import ProfileResult
from flink_autoscaler.pipeline.profiles.job import profiles_of
from flink_autoscaler.pipeline.profiles.settings import ProfileSettings
from flink_autoscaler.pipeline.profiles.tables import results
from flink_autoscaler.pipeline.session import SparkSettings, open_session
from flink_autoscaler.pipeline.supply import SparkLostError, reason_of

COLUMNS: Final[Mapping[str, str]] = {
    "job_key": "string",
    "source_id": "string",
    "ts": "timestamp",
    "arrival_rate": "double",
    "is_running": "boolean",
}
"""Of the history, with their types."""

BATCH_CONF: Final[Mapping[str, str]] = {
    # The session of the passes is made for a moment's work on little; this is the opposite.
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.shuffle.partitions": "16",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "64",
}


Reader = Callable[[SparkSession], DataFrame]
"""Gives the samples with the columns ``COLUMNS``."""


def build_profiles(spark: SparkSettings, read: Reader, settings: ProfileSettings) -> Iterator[ProfileResult]:
    """Open a session, read the samples, and return one result per source, in no order.

    Args:
        spark: How Spark is run; what it sets itself goes before what suits this job.
        read: Where the samples come from.
        settings: How profiles are made.

    Raises:
        ConfigError: Java is missing, or the samples cannot be read.
        SparkLostError: Spark did not start, or failed.
    """
    session = open_session(replace(spark, conf={**BATCH_CONF, **spark.conf}))
    try:
        with profiles_of(read(cast("_SparkSession", session).spark), settings) as tables:
            yield from results(tables)
    except AutoscalerError:
        raise
    except Exception as exc:  # py4j, pyspark and Spark raise dozens of kinds when a job fails
        raise SparkLostError(f"the profiles could not be made: {reason_of(exc)}") from exc
    finally:
        session.close()


def parquet_files(path: Path) -> Reader:
    """Return what reads a Parquet file, or a folder of such, with the columns ``COLUMNS``; it raises ConfigError."""

    def read(spark: SparkSession) -> DataFrame:
        try:
            found = spark.read.parquet(str(path))
        except PySparkException as exc:
            raise ConfigError(f"{path} cannot be read as Parquet: {reason_of(exc)}") from exc
        if missing := [name for name in COLUMNS if name not in found.columns]:
            raise ConfigError(f"{path} has no column {', '.join(missing)}")
        return found.select(*(found[name].cast(kind).alias(name) for name, kind in COLUMNS.items()))

    return read


class _SparkSession(Protocol):
    """What every kind of session has besides."""

    spark: SparkSession
