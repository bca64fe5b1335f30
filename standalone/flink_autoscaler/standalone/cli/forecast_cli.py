"""The commands about load profiles on the command line: options and help; ``forecast_commands`` does the work."""

from __future__ import annotations

from typing import Annotated

import typer

from flink_autoscaler.standalone.cli.options import (
    EXIT_CONFIG,
    ConfigOption,
    DebugOption,
    JsonOption,
    SetOption,
    call,
)

forecast = typer.Typer(
    help="Make load profiles, which forecasts rest on.",
    short_help="Make load profiles: build.",
    invoke_without_command=True,
    epilog="\b\nExamples:\n  flink-autoscaler forecast build --config autoscaler.yaml",
    rich_markup_mode=None,
)


@forecast.callback()
def _options(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help(), err=True)
        raise typer.Exit(EXIT_CONFIG)


@forecast.command(
    short_help="Make the profiles of all sources.",
    epilog="\b\nExamples:\n"
    "  flink-autoscaler forecast build --config autoscaler.yaml\n"
    "  flink-autoscaler forecast build --history samples.parquet --asof 2026-01-31T00:00 --dry-run --json\n"
    "\nExit code: 0 when there is a result for every source, 1 when there is none, 2 for a wrong path or option.",
)
def build(
    config: ConfigOption = None,
    settings: SetOption = None,
    history: Annotated[
        str | None,
        typer.Option(
            "--history",
            metavar="PATH",
            help="Folder or URL of a metric history, or Parquet files; unset takes the configured history.",
            show_default=False,
        ),
    ] = None,
    asof: Annotated[
        str | None,
        typer.Option(
            "--asof",
            metavar="TIME",
            help="Use the history up to then: '1 d', or 2026-01-31T12:00; without it: all.",
            show_default=False,
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show the results, without a database.")] = False,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Make the load profiles of all sources from the metric history, and put them into the database.

    Meant for every night: a profile that is older than two days is not used. Sources with too little history have a
    result that says so. Damaged files of the history are left out with a warning.
    """

    def run_command() -> int:
        from flink_autoscaler.standalone.cli import forecast_commands  # noqa: PLC0415 - only when it is needed

        asked = forecast_commands.BuildArguments(history, asof, is_dry_run=dry_run, as_json=as_json)
        return forecast_commands.build_forecasts(config, settings or [], asked)

    call(run_command, is_debug=debug)
