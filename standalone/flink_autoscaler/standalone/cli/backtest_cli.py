"""``backtest`` and ``tune`` on the command line: options and help; ``backtest_commands`` does the work."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Annotated, Final

import typer

from flink_autoscaler.standalone.cli.options import ConfigOption, DebugOption, JsonOption, SetOption, call

_TIME: Final = "an age such as '7 d', or 2026-01-31T12:00"
_EXIT: Final = (
    "\nExit code: 0 when every job has its results, 1 when jobs or damaged files were left out or something failed,"
    " 2 when an option, a path or a configuration is wrong, 130 after Ctrl-C."
)
BACKTEST_EXAMPLES: Final = (
    "\b\nExamples:\n"
    "  flink-autoscaler backtest --workload week-sine --config a.yaml --config b.yaml\n"
    "  flink-autoscaler backtest --history /var/lib/flink-autoscaler/history --since '7 d' --jobs 'orders*' \\\n"
    "      --config autoscaler.yaml --config bold.yaml --output report.html\n"
    "  flink-autoscaler backtest --history hdfs://nn/history --config autoscaler.yaml --master spark://host:7077\n"
    + _EXIT
)
TUNE_EXAMPLES: Final = (
    "\b\nExamples:\n"
    "  flink-autoscaler tune --history /var/lib/flink-autoscaler/history --since '7 d' --config autoscaler.yaml\n"
    "  flink-autoscaler tune --workload office --days 2 --grid 'utilization.target=0.6,0.7,0.8' \\\n"
    "      --grid 'policies=capacity,ds2' --output report.html\n" + _EXIT
)

_History = Annotated[
    str | None,
    typer.Option(
        "--history",
        metavar="PATH",
        help="Folder or URL of the metric history; unset takes the configured one.",
        show_default=False,
    ),
]
_Workload = Annotated[
    str | None,
    typer.Option(
        "--workload", metavar="NAME", help="A made-up job under this workload instead of a history.", show_default=False
    ),
]
_Configs = Annotated[
    list[Path] | None,
    typer.Option(
        "--config",
        "-c",
        metavar="FILE",
        help="Configuration file (YAML) whose options of jobs are tried; may be repeated. None tries the defaults.",
        show_default=False,
    ),
]
_Since = Annotated[
    str | None, typer.Option("--since", metavar="TIME", help=f"Begin then: {_TIME}.", show_default=False)
]
_Until = Annotated[str | None, typer.Option("--until", metavar="TIME", help="End then.", show_default=False)]
_Jobs = Annotated[
    str | None,
    typer.Option(
        "--jobs",
        metavar="PATTERN",
        help="Only jobs of the history with this key or name; * and ? match.",
        show_default=False,
    ),
]
_Days = Annotated[
    float | None,
    typer.Option(
        "--days",
        metavar="DAYS",
        min=0.05,
        max=365,
        help="Length of the workload; unset takes its own.",
        show_default=False,
    ),
]
_Seed = Annotated[
    int, typer.Option("--seed", metavar="NUMBER", help="Of the workload: the same seed gives the same arrivals.")
]
_Step = Annotated[
    float, typer.Option("--step", metavar="SECONDS", min=1, max=10, help="Step of the simulation, 1 to 10.")
]
_Master = Annotated[
    str, typer.Option("--master", metavar="URL", help="Master of Spark, or none to run everything in this process.")
]
_Output = Annotated[
    Path | None,
    typer.Option("--output", "-o", metavar="FILE", help="Also write a report as one HTML file.", show_default=False),
]
_Force = Annotated[bool, typer.Option("--force", help="Replace the report if it is there.")]


def backtest(  # noqa: PLR0913, PLR0917 - one parameter per option
    history: _History = None,
    workload: _Workload = None,
    config: _Configs = None,
    settings: SetOption = None,
    since: _Since = None,
    until: _Until = None,
    jobs: _Jobs = None,
    days: _Days = None,
    seed: _Seed = 0,
    step: _Step = 5.0,
    master: _Master = "local[*]",
    output: _Output = None,
    force: _Force = False,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Show what configurations would have come to: slot-hours, lag and rescales, beside what is possible at all.

    Every job runs with every configuration, under what arrived at it, or under a made-up workload. The passes are
    those of the daemon. Where a configuration has forecasts, they are made of what arrived before. Nothing is sent to
    any cluster.
    """
    _call(
        lambda commands: commands.backtest(
            commands.BacktestArguments(config or [], settings or [], master, output, replaces=force, as_json=as_json),
            commands.Material(history, workload, since, until, jobs, days, seed, step),
        ),
        is_debug=debug,
    )


def tune(  # noqa: PLR0913, PLR0917 - one parameter per option
    history: _History = None,
    workload: _Workload = None,
    config: ConfigOption = None,
    settings: SetOption = None,
    grid: Annotated[
        list[str] | None,
        typer.Option(
            "--grid",
            metavar="OPTION=VALUES",
            help="Values to try of one option, with commas between; may be repeated, and replaces the usual grid.",
            show_default=False,
        ),
    ] = None,
    since: _Since = None,
    until: _Until = None,
    jobs: _Jobs = None,
    days: _Days = None,
    seed: _Seed = 0,
    step: _Step = 10.0,
    master: _Master = "local[*]",
    output: _Output = None,
    force: _Force = False,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Search a small grid of options for what would have suited each job best, and recommend it.

    The usual grid is that of utilization.target, metrics.window and scale-down.interval. Options are chosen on the
    first days and judged on those after; less than two days cannot be divided, and are judged as a whole.
    """
    _call(
        lambda commands: commands.tune(
            commands.BacktestArguments(
                [config] if config else [], settings or [], master, output, replaces=force, as_json=as_json
            ),
            commands.Material(history, workload, since, until, jobs, days, seed, step),
            grid or [],
        ),
        is_debug=debug,
    )


def register(app: typer.Typer) -> None:
    """Add both commands to a command line."""
    app.command(short_help="Show what configurations would have come to.", epilog=BACKTEST_EXAMPLES)(backtest)
    app.command(short_help="Recommend options for each job.", epilog=TUNE_EXAMPLES)(tune)


def _call(command: Callable[[ModuleType], int], *, is_debug: bool) -> None:
    def run_command() -> int:
        from flink_autoscaler.standalone.cli import backtest_commands  # noqa: PLC0415 - only when it is needed

        return command(backtest_commands)

    call(run_command, is_debug=is_debug)
