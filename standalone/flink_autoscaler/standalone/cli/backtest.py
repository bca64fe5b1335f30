"""``backtest`` and ``tune``: what configurations would have come to, and which would have suited each job best."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from flink_autoscaler.core.errors import ConfigError
from flink_autoscaler.core.options.option import PREFIX
from flink_autoscaler.standalone.cli import command as cli
from flink_autoscaler.standalone.cli import output as out

if TYPE_CHECKING:
    from flink_autoscaler.pipeline.backtest.compare import Comparison
    from flink_autoscaler.pipeline.backtest.material import Material
    from flink_autoscaler.pipeline.backtest.plan import Candidate, Outcome, RunSettings
    from flink_autoscaler.pipeline.backtest.tune import Grid, Recommendation, Trial
    from flink_autoscaler.standalone.settings.schema.settings import Settings

app = typer.Typer()

DEFAULTS: Final = "defaults"
"""Name of the configuration without a file."""

_MOST_JOBS: Final = 20
"""Jobs whose tables are printed; JSON and the report have all."""

_MOST_LINES: Final = 10

_CODES: Final = (
    "0 when every job has results, 1 when jobs or damaged files were skipped or something failed,"
    " 2 for a wrong option, path or configuration, 130 after Ctrl-C."
)

ConfigsOption = Annotated[
    list[Path] | None,
    cli.valued(
        "--config -c",
        "FILE",
        "Configuration file (YAML) whose job options to try; may be repeated.  [default: the defaults]",
    ),
]
StepOption = Annotated[float, cli.valued("--step", "SECONDS", "Step of the simulation, 1 to 10.", min=1, max=10)]


@dataclass(frozen=True, slots=True)
class MaterialOrigin:
    """The options that say where jobs come from: a history, a made-up workload, or a load from anybody's monitoring."""

    history: Annotated[
        str | None,
        cli.valued("--history", "PATH", "Folder or URL of the metric history; default: the configured one."),
    ] = None
    workload: Annotated[str | None, cli.valued("--workload", "NAME", "Simulate a job under this workload.")] = None
    load: Annotated[
        Path | None,
        cli.valued(
            "--load",
            "FILE",
            "Simulate a job under this load: CSV with the columns timestamp and value (records/s), or Prometheus' JSON"
            " of a range query.",
        ),
    ] = None
    peak_slots: Annotated[
        int | None,
        cli.valued("--peak-slots", "SLOTS", "Slots that just suffice for the peak of --load.", min=1, max=720),
    ] = None
    capacity_per_subtask: Annotated[
        float | None,
        cli.valued(
            "--capacity-per-subtask", "RATE", "Records/s that a subtask processes under --load.", min=1e-6, max=1e12
        ),
    ] = None


@dataclass(frozen=True, slots=True)
class Extent:
    """The options that say how much of a history or a workload is simulated."""

    since: Annotated[str | None, cli.valued("--since", "TIME", f"Begin: {cli.TIME}.")] = None
    until: Annotated[str | None, cli.valued("--until", "TIME", "End.")] = None
    jobs: Annotated[
        str | None,
        cli.valued("--jobs", "PATTERN", "Only jobs with this key or name; * and ? match."),
    ] = None
    days: Annotated[
        float | None,
        cli.valued("--days", "DAYS", "Length of the workload; default: its own.", min=0.05, max=365),
    ] = None
    seed: Annotated[int, cli.valued("--seed", "NUMBER", "Seed of the workload.")] = 0


@dataclass(frozen=True, slots=True)
class Course:
    """The options that say where the simulation runs, and where its results go to."""

    master: Annotated[str, cli.valued("--master", "URL", "Spark master; none runs in this process.")] = "local[*]"
    output: Annotated[Path | None, cli.valued("--output -o", "FILE", "Also write a report (HTML).")] = None
    replaces: Annotated[bool, cli.switch("--force", "Replace the report if it exists.")] = False
    as_json: cli.JsonOption = False


@cli.command(
    app,
    "flink-autoscaler backtest --workload week-sine --config a.yaml --config b.yaml",
    "flink-autoscaler backtest --history /var/lib/flink-autoscaler/history --since '7 d' --jobs 'orders*' \\\n"
    "      --config autoscaler.yaml --config bold.yaml --output report.html",
    "flink-autoscaler backtest --load records-per-second.csv --peak-slots 24 --config a.yaml --config b.yaml",
    "flink-autoscaler backtest --history hdfs://nn/history --config autoscaler.yaml --master spark://host:7077",
    codes=_CODES,
    short_help="Compare configurations on recorded or simulated load.",
)
def backtest(
    *,
    origin: MaterialOrigin,
    config: ConfigsOption = None,
    settings: cli.SetOption = None,
    extent: Extent,
    step: StepOption = 5.0,
    course: Course,
) -> int:
    """Compare configurations: slot-hours, lag and rescales, beside what is possible at all.

    Simulates every job with every configuration, under its recorded arrivals, a workload or a load. Passes are the
    daemon's own; forecasts use earlier arrivals only. No cluster is involved.
    """
    from flink_autoscaler.pipeline.backtest.plan import RunSettings

    prepared, candidates = candidates_of(config or [], settings)
    return _run(prepared, origin, extent, candidates, RunSettings(dt=step), course)


@cli.command(
    app,
    "flink-autoscaler tune --history /var/lib/flink-autoscaler/history --since '7 d' --config autoscaler.yaml",
    "flink-autoscaler tune --workload office --days 2 --grid 'utilization.target=0.6,0.7,0.8' \\\n"
    "      --grid 'policy=capacity,slo' --output report.html",
    "flink-autoscaler tune --load prometheus.json --capacity-per-subtask 5000 --grid 'policy=capacity,slo'",
    codes=_CODES,
    short_help="Recommend options for each job.",
)
def tune(
    *,
    origin: MaterialOrigin,
    given: cli.GivenSettings,
    grid: Annotated[
        list[str] | None,
        cli.valued(
            "--grid",
            "OPTION=VALUES",
            "Values of an option to try, separated by commas; may be repeated. Replaces the default grid.",
        ),
    ] = None,
    extent: Extent,
    step: StepOption = 10.0,
    course: Course,
) -> int:
    """Search a grid of options and recommend the best for each job.

    The default grid has utilization.target, metrics.window and scale-down.interval. Options are chosen on the first
    days and judged on the rest; less than two days are judged as a whole.
    """
    from flink_autoscaler.pipeline.backtest.plan import RunSettings
    from flink_autoscaler.pipeline.backtest.tune import trials_of

    prepared, (present,) = candidates_of([given.config] if given.config else [], given.overrides)
    trials = trials_of(present, _grid(grid or []))
    # Bounds are the same whatever is chosen, and take as long as a run.
    run = RunSettings(dt=step, with_bounds=False, is_divided=True)
    return _run(prepared, origin, extent, [trial.candidate for trial in trials.values()], run, course, trials)


def candidates_of(files: Sequence[Path], overrides: Sequence[str] | None) -> tuple[Settings, list[Candidate]]:
    """Read the configurations; the first one also says how Spark and the log are.

    Args:
        files: Configurations; without any there are the defaults.
        overrides: Texts ``key=value``.

    Raises:
        ConfigError: One cannot be read, or is given twice.
    """
    from flink_autoscaler.pipeline.backtest.plan import Candidate
    from flink_autoscaler.standalone.settings.loading import SettingsLoader

    read = [SettingsLoader(files[0] if files else None, overrides or []).read(sets_log=True)]
    read += [SettingsLoader(file, overrides or []).read() for file in files[1:]]
    names = [file.name for file in files] or [DEFAULTS]
    if len(set(names)) < len(names):
        names = [str(file) for file in files]
    if len(set(names)) < len(names):
        raise ConfigError("--config: every configuration can be given once")
    candidates = []
    for name, each in zip(names, read, strict=True):
        clusters = {one.name: one.job_defaults for one in each.effective_clusters()} if each.clusters else {}
        candidates.append(Candidate(name, each.job_defaults, clusters))
    return read[0], candidates


def _grid(texts: Sequence[str]) -> Grid:
    """Read a grid; without any text it is the usual one.

    Raises:
        ConfigError: There is no such option, or a value cannot be read.
    """
    from flink_autoscaler.pipeline.backtest.tune import DEFAULT_GRID

    return dict(map(_axis, texts)) if texts else DEFAULT_GRID


def _axis(text: str) -> tuple[str, tuple[str, ...]]:
    """Read ``utilization.target=0.6,0.8``."""
    from flink_autoscaler.standalone.settings.schema.options import job_keys, unknown_key

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


def _run(
    settings: Settings,
    origin: MaterialOrigin,
    extent: Extent,
    candidates: Sequence[Candidate],
    run: RunSettings,
    course: Course,
    trials: Mapping[str, Trial] | None = None,
) -> int:
    """Do everything between the options and the exit code; with trials, recommend some of them."""
    from flink_autoscaler.pipeline.backtest.compare import compared
    from flink_autoscaler.pipeline.backtest.plan import BacktestPlan
    from flink_autoscaler.pipeline.backtest.runner import NO_SPARK, opened_runner
    from flink_autoscaler.pipeline.backtest.tune import recommended
    from flink_autoscaler.standalone.settings.spark import spark_settings

    target, is_whole = course.output, False
    with nullcontext() if target is None else out.whole_file(target, replaces=course.replaces) as page:
        material = _material(origin, extent, settings, candidates)
        master = NO_SPARK if material.is_known_to_be_in_vain else course.master
        with suppress(KeyboardInterrupt), opened_runner(spark_settings(settings, master)) as runner:
            fleet = material.jobs(runner)
            plan = BacktestPlan(fleet.subjects, candidates, fleet.left_out, run)
            outcomes: list[Outcome] = []
            is_whole = _collect(runner.outcomes(plan), plan.size, outcomes)
            comparison = compared(plan, outcomes)
            chosen = None if trials is None else recommended(comparison, trials)
            if course.as_json:
                _print_json(comparison, chosen, fleet.damaged, is_whole=is_whole)
            else:
                _print_tables(comparison, chosen)
            if page is not None:
                from flink_autoscaler.pipeline.reports.pages import backtest_page

                page.write(backtest_page(comparison, chosen or ()).encode())
            _print_problems(comparison, fleet.damaged)
            if not is_whole:
                raise KeyboardInterrupt  # ends the runner at once
    if not is_whole:
        return cli.EXIT_INTERRUPTED
    is_good = comparison.totals and not (comparison.problems or comparison.left_out or fleet.damaged)
    return 0 if is_good else cli.EXIT_FAILED


def _material(origin: MaterialOrigin, extent: Extent, settings: Settings, candidates: Sequence[Candidate]) -> Material:
    """Return what finds the jobs, with the past that forecasts of any candidate need.

    Raises:
        ConfigError: It is not clear which.
    """
    from flink_autoscaler.pipeline.backtest.inline import Choice, past_needed
    from flink_autoscaler.pipeline.backtest.material import Material, history_material
    from flink_autoscaler.pipeline.backtest.subject import FittedHistory, builtin
    from flink_autoscaler.standalone.cli.history_access import SMALL, selection_of

    past = past_needed(candidates)
    if origin.load is not None:
        return _load_material(origin.load, origin, extent, with_past=past is not None)
    if origin.peak_slots is not None or origin.capacity_per_subtask is not None:
        raise ConfigError("--peak-slots and --capacity-per-subtask are about a --load")
    if origin.workload is not None:
        of_history = (origin.history, extent.since, extent.until, extent.jobs)
        names = ("--history", "--since", "--until", "--jobs")
        if wrong := [name for name, value in zip(names, of_history, strict=True) if value is not None]:
            raise ConfigError(f"{' and '.join(wrong)} cannot be given with --workload, which has no history")
        subject = builtin(origin.workload, days=extent.days, seed=extent.seed, with_past=past is not None)
        fleet = FittedHistory((subject,))
        return Material(lambda _: fleet, fleet)
    if extent.days is not None:
        raise ConfigError("--days is the length of a --workload; use --since and --until for a history")
    path = origin.history or settings.history.path
    if path is None:
        raise ConfigError("which jobs? Give --history, --load or --workload, or set autoscaler.history.path")
    selection = selection_of(cli.HistorySelection(path, extent.since, extent.until), jobs=extent.jobs)
    choice = Choice(selection, past)
    return history_material(path, choice, lambda: out.progress("reading the history", is_timed=True), small=SMALL)


def _load_material(file: Path, origin: MaterialOrigin, extent: Extent, *, with_past: bool) -> Material:
    from flink_autoscaler.pipeline.backtest.load import LoadTerms, load_fleet
    from flink_autoscaler.pipeline.backtest.material import Material
    from flink_autoscaler.standalone.cli.history_access import selection_of

    others = {"--history": origin.history, "--workload": origin.workload, "--jobs": extent.jobs, "--days": extent.days}
    if wrong := [name for name, value in others.items() if value is not None]:
        raise ConfigError(f"{' and '.join(wrong)} cannot be given with --load, which is one job")
    if (origin.peak_slots is None) == (origin.capacity_per_subtask is None):
        raise ConfigError("how large is the job? Give one of --peak-slots and --capacity-per-subtask with --load")
    part = selection_of(cli.HistorySelection(None, extent.since, extent.until))
    terms = LoadTerms(origin.peak_slots, origin.capacity_per_subtask, part.since_ms, part.until_ms, with_past)
    with out.progress(f"reading {file.name}", is_timed=True):
        fleet = load_fleet(file, terms)
    return Material(lambda _: fleet, fleet)


def _collect(found: Iterator[Outcome], size: int, outcomes: list[Outcome]) -> bool:
    """Gather outcomes until all are there, or until Ctrl-C, which is False."""
    try:
        with out.interruptible(), out.progress("simulating", is_timed=True) as tell:
            tell(0, size)
            for outcome in found:
                outcomes.append(outcome)
                tell(len(outcomes), size)
    except KeyboardInterrupt:
        return False
    return True


def _print_json(
    comparison: Comparison, chosen: Sequence[Recommendation] | None, damaged: Sequence[str], *, is_whole: bool
) -> None:
    from flink_autoscaler.pipeline.backtest.tables import recommendation_document

    recommendations = {} if chosen is None else {"recommendations": list(map(recommendation_document, chosen))}
    out.print_document({**recommendations, **comparison.document(), "damaged": list(damaged), "is_whole": is_whole})


def _print_tables(comparison: Comparison, chosen: Sequence[Recommendation] | None) -> None:
    """Print what to change, or the totals, and the jobs where there are several, but not too many."""
    from flink_autoscaler.pipeline.backtest.tables import job_table, recommendations_table, totals_table
    from flink_autoscaler.pipeline.backtest.tune import basis_of

    if chosen is not None:
        out.print_table(*recommendations_table(chosen))
        _print_lines(basis_of(chosen), "; --json and --output have all")
    else:
        if comparison.totals:
            out.print_table(*totals_table(comparison.totals, comparison.bounds))
        jobs = comparison.jobs if len(comparison.jobs) > 1 or not comparison.totals else ()
        for job in jobs[:_MOST_JOBS]:
            out.write_out("\n")
            out.print_table(*job_table(job))
        if len(jobs) > _MOST_JOBS:
            out.write_out(f"\nand {len(jobs) - _MOST_JOBS} more jobs; --json and --output have all\n")
    notes = [f"{out.one_line(job.subject.job_key)}: {note}" for job in comparison.jobs for note in job.notes]
    _print_lines(notes, " remarks; --json and --output have all")


def _print_lines(lines: Sequence[str], rest: str) -> None:
    """Print the first of some lines below an empty one."""
    if lines:
        out.write_out("\n")
    for line in out.first_of(list(map(out.one_line, lines)), _MOST_LINES, rest):
        out.write_out(f"{line}\n")


def _print_problems(comparison: Comparison, damaged: Sequence[str]) -> None:
    """Print to standard error what was left out, and what went wrong."""
    from flink_autoscaler.pipeline.backtest.material import damage

    left_out = [f"{each.job_key} was left out: {each.reason}" for each in comparison.left_out]
    for lines in ([*comparison.problems, *left_out], damage(damaged)):
        for line in out.first_of(list(map(out.one_line, lines)), _MOST_LINES, "; --json has all"):
            out.print_error(line)
    if comparison.pending:
        out.print_error(f"{comparison.pending} of the runs were not finished")
