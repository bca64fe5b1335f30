"""Runners of backtests: this process, or Spark."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, Protocol

from flink_autoscaler.pipeline.backtest.case import FittedHistory
from flink_autoscaler.pipeline.backtest.inline import BacktestFilter, InlineRunner
from flink_autoscaler.pipeline.backtest.plan import BacktestPlan, SimulationResult
from flink_autoscaler.pipeline.spark.settings import SparkSettings
from flink_autoscaler.pipeline.tables.store import Progress, ignore_progress

NO_SPARK: Final = "none"
"""The master for this process."""


class Runner(Protocol):
    """Fits histories and runs plans. Calls come from one thread."""

    def fleet(
        self, path: str, choice: BacktestFilter, now: float, progress: Progress = ignore_progress
    ) -> FittedHistory:
        """Read a history and make models of its jobs.

        Args:
            path: Of the history.
            choice: Which part of it.
            now: Epoch seconds; what is later was written by a clock that is wrong.
            progress: Told about files where this process reads them.

        Raises:
            MissingHistoryError: There is no such history.
            HistoryError: It cannot be listed, or only Spark reaches it.
            SparkLostError: Spark failed.
        """
        ...

    def outcomes(self, plan: BacktestPlan) -> Iterator[SimulationResult]:
        """Yield what came of each piece as soon as it is there, in no order; raises ``AutoscalerError``."""
        ...


@contextmanager
def open_runner(settings: SparkSettings) -> Iterator[Runner]:
    """Give what runs backtests on a master; ``NO_SPARK`` is this process.

    Raises:
        ConfigError: Java or a library is missing or too old.
        SparkLostError: Spark did not start, or its executors or its version do not suit.
    """
    if settings.master == NO_SPARK:
        yield InlineRunner()
        return
    # Imported here: who needs no Spark must not wait for it.
    from flink_autoscaler.pipeline.backtest.spark import spark_runner  # noqa: PLC0415

    with spark_runner(settings) as runner:
        yield runner
