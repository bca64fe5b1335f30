"""``backtest`` and ``tune``: what configurations would have come to, and which would have suited each job best."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from flink_autoscaler.standalone.cli.command import (
    EXIT_FAILED,
    EXIT_INTERRUPTED,
    TIME,
    GivenSettings,
    JsonOption,
    SetOption,
    command,
    valued,
)
from flink_autoscaler.standalone.cli.output import print_document, progress, whole_file

if TYPE_CHECKING:
    from flink_autoscaler.pipeline.backtest.compare import Comparison
    from flink_autoscaler.pipeline.backtest.plan import BacktestPlan, Candidate, Outcome, RunSettings
    from flink_autoscaler.pipeline.backtest.runner import Runner
    from flink_autoscaler.pipeline.backtest.subject import FittedHistory
    from flink_autoscaler.pipeline.backtest.tune import Recommendation
    from flink_autoscaler.standalone.settings.schema.settings import Settings

app = typer.Typer()

_CODES: Final = (
    "0 when every job has its results, 1 when jobs or damaged files were left out or something failed,"
    " 2 when an option, a path or a configuration is wrong, 130 after Ctrl-C."
)

ConfigsOption = Annotated[
    list[Path] | None,
    valued(
        "--config",
        "-c",
        metavar="FILE",
        text="Configuration file (YAML) whose options of jobs are tried; may be repeated. None tries the defaults.",
    ),
]
StepOption = Annotated[
    float, typer.Option("--step", metavar="SECONDS", min=1, max=10, help="Step of the simulation, 1 to 10.")
]


@dataclass(frozen=True, slots=True)
class MaterialOrigin:
    """The options that say where jobs come from: a history, or a made-up workload."""

    history: Annotated[
        str | None,
        valued(
            "--history", metavar="PATH", text="Folder or URL of the metric history; unset takes the configured one."
        ),
    ] = None
    workload: Annotated[
        str | None, valued("--workload", metavar="NAME", text="A made-up job under this workload instead of a history.")
    ] = None


@dataclass(frozen=True, slots=True)
class Extent:
    """The options that say how much of a history or a workload is simulated."""

    since: Annotated[str | None, valued("--since", metavar="TIME", text=f"Begin then: {TIME}.")] = None
    until: Annotated[str | None, valued("--until", metavar="TIME", text="End then.")] = None
    jobs: Annotated[
        str | None,
        valued("--jobs", metavar="PATTERN", text="Only jobs of the history with this key or name; * and ? match."),
    ] = None
    days: Annotated[
        float | None,
        valued("--days", metavar="DAYS", min=0.05, max=365, text="Length of the workload; unset takes its own."),
    ] = None
    seed: Annotated[
        int, typer.Option("--seed", metavar="NUMBER", help="Of the workload: the same seed gives the same arrivals.")
    ] = 0


@dataclass(frozen=True, slots=True)
class Course:
    """The options that say where the simulation runs, and where its results go to."""

    master: Annotated[
        str, typer.Option("--master", metavar="URL", help="Master of Spark, or none to run everything in this process.")
    ] = "local[*]"
    output: Annotated[
        Path | None, valued("--output", "-o", metavar="FILE", text="Also write a report as one HTML file.")
    ] = None
    replaces: Annotated[bool, typer.Option("--force", help="Replace the report if it is there.")] = False
    as_json: JsonOption = False


@command(
    app,
    "flink-autoscaler backtest --workload week-sine --config a.yaml --config b.yaml",
    "flink-autoscaler backtest --history /var/lib/flink-autoscaler/history --since '7 d' --jobs 'orders*' \\\n"
    "      --config autoscaler.yaml --config bold.yaml --output report.html",
    "flink-autoscaler backtest --history hdfs://nn/history --config autoscaler.yaml --master spark://host:7077",
    codes=_CODES,
    short_help="Show what configurations would have come to.",
)
def backtest(
    *,
    origin: MaterialOrigin,
    config: ConfigsOption = None,
    settings: SetOption = None,
    extent: Extent,
    step: StepOption = 5.0,
    course: Course,
) -> int:
    """Show what configurations would have come to: slot-hours, lag and rescales, beside what is possible at all.

    Every job runs with every configuration, under what arrived at it, or under a made-up workload. The passes are
    those of the daemon. Where a configuration has forecasts, they are made of what arrived before. Nothing is sent to
    any cluster.
    """
    from flink_autoscaler.pipeline.backtest.plan import RunSettings
    from flink_autoscaler.standalone.cli import backtest_view
    from flink_autoscaler.standalone.cli.backtest_material import candidates_of

    def show(found: _Found) -> Sequence[Recommendation]:
        if course.as_json:
            print_document(found.document())
        else:
            backtest_view.print_comparison(found.comparison)
        return ()

    prepared, candidates = candidates_of(config or [], settings)
    return _run(_Work(origin, extent, prepared, candidates, RunSettings(dt=step), course), show)


@command(
    app,
    "flink-autoscaler tune --history /var/lib/flink-autoscaler/history --since '7 d' --config autoscaler.yaml",
    "flink-autoscaler tune --workload office --days 2 --grid 'utilization.target=0.6,0.7,0.8' \\\n"
    "      --grid 'policy=capacity,slo' --output report.html",
    codes=_CODES,
    short_help="Recommend options for each job.",
)
def tune(
    *,
    origin: MaterialOrigin,
    given: GivenSettings,
    grid: Annotated[
        list[str] | None,
        valued(
            "--grid",
            metavar="OPTION=VALUES",
            text="Values to try of one option, with commas between; may be repeated, and replaces the usual grid.",
        ),
    ] = None,
    extent: Extent,
    step: StepOption = 10.0,
    course: Course,
) -> int:
    """Search a small grid of options for what would have suited each job best, and recommend it.

    The usual grid is that of utilization.target, metrics.window and scale-down.interval. Options are chosen on the
    first days and judged on those after; less than two days cannot be divided, and are judged as a whole.
    """
    from flink_autoscaler.pipeline.backtest.plan import RunSettings
    from flink_autoscaler.pipeline.backtest.tune import recommended, trials_of
    from flink_autoscaler.standalone.cli import backtest_view
    from flink_autoscaler.standalone.cli.backtest_material import candidates_of, grid_of

    prepared, (present,) = candidates_of([given.config] if given.config else [], given.overrides)
    trials = trials_of(present, grid_of(grid or []))

    def show(found: _Found) -> Sequence[Recommendation]:
        recommendations = recommended(found.comparison, trials)
        backtest_view.show_recommendations(
            recommendations, found.comparison, found.document() if course.as_json else None
        )
        return recommendations

    # Bounds are the same whatever is chosen, and take as long as a run.
    run = RunSettings(dt=step, with_bounds=False, is_divided=True)
    candidates = [trial.candidate for trial in trials.values()]
    return _run(_Work(origin, extent, prepared, candidates, run, course), show)


@dataclass(frozen=True)
class _Work:
    """What is simulated and how."""

    origin: MaterialOrigin
    extent: Extent
    settings: Settings
    candidates: Sequence[Candidate]
    run: RunSettings
    course: Course


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


Show = Callable[[_Found], "Sequence[Recommendation]"]
"""Prints what was found, and returns what of it is recommended."""


def _run(work: _Work, show: Show) -> int:
    """Do everything between the options and the exit code."""
    from flink_autoscaler.pipeline.backtest.runner import NO_SPARK, opened_runner
    from flink_autoscaler.standalone.cli import backtest_view
    from flink_autoscaler.standalone.cli.backtest_material import source_of
    from flink_autoscaler.standalone.history.access import spark_settings

    with _report(work.course) as write:
        source = source_of(work.origin, work.extent, work.settings, work.candidates)
        master = NO_SPARK if source.is_known_to_be_in_vain else work.course.master
        try:
            with opened_runner(spark_settings(work.settings, master)) as runner:
                found = _found(runner, source.jobs(runner), work)
                write(found.comparison, show(found))
                backtest_view.print_problems(found.comparison, found.damaged)
                if not found.is_whole:
                    raise _Interrupted
        except _Interrupted:
            pass
    return found.exit_code


@contextmanager
def _report(course: Course) -> Iterator[Callable[[Comparison, Sequence[Recommendation]], object]]:
    """Give what writes the report, once it is sure that it can be written.

    Raises:
        ConfigError: It cannot.
    """
    if course.output is None:
        yield lambda *_: None
        return
    from flink_autoscaler.pipeline.reports.pages import backtest_page

    with whole_file(course.output, replaces=course.replaces) as stream:
        yield lambda comparison, recommendations: stream.write(backtest_page(comparison, recommendations).encode())


def _found(runner: Runner, fleet: FittedHistory, work: _Work) -> _Found:
    from flink_autoscaler.pipeline.backtest.compare import compared
    from flink_autoscaler.pipeline.backtest.plan import BacktestPlan

    plan = BacktestPlan(fleet.subjects, work.candidates, fleet.left_out, work.run)
    outcomes: list[Outcome] = []
    is_whole = _collect(runner, plan, outcomes)
    return _Found(compared(plan, outcomes), fleet.damaged, is_whole)


def _collect(runner: Runner, plan: BacktestPlan, outcomes: list[Outcome]) -> bool:
    """Gather outcomes until all are there, or until Ctrl-C, which is False; pressed again it ends the process."""
    try:
        with _interruptible(), progress("simulating", is_timed=True) as tell:
            tell(0, plan.size)
            for outcome in runner.outcomes(plan):
                outcomes.append(outcome)
                tell(len(outcomes), plan.size)
    except KeyboardInterrupt:
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
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
