"""Spark sessions as the engine sees them, and how they are opened."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Protocol

from flink_autoscaler.core.errors import ConfigError
from flink_autoscaler.pipeline.spark.settings import SparkSettings
from flink_autoscaler.pipeline.spark.supply import Session

if TYPE_CHECKING:
    from flink_autoscaler.pipeline.spark.task import OutcomeRow, PartitionPlan, PassTask


class PassSession(Session, Protocol):
    """A Spark session as the engine sees it. Calls may come from several threads."""

    def slots(self) -> int:
        """Return how many tasks run at the same time, at least 1."""
        ...

    def run(self, plan: PartitionPlan, task: PassTask, *, label: str) -> list[OutcomeRow]:
        """Run one Spark job, one task per piece of the plan, and return its rows. Raises what Spark raises."""
        ...

    def cancel(self, label: str) -> None:
        """Cancel the job with a label. Raises what Spark raises."""
        ...

    def is_alive(self) -> bool:
        """Whether the session still answers. May hang when Spark does."""
        ...


def leave_pandas_alone() -> None:
    """Keep pyspark from warning of newer versions of pandas, of which nothing here makes use."""
    warnings.filterwarnings("ignore", message=".*does not yet fully support pandas.*", category=FutureWarning)


def open_session(settings: SparkSettings) -> PassSession:
    """Open a session, which takes some seconds.

    Raises:
        ConfigError: Java, the configuration of YARN, or the packages for Spark Connect are missing.
        SparkLostError: Spark did not start; the message has the last lines of its output.
    """
    leave_pandas_alone()
    # Imported here: each loads much that the other, and whoever opens no session, does not need.
    if not settings.is_connect:
        from flink_autoscaler.pipeline.spark.driver import DriverSession  # noqa: PLC0415

        return DriverSession(settings)
    try:
        from flink_autoscaler.pipeline.spark.connect import ConnectSession  # noqa: PLC0415
    except ImportError as exc:
        raise ConfigError(
            f"Spark Connect needs more packages: pip install 'flink-autoscaler[connect]' ({exc})"
        ) from exc
    return ConnectSession(settings)
