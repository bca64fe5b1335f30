"""Spark sessions as their users see them, and how they are opened."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, Protocol

from flink_autoscaler.pipeline.spark.environment import require_connect
from flink_autoscaler.pipeline.spark.settings import SparkSettings
from flink_autoscaler.pipeline.spark.supply import Session

if TYPE_CHECKING:
    from flink_autoscaler.pipeline.spark.task import OutcomeRow, PartitionPlan, PassTask


class OpenSession(Session, Protocol):
    """A Spark session for analytics.

    Attributes:
        spark: The ``SparkSession``, of a driver of ours or of Spark Connect.
    """

    spark: Any

    def slots(self) -> int:
        """Return how many tasks run at the same time, at least 1."""
        ...


class PassSession(OpenSession, Protocol):
    """A Spark session as the engine sees it, whose driver is ours. Calls may come from several threads."""

    def run(self, plan: PartitionPlan, task: PassTask, *, label: str) -> list[OutcomeRow]:
        """Run one Spark job, one task per piece of the plan, and return its rows. Raises what Spark raises."""
        ...

    def cancel(self, label: str) -> None:
        """Cancel the job with a label. Raises what Spark raises."""
        ...

    def is_alive(self) -> bool:
        """Return whether the session still answers. May hang when Spark does."""
        ...


def leave_pandas_alone() -> None:
    """Keep pyspark from warning of newer versions of pandas, of which nothing here makes use."""
    warnings.filterwarnings("ignore", message=".*does not yet fully support pandas.*", category=FutureWarning)


def open_driver(settings: SparkSettings) -> PassSession:
    """Open a session with a driver of ours, which takes some seconds.

    Raises:
        ConfigError: Java or the configuration of YARN is missing, or a Spark Connect server is the master.
        SparkLostError: Spark did not start; the message has the last lines of its output.
    """
    leave_pandas_alone()
    # Imported here: whoever opens no session does not pay for pyspark.
    from flink_autoscaler.pipeline.spark.driver import DriverSession  # noqa: PLC0415

    return DriverSession(settings)


def open_session(settings: SparkSettings) -> OpenSession:
    """Open a session for analytics, on a Spark Connect server where that is the master.

    Raises:
        ConfigError: Java, the configuration of YARN, or the packages for Spark Connect are missing.
        SparkLostError: Spark did not start; the message has the last lines of its output.
    """
    if not settings.is_connect:
        return open_driver(settings)
    leave_pandas_alone()
    require_connect()
    from flink_autoscaler.pipeline.spark.connect import ConnectSession  # noqa: PLC0415

    return ConnectSession(settings)
