"""The nightly job with a Spark session of its own, over a metric history or other Parquet files."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Final

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from flink_autoscaler.core.errors import AutoscalerError, ConfigError
from flink_autoscaler.core.model.load_profile import ProfileResult
from flink_autoscaler.pipeline.profiles import ProfileSettings
from flink_autoscaler.pipeline.profiles.job import profiles_of, results
from flink_autoscaler.pipeline.spark.session import OpenSession, open_session
from flink_autoscaler.pipeline.spark.settings import SparkSettings
from flink_autoscaler.pipeline.spark.supply import SparkLostError, reason_of
from flink_autoscaler.pipeline.tables.files import Files, files_at, is_local, local_path
from flink_autoscaler.pipeline.tables.schema import SAMPLES
from flink_autoscaler.pipeline.tables.spark_files import advice, read
from flink_autoscaler.pipeline.tables.store import SUFFIX, Folder, HistoryFilter

COLUMNS: Final[Mapping[str, str]] = {
    "job_key": "string",
    "source_id": "string",
    "ts": "timestamp",
    "arrival_rate": "double",
    "span": "double",
    "is_running": "boolean",
}
"""Of samples, with their types."""

_DEFAULTS: Final[Mapping[str, Any]] = {"span": None, "is_running": True}
"""Of the columns that may be missing: a row stands for its minute, and the job ran, as it did in a history's rows."""

Reader = Callable[[SparkSession], DataFrame]
"""Gives samples with the columns ``COLUMNS``."""

BATCH_CONF: Final[Mapping[str, str]] = {
    # The session of the passes is made for a moment's work on little; this is the opposite.
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.shuffle.partitions": "16",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "64",
}
_CONNECT_MODE: Final = "SPARK_CONNECT_MODE_ENABLED"
Opener = Callable[[SparkSettings], OpenSession]
"""Opens a session, which the caller closes."""


def samples_at(path: str, settings: ProfileSettings) -> Reader:
    """Return what reads a metric history, or the Parquet files of others; what is there decides.

    Args:
        path: Folder or URL of a history, or a Parquet file or a folder of such. Through Spark Connect, whose server
            lends no access to its file systems, it is the latter.
        settings: Which part of a history is needed.

    Returns:
        The reader. It leaves damaged files of a history out with a warning, and raises ConfigError where there is
        nothing that can be read, and HistoryError where the file system of a history does not answer.
    """

    def read_samples(spark: SparkSession) -> DataFrame:
        is_connect = not hasattr(spark, "_jsc")
        if not is_connect and not path.endswith(SUFFIX):
            files = files_at(path, spark)
            if _is_history(files):
                days = HistoryFilter(settings.begin * 1000, settings.asof * 1000)
                return _conform(read(spark, files, SAMPLES, days).frame)
        return parquet_samples(spark, path)

    return read_samples


def _is_history(files: Files) -> bool:
    """Tell whether there are folders of a metric history with samples."""
    return files.exists() and any(Folder.of(entry.folder) for entry in files.list(SAMPLES.name))


def parquet_samples(spark: SparkSession, path: str) -> DataFrame:
    """Read a Parquet file or a folder of such.

    Raises:
        ConfigError: They cannot be read, or lack a column.
    """
    is_ours = is_local(path) and hasattr(spark, "_jsc")
    try:
        # Spark would look for a path without a scheme in the cluster's default file system.
        found = spark.read.parquet(f"file:{local_path(path)}" if is_ours else path)
    except (PySparkException, Py4JError) as exc:
        reason = advice(path, str(exc)) or reason_of(exc)
        raise ConfigError(f"{path} holds neither a metric history nor Parquet files: {reason}") from exc
    if missing := [name for name in COLUMNS if name not in (*found.columns, *_DEFAULTS)]:
        raise ConfigError(f"{path} has no column {', '.join(missing)}")
    return _conform(found)


def _conform(found: DataFrame) -> DataFrame:
    given = {name: found[name] if name in found.columns else F.lit(_DEFAULTS[name]) for name in COLUMNS}
    return found.select(*(given[name].cast(kind).alias(name) for name, kind in COLUMNS.items()))


def build_profiles(
    spark: SparkSettings, read: Reader, settings: ProfileSettings, opener: Opener = open_session
) -> Iterator[ProfileResult]:
    """Open a session, read the samples, and return one result per source, in no order.

    Args:
        spark: How Spark is run; what it sets itself goes before what suits this job.
        read: Where the samples come from.
        settings: How profiles are made.
        opener: Who opens the session.

    Raises:
        ConfigError: Java is missing, or the samples cannot be read.
        SparkLostError: Spark did not start, or failed.
    """
    session = opener(replace(spark, is_long=True, conf={**BATCH_CONF, **spark.conf}))
    try:
        with _functions_of(spark):
            yield from results(profiles_of(read(session.spark), settings))
    except AutoscalerError:
        raise
    except Exception as exc:  # py4j, pyspark and Spark raise dozens of kinds when a job fails
        raise SparkLostError(f"the profiles could not be made: {reason_of(exc)}") from exc
    finally:
        session.close()


@contextmanager
def _functions_of(spark: SparkSettings) -> Iterator[None]:
    """Let ``pyspark.sql.functions`` make expressions for the kind of session that is open.

    It goes by a variable of the whole process, which pyspark's own builder of Spark Connect sessions sets for good;
    here it must not outlast the session, since another one may be of the other kind.
    """
    if not spark.is_connect or _CONNECT_MODE in os.environ:
        yield
        return
    os.environ[_CONNECT_MODE] = "1"
    try:
        yield
    finally:
        os.environ.pop(_CONNECT_MODE, None)
