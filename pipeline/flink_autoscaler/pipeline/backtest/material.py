"""Sources of the jobs of a backtest: a metric history, or a made-up workload."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Final

from flink_autoscaler.core.errors import ConfigError
from flink_autoscaler.pipeline.backtest.case import FittedHistory
from flink_autoscaler.pipeline.backtest.fitting import COLUMNS
from flink_autoscaler.pipeline.backtest.inline import BacktestFilter, InlineRunner
from flink_autoscaler.pipeline.backtest.runner import Runner
from flink_autoscaler.pipeline.tables.files import HistoryError, LocalFiles, MissingHistoryError, is_local
from flink_autoscaler.pipeline.tables.schema import TABLES
from flink_autoscaler.pipeline.tables.store import EVERYTHING, Progress, list_folders

Telling = Callable[[], AbstractContextManager[Progress]]
"""Gives what is told about files that are read."""

_SHOWN_DAMAGE: Final = 10


@dataclass(frozen=True, slots=True)
class CaseSource:
    """Source of jobs.

    Attributes:
        read: Finds them.
        found: Those that are known before any runner is started; None where it takes one to tell.
    """

    read: Callable[[Runner], FittedHistory]
    found: FittedHistory | None = None

    @property
    def is_known_to_be_in_vain(self) -> bool:
        """True when it is known that no job can be simulated."""
        return self.found is not None and not self.found.subjects

    def jobs(self, runner: Runner) -> FittedHistory:
        """Return the jobs."""
        return self.read(runner) if self.found is None else self.found


def history_cases(path: str, choice: BacktestFilter, telling: Telling, *, small: int) -> CaseSource:
    """Return the jobs of a history.

    Args:
        path: Of the history.
        choice: Which part of it.
        telling: Of progress.
        small: Bytes of a local history that is looked at before Spark is started, which takes longer than that.

    Raises:
        ConfigError: There is no such history.
        HistoryError: It has no job that is meant.
    """

    def recorded(runner: Runner) -> FittedHistory:
        try:
            with telling() as tell:
                fleet = runner.fleet(path, choice, time.time(), tell)
        except MissingHistoryError as error:
            raise ConfigError(f"--history: {error}") from error
        if not fleet.subjects and not fleet.left_out:
            asked = " that was asked for" if choice.selection != EVERYTHING else ""
            nothing = f"{path}: there is no job{asked} in the history; history info shows what there is"
            raise HistoryError("\n".join([*damaged_file_lines(fleet.damaged)[:_SHOWN_DAMAGE], nothing]))
        return fleet

    if not is_local(path) or not (files := LocalFiles(path)).exists():
        return CaseSource(recorded)
    folders = (folder for name in COLUMNS for folder in list_folders(files, TABLES[name], choice.part_of(name)))
    is_small = sum(entry.size for folder in folders for entry in folder.entries) <= small
    return CaseSource(recorded, recorded(InlineRunner()) if is_small else None)


def damaged_file_lines(problems: Sequence[str]) -> list[str]:
    """Return a line per file that was left out."""
    return [f"a damaged file was left out: {problem}" for problem in problems]
