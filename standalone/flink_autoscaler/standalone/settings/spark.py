"""Settings of Spark for the passes of a daemon, and for commands. Loads no Spark: ``check-config`` asks, too."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from flink_autoscaler.pipeline.spark.settings import SparkSettings
from flink_autoscaler.standalone.settings.schema.clusters import EngineKind
from flink_autoscaler.standalone.settings.schema.settings import Settings

LEAST_CUT: Final = 1.0
MOST_CUT: Final = 5.0
"""Bounds of the seconds that a cluster may take in a Spark job beside others; between them half of an interval."""

BATCH_MEMORY: Final = 1 << 30
"""Heap for weeks of samples, bytes; what the settings say counts where it is more."""


def live_spark_settings(settings: Settings) -> SparkSettings:
    """Return how Spark evaluates the clusters that may be meant for it."""
    engine = settings.engine
    clusters = settings.effective_clusters()
    on_spark = [cluster for cluster in clusters if cluster.engine is not EngineKind.INLINE]
    cut_after = max(LEAST_CUT, min([MOST_CUT, *(cluster.interval / 2 for cluster in on_spark)]))
    if [cluster.settings.type for cluster in on_spark] == ["flink"]:
        cut_after = engine.job_deadline  # one endpoint alone keeps nobody waiting, unless Spark itself hangs
    return SparkSettings(
        master=engine.spark_master,
        driver_memory=f"{engine.driver_memory >> 20}m",
        concurrent_passes=max(1, len(on_spark)),
        cut_after=cut_after,
        python_files=engine.python_files,
        conf=engine.spark_config,
    )


def spark_settings(
    settings: Settings, master: str, *, least_memory: int = BATCH_MEMORY, conf: Mapping[str, str] | None = None
) -> SparkSettings:
    """Return how Spark is run for a command.

    Args:
        settings: Of the engine.
        master: Where it runs.
        least_memory: Heap in bytes; what the settings say counts where it is more.
        conf: What suits the command; what is configured goes before it.
    """
    engine = settings.engine
    return SparkSettings(
        master=master,
        driver_memory=f"{max(engine.driver_memory, least_memory) >> 20}m",
        python_files=engine.python_files,
        conf={**(conf or {}), **engine.spark_config},
    )
