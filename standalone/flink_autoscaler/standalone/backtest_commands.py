"""What ``backtest`` and ``tune`` do."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any, Final

from flink_autoscaler.core.errors import ConfigError
from flink_autoscaler.core.option import PREFIX
from flink_autoscaler.pipeline.backtest.builtin import builtin
from flink_autoscaler.pipeline.backtest.compare import Comparison, compared
from flink_autoscaler.pipeline.backtest.outcome import Outcome
from flink_autoscaler.pipeline.backtest.plan import Candidate, Plan, RunSettings
from flink_autoscaler.pipeline.backtest.records import Choice
from flink_autoscaler.pipeline.backtest.runner import Runner, opened_runner
from flink_autoscaler.pipeline.backtest.subject import Fleet
from flink_autoscaler.pipeline.backtest.tune import DEFAULT_GRID, Grid, Recommendation, recommended, trials_of
from flink_autoscaler.pipeline.history.files import HistoryError, MissingHistoryError
from flink_autoscaler.pipeline.session import SparkSettings
from flink_autoscaler.standalone import backtest_view, report_view
from flink_autoscaler.standalone.cli_options import EXIT_FAILED, EXIT_INTERRUPTED
from flink_autoscaler.standalone.history_access import Asked as AskedHistory
from flink_autoscaler.standalone.history_access import selection_of
from flink_autoscaler.standalone.keys import job_keys, unknown_key
from flink_autoscaler.standalone.output_files import whole_file
from flink_autoscaler.standalone.preparation import prepare, read_again
from flink_autoscaler.standalone.settings import Settings

LEAST_MEMORY: Final = 1 << 30
"""Heap for a history, bytes; what the settings say counts where it is more."""

DEFAULTS: Final = "defaults"
"""Name of the configuration without a file."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What both commands are told.

    Attributes:
        files: Configurations.
        overrides: Texts ``key=value``.
        master: Of Spark, or none.
        output: Where the report goes to.
        replaces: Whether a report that is there is replaced.
    """

    files: Sequence[Path]
    overrides: Sequence[str]
    master: str
    output: Path | None = None
    replaces: bool = False
    as_json: bool = False


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


@dataclass(frozen=True, slots=True)
class _Found:
    """What a command came to; ``is_whole`` is False after Ctrl-C."""

    comparison: Comparison
    damaged: Sequence[str]
    is_whole: bool

    def document(self) -> dict[str, Any]:
        return {**self.comparison.document(), "damaged": list(self.damaged), "is_whole": self.is_whole}

    @property
    def exit_code(self) -> int:
        if not self.is_whole:
            return EXIT_INTERRUPTED
        comparison = self.comparison
        is_good = bool(comparison.totals) and not (comparison.problems or comparison.left_out or self.damaged)
        return 0 if is_good else EXIT_FAILED


class _Interrupted(BaseException):
    """Ends a runner at once, when everything was shown."""


Show = Callable[[_Found], Sequence[Recommendation]]
"""Prints what was found, and returns what of it is recommended."""


def backtest(asked: Asked, material: Material) -> int:
    """Run every job with every configuration and show what came of it; return the exit code.

    Raises:
        ConfigError: Something was asked wrongly.
        AutoscalerError: The history or Spark cannot be used.
    """

    def show(found: _Found) -> Sequence[Recommendation]:
        if asked.as_json:
            report_view.print_document(found.document())
        else:
            backtest_view.print_comparison(found.comparison)
        return ()

    settings, candidates = _candidates(asked)
    return _run(_Work(asked, material, settings, candidates, RunSettings(dt=material.step)), show)


def tune(asked: Asked, material: Material, grid: Sequence[str]) -> int:
    """Search a grid for the best options of every job and show them; return the exit code.

    Raises:
        ConfigError: Something was asked wrongly.
        AutoscalerError: The history or Spark cannot be used.
    """
    settings, (present,) = _candidates(asked)
    trials = trials_of(present, _grid(grid))

    def show(found: _Found) -> Sequence[Recommendation]:
        recommendations = recommended(found.comparison, trials)
        if asked.as_json:
            documents = [backtest_view.recommendation_document(each) for each in recommendations]
            report_view.print_document({"recommendations": documents, **found.document()})
        else:
            backtest_view.print_recommendations(recommendations)
            backtest_view.print_notes(found.comparison)
        return recommendations

    candidates = [trial.candidate for trial in trials.values()]
    # Bounds are the same whatever is chosen, and take as long as a run.
    return _run(_Work(asked, material, settings, candidates, RunSettings(dt=material.step, with_bounds=False)), show)


@dataclass(frozen=True)
class _Work:
    asked: Asked
    material: Material
    settings: Settings
    candidates: Sequence[Candidate]
    run: RunSettings

    def plan(self, fleet: Fleet) -> Plan:
        return Plan(fleet.subjects, self.candidates, fleet.left_out, self.run)

    def spark(self) -> SparkSettings:
        engine = self.settings.engine
        memory = f"{max(engine.driver_memory, LEAST_MEMORY) >> 20}m"
        return SparkSettings(
            master=self.asked.master,
            driver_memory=memory,
            python_files=engine.python_files,
            conf=engine.spark_config,
        )


def _run(work: _Work, show: Show) -> int:
    """Do everything between the options and the exit code."""
    with _report(work.asked) as write:
        source = _source(work.material, work.settings)
        try:
            with opened_runner(work.spark()) as runner:
                found = _found(runner, source, work)
                write(found.comparison, show(found))
                backtest_view.print_problems(found.comparison, found.damaged)
                if not found.is_whole:
                    raise _Interrupted
        except _Interrupted:
            pass
    return found.exit_code


Write = Callable[[Comparison, Sequence[Recommendation]], None]
"""Writes the report."""


@contextmanager
def _report(asked: Asked) -> Iterator[Write]:
    """Give what writes the report, once it is sure that it can be written.

    Raises:
        ConfigError: It cannot, or a library is missing.
    """
    if asked.output is None:
        yield lambda *_: None
        return
    if find_spec("jinja2") is None:
        raise ConfigError("reports need jinja2: pip install 'flink-autoscaler[report]'")
    from flink_autoscaler.pipeline.backtest.page import rendered  # noqa: PLC0415 - only with a report

    with whole_file(asked.output, replaces=asked.replaces) as stream:
        yield lambda comparison, recommendations: _write(stream, rendered(comparison, recommendations))


def _write(stream: IO[bytes], text: str) -> None:
    stream.write(text.encode())


Source = Callable[[Runner], Fleet]


def _source(material: Material, settings: Settings) -> Source:
    """Return what finds the jobs.

    Raises:
        ConfigError: It is not clear which.
    """
    if material.workload is not None:
        return _workload(material.workload, material)
    if material.days is not None:
        raise ConfigError("--days is the length of a --workload; use --since and --until for a history")
    path = material.history or settings.history.path
    if path is None:
        raise ConfigError("which jobs? Give --history or --workload, or set autoscaler.history.path")
    part = AskedHistory(path, material.since, material.until)
    choice = Choice(selection_of(part, time.time()), material.jobs)
    return lambda runner: _recorded(runner, path, choice)


def _workload(name: str, material: Material) -> Source:
    asked = {
        "--history": material.history,
        "--since": material.since,
        "--until": material.until,
        "--jobs": material.jobs,
    }
    wrong = [option for option, value in asked.items() if value is not None]
    if wrong:
        raise ConfigError(f"{' and '.join(wrong)} cannot be given with --workload, which has no history")
    fleet = Fleet((builtin(name, days=material.days, seed=material.seed),))
    return lambda _: fleet


def _recorded(runner: Runner, path: str, choice: Choice) -> Fleet:
    try:
        with backtest_view.progress("reading the history") as tell:
            fleet = runner.fleet(path, choice, time.time(), tell)
    except MissingHistoryError as error:
        raise ConfigError(f"--history: {error}") from error
    if not fleet.subjects and not fleet.left_out:
        backtest_view.print_damaged(fleet.damaged)
        asked = "" if choice == Choice() else " that was asked for"
        raise HistoryError(f"{path}: there is no job{asked} in the history; history info shows what there is")
    return fleet


def _found(runner: Runner, source: Source, work: _Work) -> _Found:
    fleet = source(runner)
    plan = work.plan(fleet)
    outcomes: list[Outcome] = []
    is_whole = _collect(runner, plan, outcomes)
    return _Found(compared(plan, outcomes), fleet.damaged, is_whole)


def _collect(runner: Runner, plan: Plan, outcomes: list[Outcome]) -> bool:
    """Gather outcomes until all are there, or until Ctrl-C, which is False; pressed again it ends the process."""
    try:
        with _interruptible(), backtest_view.progress("simulating") as tell:
            tell(0, plan.size)
            for outcome in runner.outcomes(plan):
                outcomes.append(outcome)
                tell(len(outcomes), plan.size)
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        return False
    return True


@contextmanager
def _interruptible() -> Iterator[None]:
    """Have Ctrl-C raise KeyboardInterrupt, unless whoever started us wants it ignored."""
    before = signal.getsignal(signal.SIGINT)
    is_ours = threading.current_thread() is threading.main_thread() and before is not signal.SIG_IGN
    if is_ours:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        if is_ours:
            signal.signal(signal.SIGINT, before)


def _candidates(asked: Asked) -> tuple[Settings, list[Candidate]]:
    """Read the configurations; the first one also says how Spark and the log are."""
    if not asked.files:
        settings = prepare(None, asked.overrides)
        return settings, [_candidate(DEFAULTS, settings)]
    settings = prepare(asked.files[0], asked.overrides)
    read = [settings, *(read_again(file, asked.overrides) for file in asked.files[1:])]
    return settings, [_candidate(name, each) for name, each in zip(_names(asked.files), read, strict=True)]


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


def _grid(texts: Sequence[str]) -> Grid:
    return dict(map(_axis, texts)) if texts else DEFAULT_GRID


def _axis(text: str) -> tuple[str, tuple[str, ...]]:
    """Read ``utilization.target=0.6,0.8``.

    Raises:
        ConfigError: There is no such option, or a value cannot be read.
    """
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
