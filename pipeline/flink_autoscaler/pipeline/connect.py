"""A session on a Spark Connect server (``sc://``); needs the ``connect`` extra."""

from __future__ import annotations

import contextlib
from typing import Final

import pyarrow as pa
from pyspark.sql.connect.session import SparkSession

from flink_autoscaler.pipeline.session import SparkSettings
from flink_autoscaler.pipeline.task import OUTCOMES_DDL, PassTask

DEFAULT_SLOTS: Final = 4
"""Tasks per pass unless the settings say otherwise: a client does not learn how many cores the server has."""


class ConnectSession:
    """A session of a Spark Connect server (a ``PassSession``)."""

    def __init__(self, settings: SparkSettings) -> None:
        """Connect. Raises what the Spark Connect client raises."""
        builder = SparkSession.builder.remote(settings.master).appName(settings.app_name)
        for key, value in settings.conf.items():
            builder = builder.config(key, value)
        self.spark = builder.create()
        if settings.python_files:
            self.spark.addArtifacts(*settings.python_files, pyfile=True)

    def slots(self) -> int:
        """Return how many tasks a pass is divided into."""
        return DEFAULT_SLOTS

    def run(self, requests: pa.Table, task: PassTask, *, label: str) -> pa.Table:
        """Run one Spark job and return its rows. Raises what Spark raises."""
        self.spark.addTag(label)
        try:
            frame = self.spark.createDataFrame(requests).repartition(requests.column(0).num_chunks, "position")
            return frame.mapInArrow(task, OUTCOMES_DDL).toArrow()
        finally:
            self.spark.removeTag(label)

    def cancel(self, label: str) -> None:
        """Cancel the job with a label. Raises what Spark raises."""
        self.spark.interruptTag(label)

    def is_alive(self) -> bool:
        """Whether the server still answers."""
        try:
            return bool(self.spark.version)
        except Exception:  # grpc and pyspark raise a dozen kinds when the server is gone
            return False

    def close(self) -> None:
        """End the session; the server goes on."""
        with contextlib.suppress(Exception):
            self.spark.stop()

    def kill(self) -> None:
        """End a session that is lost, without waiting for Spark to help. Never raises."""
        self.close()
