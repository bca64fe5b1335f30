"""What ``backtest`` and ``tune`` try, and on which jobs: configurations, values of options, histories, workloads."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from flink_autoscaler.core.errors import ConfigError
from flink_autoscaler.core.options.option import PREFIX
from flink_autoscaler.pipeline.backtest.fitting import COLUMNS
from flink_autoscaler.pipeline.backtest.inline import Choice, InlineRunner, past_needed
from flink_autoscaler.pipeline.backtest.plan import Candidate
from flink_autoscaler.pipeline.backtest.runner import Runner
from flink_autoscaler.pipeline.backtest.subject import FittedHistory, builtin
from flink_autoscaler.pipeline.backtest.tune import DEFAULT_GRID, Grid
from flink_autoscaler.pipeline.history.catalog import find
from flink_autoscaler.pipeline.history.files import HistoryError, LocalFiles, MissingHistoryError, is_local
from flink_autoscaler.pipeline.history.schema import TABLES
from flink_autoscaler.standalone.cli.backtest import Extent, MaterialOrigin
from flink_autoscaler.standalone.cli.backtest_view import print_damaged
from flink_autoscaler.standalone.cli.command import HistorySelection
from flink_autoscaler.standalone.cli.output import progress
from flink_autoscaler.standalone.history.access import is_small, selection_of
from flink_autoscaler.standalone.settings.loading import SettingsLoader
from flink_autoscaler.standalone.settings.schema.options import job_keys, unknown_key
from flink_autoscaler.standalone.settings.schema.settings import Settings

DEFAULTS: Final = "defaults"
"""Name of the configuration without a file."""


def candidates_of(files: Sequence[Path], overrides: Sequence[str] | None) -> tuple[Settings, list[Candidate]]:
    """Read the configurations; the first one also says how Spark and the log are.

    Args:
        files: Configurations; without any there are the defaults.
        overrides: Texts ``key=value``.

    Raises:
        ConfigError: One cannot be read, or is given twice.
    """
    if not files:
        settings = SettingsLoader(None, overrides or []).read(sets_log=True)
        return settings, [_candidate(DEFAULTS, settings)]
    settings = SettingsLoader(files[0], overrides or []).read(sets_log=True)
    read = [settings, *(SettingsLoader(file, overrides or []).read() for file in files[1:])]
    return settings, [_candidate(name, each) for name, each in zip(_names(files), read, strict=True)]


def _names(files: Sequence[Path]) -> list[str]:
    """Return the names of files, or their whole paths where names are not unique.

    Raises:
        ConfigError: A file is given twice.
    """
    names = [file.name for file in files]
    if len(set(names)) == len(names):
        return names
    paths = [str(file) for file in files]
    if len(set(paths)) < len(paths):
        raise ConfigError("--config: every configuration can be given once")
    return paths


def _candidate(name: str, settings: Settings) -> Candidate:
    clusters = {each.name: each.job_defaults for each in settings.effective_clusters()} if settings.clusters else {}
    return Candidate(name, settings.job_defaults, clusters)


def grid_of(texts: Sequence[str]) -> Grid:
    """Read a grid; without any text it is the usual one.

    Raises:
        ConfigError: There is no such option, or a value cannot be read.
    """
    return dict(map(_axis, texts)) if texts else DEFAULT_GRID


def _axis(text: str) -> tuple[str, tuple[str, ...]]:
    """Read ``utilization.target=0.6,0.8``."""
    name, equals, values = text.partition("=")
    key = name.strip() if name.strip().startswith(PREFIX) else PREFIX + name.strip()
    tried = tuple(dict.fromkeys(value.strip() for value in values.split(",") if value.strip()))
    if not equals or not tried:
        raise ConfigError(f"--grid '{text}': expected an option and its values, such as utilization.target=0.6,0.8")
    if problem := unknown_key(key):
        raise ConfigError(f"--grid '{text}': {key}: {problem}")
    option = job_keys().get(key)
    if option is not None:
        for value in tried:
            option.read({option.key: value})
    return key, tried


@dataclass(frozen=True, slots=True)
class Source:
    """Where jobs come from.

    Attributes:
        read: Finds them.
        found: Those that are known before any runner is started; None where it takes one to tell.
    """

    read: Callable[[Runner], FittedHistory]
    found: FittedHistory | None = None

    @property
    def is_known_to_be_in_vain(self) -> bool:
        """Whether no job can be simulated."""
        return self.found is not None and not self.found.subjects

    def jobs(self, runner: Runner) -> FittedHistory:
        """Return the jobs."""
        return self.read(runner) if self.found is None else self.found


def source_of(origin: MaterialOrigin, extent: Extent, settings: Settings, candidates: Sequence[Candidate]) -> Source:
    """Return what finds the jobs, with the past that forecasts of any candidate need.

    Raises:
        ConfigError: It is not clear which.
    """
    past = past_needed(candidates)
    if origin.workload is not None:
        return _workload(origin.workload, origin, extent, with_past=past is not None)
    if extent.days is not None:
        raise ConfigError("--days is the length of a --workload; use --since and --until for a history")
    path = origin.history or settings.history.path
    if path is None:
        raise ConfigError("which jobs? Give --history or --workload, or set autoscaler.history.path")
    part = HistorySelection(path, extent.since, extent.until)
    choice = Choice(selection_of(part, time.time()), extent.jobs, past)
    found = _recorded(InlineRunner(), path, choice) if is_local(path) and _is_small(path, choice) else None
    return Source(lambda runner: _recorded(runner, path, choice), found)


def _is_small(path: str, choice: Choice) -> bool:
    """Tell whether a history can be looked at before Spark is started, which takes longer than that."""
    files = LocalFiles(path)
    folders = (folder for name in COLUMNS for folder in find(files, TABLES[name], choice.part_of(name)))
    return files.exists() and is_small(folders)


def _workload(name: str, origin: MaterialOrigin, extent: Extent, *, with_past: bool) -> Source:
    asked = {
        "--history": origin.history,
        "--since": extent.since,
        "--until": extent.until,
        "--jobs": extent.jobs,
    }
    wrong = [option for option, value in asked.items() if value is not None]
    if wrong:
        raise ConfigError(f"{' and '.join(wrong)} cannot be given with --workload, which has no history")
    fleet = FittedHistory((builtin(name, days=extent.days, seed=extent.seed, with_past=with_past),))
    return Source(lambda _: fleet, fleet)


def _recorded(runner: Runner, path: str, choice: Choice) -> FittedHistory:
    try:
        with progress("reading the history", is_timed=True) as tell:
            fleet = runner.fleet(path, choice, time.time(), tell)
    except MissingHistoryError as error:
        raise ConfigError(f"--history: {error}") from error
    if not fleet.subjects and not fleet.left_out:
        print_damaged(fleet.damaged)
        asked = " that was asked for" if choice.is_part else ""
        raise HistoryError(f"{path}: there is no job{asked} in the history; history info shows what there is")
    return fleet
