"""Load profiles from the history of the settings: for the command, and in a process of its own for the daemon.

As a program it is that process: the daemon hands settings to it and reads results from it, one after the other, so that
nothing of it delays a pass, neither its work nor its memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from flink_autoscaler.core.errors import AutoscalerError, ConfigError
from flink_autoscaler.core.model.load_profile import ProfileResult
from flink_autoscaler.core.options.forecast import ForecastOptions
from flink_autoscaler.pipeline.profiles import ProfileSettings
from flink_autoscaler.pipeline.profiles.run import build_profiles, samples_at
from flink_autoscaler.pipeline.spark.settings import CONNECT_PREFIX
from flink_autoscaler.standalone.settings.logs import configure_logging
from flink_autoscaler.standalone.settings.schema.settings import Settings
from flink_autoscaler.standalone.settings.secrets import mask_secrets
from flink_autoscaler.standalone.settings.spark import spark_settings
from flink_autoscaler.standalone.worker_process import init_worker


def history_profile_builder(settings: Settings, path: str, end: float) -> Callable[..., Iterator[ProfileResult]]:
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


def _scheduled_build(settings: Settings, end: float) -> Iterator[ProfileResult]:
    """Make the profiles of the configured history.

    A Spark Connect server lends no access to its file systems: in its place Spark runs here.
    """
    path = settings.history.path
    if path is None:
        raise ConfigError("autoscaler.history.path is not set")
    if settings.engine.spark_master.startswith(CONNECT_PREFIX):
        engine = settings.engine.model_copy(update={"spark_master": "local[*]"})
        settings = settings.model_copy(update={"engine": engine})
    return history_profile_builder(settings, path, end)()


def main() -> None:
    """Make profiles and send them to the daemon, which has said what its settings are and where the history ends."""
    (settings, end), send = init_worker()
    configure_logging(log_format=settings.log.format, level=settings.log.level)
    try:
        for result in _scheduled_build(settings, end):
            send(result)
        send(None)
    except AutoscalerError as error:
        send(AutoscalerError(mask_secrets(str(error))))


if __name__ == "__main__":
    main()
