"""The commands about the metric history on the command line: options and help; ``history_commands`` does the work."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Annotated, Final

import typer

from flink_autoscaler.standalone.cli.options import (
    EXIT_CONFIG,
    ConfigOption,
    DebugOption,
    JsonOption,
    SetOption,
    call,
)

_EXIT: Final = (
    "\nExit code: 0 when all is well, 1 when there is no history yet or files are damaged, 2 for a wrong path."
)
_TIME: Final = "an age such as '7 d', or 2026-01-31T12:00"

history = typer.Typer(
    help="Look after the metric history.",
    short_help="Look after the metric history: info, compact, export.",
    invoke_without_command=True,
    epilog="\b\nExamples:\n  flink-autoscaler history info --config autoscaler.yaml",
    rich_markup_mode=None,
)

_PathOption = Annotated[
    str | None,
    typer.Option(
        "--path",
        metavar="PATH",
        help="Folder or URL of the history; unset takes the configured one.",
        show_default=False,
    ),
]
_ClustersOption = Annotated[
    list[str] | None,
    typer.Option("--cluster", metavar="NAME", help="Only this cluster; may be repeated.", show_default=False),
]
_SinceOption = Annotated[
    str | None, typer.Option("--since", metavar="TIME", help=f"Only what came since: {_TIME}.", show_default=False)
]
_UntilOption = Annotated[
    str | None, typer.Option("--until", metavar="TIME", help=f"Only what came before: {_TIME}.", show_default=False)
]


@history.callback()
def _options(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help(), err=True)
        raise typer.Exit(EXIT_CONFIG)


@history.command(
    short_help="Show what is in the history.",
    epilog="\b\nExamples:\n"
    "  flink-autoscaler history info --config autoscaler.yaml\n"
    "  flink-autoscaler history info --path hdfs://nameservice1/flink/history --since '7 d' --json\n" + _EXIT,
)
def info(
    config: ConfigOption = None,
    settings: SetOption = None,
    path: _PathOption = None,
    since: _SinceOption = None,
    until: _UntilOption = None,
    cluster: _ClustersOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Show tables, rows, days and clusters of the history, and which files are damaged.

    Looks at the end of every file, and changes nothing.
    """
    _call(
        lambda commands: commands.show_info(
            config, settings or [], commands.Asked(path, since, until, cluster), as_json=as_json
        ),
        is_debug=debug,
    )


@history.command(
    short_help="Make large files of small ones, and remove what is too old.",
    epilog="\b\nExamples:\n"
    "  flink-autoscaler history compact --config autoscaler.yaml --dry-run\n"
    "  flink-autoscaler history compact --path /var/lib/flink-autoscaler/history --retention '30 d'\n" + _EXIT,
)
def compact(  # noqa: PLR0913, PLR0917 - one parameter per option
    config: ConfigOption = None,
    settings: SetOption = None,
    path: _PathOption = None,
    since: _SinceOption = None,
    until: _UntilOption = None,
    cluster: _ClustersOption = None,
    retention: Annotated[
        str | None,
        typer.Option(
            "--retention",
            metavar="DURATION",
            help="Remove days that are older, 0 none; unset takes the configured one, or none with --path.",
            show_default=False,
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be done.")] = False,
    debug: DebugOption = False,
) -> None:
    """Make large files of small ones, remove what is too old and what interrupted processes left behind.

    The day that has not ended (UTC) stays as it is. May run beside the daemon, and may be interrupted at any instant.
    """
    _call(
        lambda commands: commands.compact_history(
            config, settings or [], commands.Asked(path, since, until, cluster), retention=retention, is_dry_run=dry_run
        ),
        is_debug=debug,
    )


@history.command(
    short_help="Copy a part of the history to one file.",
    epilog="\b\nExamples:\n"
    "  flink-autoscaler history export samples --since '7 d' --output samples.parquet --config autoscaler.yaml\n"
    "  flink-autoscaler history export rescales --job 'main/orders*' --format json --path /data/history\n"
    "\nExit code: 0 when everything was exported, 1 when nothing was found or damaged files were left out.",
)
def export(  # noqa: PLR0913, PLR0917 - one parameter per option
    table: Annotated[
        str,
        typer.Argument(metavar="TABLE", help="samples, vertices, decisions or rescales.", show_default=False),
    ],
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="FILE", help="Where to write; - is standard output.")
    ] = "-",
    form: Annotated[
        str | None,
        typer.Option(
            "--format",
            metavar="NAME",
            help="csv, json (an object per line) or parquet; unset follows the name of the file, else csv.",
            show_default=False,
        ),
    ] = None,
    config: ConfigOption = None,
    settings: SetOption = None,
    path: _PathOption = None,
    since: _SinceOption = None,
    until: _UntilOption = None,
    cluster: _ClustersOption = None,
    job: Annotated[
        str | None,
        typer.Option("--job", metavar="PATTERN", help="Only jobs with this key; * and ? match.", show_default=False),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the file if it is there.")] = False,
    debug: DebugOption = False,
) -> None:
    """Copy rows of one table to a file, sorted within each day by job. What is not known is empty, or null."""
    _call(
        lambda commands: commands.export_table(
            config,
            settings or [],
            commands.Asked(path, since, until, cluster),
            commands.Export(table, output, form, job, force),
        ),
        is_debug=debug,
    )


def _call(command: Callable[[ModuleType], int], *, is_debug: bool) -> None:
    def run_command() -> int:
        from flink_autoscaler.standalone.cli import history_commands  # noqa: PLC0415 - only when it is needed

        return command(history_commands)

    call(run_command, is_debug=is_debug)
