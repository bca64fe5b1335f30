"""Where the jobs of ``backtest`` and ``tune`` come from: a history, or a made-up workload."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from flink_autoscaler.core.errors import ConfigError
from flink_autoscaler.core.model.load_profile import WEEK
from flink_autoscaler.pipeline.backtest.inline import Choice
from flink_autoscaler.pipeline.backtest.plan import Candidate
from flink_autoscaler.pipeline.backtest.runner import Runner
from flink_autoscaler.pipeline.backtest.subject import FittedHistory, builtin
from flink_autoscaler.pipeline.history.files import HistoryError, MissingHistoryError
from flink_autoscaler.pipeline.profiles import BACKTEST_WEEKS
from flink_autoscaler.standalone.cli import backtest_view
from flink_autoscaler.standalone.history.access import HistorySelection, selection_of
from flink_autoscaler.standalone.settings.schema.settings import Settings


@dataclass(frozen=True, slots=True)
class Material:
    """What is simulated, as text from the command line; ``step`` is seconds."""

    history: str | None = None
    workload: str | None = None
    since: str | None = None
    until: str | None = None
    jobs: str | None = None
    days: float | None = None
    seed: int = 0
    step: float = 5.0


Source = Callable[[Runner], FittedHistory]
"""Finds jobs."""


def source_of(material: Material, settings: Settings, candidates: Sequence[Candidate]) -> Source:
    """Return what finds the jobs, with the past that forecasts of any candidate need.

    Raises:
        ConfigError: It is not clear which.
    """
    weeks = max((weeks for each in candidates if (weeks := each.forecast_weeks) is not None), default=None)
    if material.workload is not None:
        return _workload(material.workload, material, with_past=weeks is not None)
    if material.days is not None:
        raise ConfigError("--days is the length of a --workload; use --since and --until for a history")
    path = material.history or settings.history.path
    if path is None:
        raise ConfigError("which jobs? Give --history or --workload, or set autoscaler.history.path")
    part = HistorySelection(path, material.since, material.until)
    past = None if weeks is None else (weeks + BACKTEST_WEEKS) * WEEK
    choice = Choice(selection_of(part, time.time()), material.jobs, past)
    return lambda runner: _recorded(runner, path, choice)


def _workload(name: str, material: Material, *, with_past: bool) -> Source:
    asked = {
        "--history": material.history,
        "--since": material.since,
        "--until": material.until,
        "--jobs": material.jobs,
    }
    wrong = [option for option, value in asked.items() if value is not None]
    if wrong:
        raise ConfigError(f"{' and '.join(wrong)} cannot be given with --workload, which has no history")
    fleet = FittedHistory((builtin(name, days=material.days, seed=material.seed, with_past=with_past),))
    return lambda _: fleet


def _recorded(runner: Runner, path: str, choice: Choice) -> FittedHistory:
    try:
        with backtest_view.progress("reading the history") as tell:
            fleet = runner.fleet(path, choice, time.time(), tell)
    except MissingHistoryError as error:
        raise ConfigError(f"--history: {error}") from error
    if not fleet.subjects and not fleet.left_out:
        backtest_view.print_damaged(fleet.damaged)
        asked = " that was asked for" if choice.is_part else ""
        raise HistoryError(f"{path}: there is no job{asked} in the history; history info shows what there is")
    return fleet
