"""Load profiles from the history of the settings: for the command, and for the daemon's own schedule."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from flink_autoscaler.core.errors import ConfigError
from flink_autoscaler.core.model.load_profile import ProfileResult
from flink_autoscaler.core.options.forecast import ForecastOptions
from flink_autoscaler.pipeline.profiles import ProfileSettings
from flink_autoscaler.pipeline.profiles.run import build_profiles, samples_at
from flink_autoscaler.pipeline.spark.settings import CONNECT_PREFIX
from flink_autoscaler.standalone.history.access import spark_settings
from flink_autoscaler.standalone.settings.schema.settings import Settings


def profile_build(settings: Settings, path: str, end: float) -> Callable[..., Iterator[ProfileResult]]:
    """Return what makes the profiles once it is called; it may be given who opens the Spark session.

    Args:
        settings: How profiles are made, and Spark is run.
        path: Folder or URL of a metric history, or Parquet files.
        end: Of the history, epoch seconds.

    Raises:
        ConfigError: An option cannot be read.
    """
    wanted = ProfileSettings.of(ForecastOptions(settings.job_defaults), end)
    spark = spark_settings(settings, settings.engine.spark_master)
    return partial(build_profiles, spark, samples_at(path, wanted), wanted)


def scheduled_build(settings: Settings, end: float) -> Callable[..., Iterator[ProfileResult]]:
    """Return what makes the profiles of the configured history.

    A Spark Connect server lends no access to its file systems: in its place Spark runs here.

    Raises:
        ConfigError: There is no history, or an option cannot be read.
    """
    path = settings.history.path
    if path is None:
        raise ConfigError("autoscaler.history.path is not set")
    if settings.engine.spark_master.startswith(CONNECT_PREFIX):
        engine = settings.engine.model_copy(update={"spark_master": "local[*]"})
        settings = settings.model_copy(update={"engine": engine})
    return profile_build(settings, path, end)
