"""What ``backtest`` and ``tune`` do."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final

from flink_autoscaler.pipeline.backtest.compare import Comparison, compared
from flink_autoscaler.pipeline.backtest.plan import BacktestPlan, Candidate, Outcome, RunSettings
from flink_autoscaler.pipeline.backtest.runner import Runner, opened_runner
from flink_autoscaler.pipeline.backtest.subject import FittedHistory
from flink_autoscaler.pipeline.backtest.tune import Recommendation, recommended, trials_of
from flink_autoscaler.pipeline.reports import require_libraries
from flink_autoscaler.pipeline.spark.settings import SparkSettings
from flink_autoscaler.standalone.cli import backtest_view, report_view
from flink_autoscaler.standalone.cli.backtest_choices import candidates_of, grid_of
from flink_autoscaler.standalone.cli.backtest_collecting import collect
from flink_autoscaler.standalone.cli.backtest_jobs import Material, Source, source_of
from flink_autoscaler.standalone.cli.options import EXIT_FAILED, EXIT_INTERRUPTED
from flink_autoscaler.standalone.cli.output_files import whole_file
from flink_autoscaler.standalone.settings.schema.settings import Settings

LEAST_MEMORY: Final = 1 << 30
"""Heap for a history, bytes; what the settings say counts where it is more."""


@dataclass(frozen=True, slots=True)
class BacktestArguments:
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


def backtest(asked: BacktestArguments, material: Material) -> int:
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

    settings, candidates = candidates_of(asked.files, asked.overrides)
    return _run(_Work(asked, material, settings, candidates, RunSettings(dt=material.step)), show)


def tune(asked: BacktestArguments, material: Material, grid: Sequence[str]) -> int:
    """Search a grid for the best options of every job and show them; return the exit code.

    Raises:
        ConfigError: Something was asked wrongly.
        AutoscalerError: The history or Spark cannot be used.
    """
    settings, (present,) = candidates_of(asked.files, asked.overrides)
    trials = trials_of(present, grid_of(grid))

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
    run = RunSettings(dt=material.step, with_bounds=False, is_divided=True)
    return _run(_Work(asked, material, settings, candidates, run), show)


@dataclass(frozen=True)
class _Work:
    asked: BacktestArguments
    material: Material
    settings: Settings
    candidates: Sequence[Candidate]
    run: RunSettings

    def plan(self, fleet: FittedHistory) -> BacktestPlan:
        return BacktestPlan(fleet.subjects, self.candidates, fleet.left_out, self.run)

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
        source = source_of(work.material, work.settings, work.candidates)
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
def _report(asked: BacktestArguments) -> Iterator[Write]:
    """Give what writes the report, once it is sure that it can be written.

    Raises:
        ConfigError: It cannot, or a library is missing.
    """
    if asked.output is None:
        yield lambda *_: None
        return
    require_libraries()
    from flink_autoscaler.pipeline.reports.backtest import backtest_page  # noqa: PLC0415 - its libraries are an extra

    with whole_file(asked.output, replaces=asked.replaces) as stream:
        yield lambda comparison, recommendations: _write(stream, backtest_page(comparison, recommendations))


def _write(stream: IO[bytes], text: str) -> None:
    stream.write(text.encode())


def _found(runner: Runner, source: Source, work: _Work) -> _Found:
    fleet = source(runner)
    plan = work.plan(fleet)
    outcomes: list[Outcome] = []
    is_whole = collect(runner, plan, outcomes)
    return _Found(compared(plan, outcomes), fleet.damaged, is_whole)
