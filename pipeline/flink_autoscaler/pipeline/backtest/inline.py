"""Fits histories and runs plans in this process, one job after the other."""

from __future__ import annotations

from collections.abc import Iterator

from flink_autoscaler.pipeline.backtest.computing import computed
from flink_autoscaler.pipeline.backtest.fitting import fit
from flink_autoscaler.pipeline.backtest.outcome import Outcome
from flink_autoscaler.pipeline.backtest.plan import BacktestPlan
from flink_autoscaler.pipeline.backtest.records import Choice, read_records
from flink_autoscaler.pipeline.backtest.subject import FittedHistory, LeftOut, Subject
from flink_autoscaler.pipeline.history.catalog import Progress, unheard
from flink_autoscaler.pipeline.history.storage import opened


class InlineRunner:
    """Does everything in this process (a ``Runner``)."""

    def fleet(self, path: str, choice: Choice, now: float, progress: Progress = unheard) -> FittedHistory:
        """Read a history and make models of its jobs.

        Args:
            path: Of the history, local.
            choice: Which part of it.
            now: Epoch seconds; what is later was written by a clock that is wrong.
            progress: Told about files.

        Raises:
            MissingHistoryError: There is no such history.
            HistoryError: It cannot be listed, or only Spark reaches it.
        """
        with opened(path) as storage:
            found = read_records(storage, choice, progress)
        fitted = [fit(records, choice.terms(now)) for records in found.jobs]
        return FittedHistory(
            tuple(each for each in fitted if isinstance(each, Subject)),
            tuple(each for each in fitted if isinstance(each, LeftOut)),
            found.damaged,
        )

    def outcomes(self, plan: BacktestPlan) -> Iterator[Outcome]:
        """Yield what came of each piece as soon as it is there."""
        yield from map(computed, plan.pieces())
