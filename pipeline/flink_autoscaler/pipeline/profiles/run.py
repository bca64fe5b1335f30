"""The nightly job with a Spark session of its own."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Final, Protocol, cast

from pyspark.sql import SparkSession

from flink_autoscaler.core.errors import AutoscalerError
from flink_autoscaler.core.model.policy_values import ProfileResult
from flink_autoscaler.pipeline.profiles.job import profiles_of
from flink_autoscaler.pipeline.profiles.samples import Reader
from flink_autoscaler.pipeline.profiles.settings import ProfileSettings
from flink_autoscaler.pipeline.profiles.tables import results
from flink_autoscaler.pipeline.spark.session import PassSession, SparkSettings, open_session
from flink_autoscaler.pipeline.spark.supply import SparkLostError, reason_of

BATCH_CONF: Final[Mapping[str, str]] = {
    # The session of the passes is made for a moment's work on little; this is the opposite.
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.shuffle.partitions": "16",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "64",
}

_CONNECT_MODE: Final = "SPARK_CONNECT_MODE_ENABLED"

Opener = Callable[[SparkSettings], PassSession]
"""Opens a session, which the caller closes."""


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
    session = opener(replace(spark, conf={**BATCH_CONF, **spark.conf}))
    try:
        with (
            _functions_of(spark),
            profiles_of(read(cast("_SparkSession", session).spark), settings) as tables,
        ):
            yield from results(tables)
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


class _SparkSession(Protocol):
    """What every kind of session has besides."""

    spark: SparkSession
