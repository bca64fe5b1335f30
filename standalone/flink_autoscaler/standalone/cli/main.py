"""The command line: options, help and exit codes. What the commands do is in ``commands``."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from importlib.metadata import version
from types import ModuleType
from typing import Annotated, Any, Final

import typer

from flink_autoscaler.standalone.cli import (
    backtest_cli,
    database_cli,
    explain_cli,
    fleet_report_cli,
    forecast_cli,
    history_cli,
    order_cli,
)
from flink_autoscaler.standalone.cli.options import (
    EXIT_CONFIG,
    EXIT_INTERRUPTED,
    ClusterOption,
    ConfigOption,
    DebugOption,
    DryRunOption,
    JobOption,
    JsonOption,
    SetOption,
    call,
)
from flink_autoscaler.standalone.daemon.signals import hold_reloads

# Typer exports this class's child alone.
_UsageError: Final[type[Any]] = typer.BadParameter.__mro__[1]

app = typer.Typer(
    help="Keeps Apache Flink jobs at the right parallelism.",
    epilog="\b\nStart with:\n  flink-autoscaler once --set job.autoscaler.enabled=true --dry-run",
    add_completion=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)


app.add_typer(database_cli.db, name="db")
app.add_typer(forecast_cli.forecast, name="forecast")
app.add_typer(history_cli.history, name="history")


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"flink-autoscaler {version('flink-autoscaler')}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _options(
    context: typer.Context,
    _: Annotated[
        bool, typer.Option("--version", help="Show the version.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help(), err=True)
        raise typer.Exit(EXIT_CONFIG)


@app.command(
    short_help="Look after all clusters.",
    epilog="\b\nExamples:\n"
    "  flink-autoscaler run --config /etc/flink-autoscaler/autoscaler.yaml\n"
    "  flink-autoscaler run --set autoscaler.engine.kind=inline --dry-run",
)
def run(
    config: ConfigOption = None, settings: SetOption = None, dry_run: DryRunOption = False, debug: DebugOption = False
) -> None:
    """Look after all clusters until stopped with SIGTERM or Ctrl-C. SIGHUP has it read the configuration again."""
    hold_reloads()
    _call(lambda commands: commands.run(config, settings or [], is_dry_run=dry_run), is_debug=debug)


@app.command(
    short_help="Do one pass and show what it found.",
    epilog="\b\nExamples:\n"
    "  flink-autoscaler once --set autoscaler.standalone.fetcher.flink-cluster.port=8081"
    " --set job.autoscaler.enabled=true\n"
    "  flink-autoscaler once --config autoscaler.yaml --cluster main --job 'orders*' --json\n"
    "\nExit code: 0 when everything could be read, 1 when a cluster or job failed.",
)
def once(
    config: ConfigOption = None,
    settings: SetOption = None,
    dry_run: DryRunOption = False,
    cluster: ClusterOption = None,
    job: JobOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Do one pass over all clusters, in this process, and show what it found.

    What was decided is carried out, unless --dry-run is given.
    """
    _call(
        lambda commands: commands.once(
            config, settings or [], is_dry_run=dry_run, cluster_name=cluster, job_pattern=job, as_json=as_json
        ),
        is_debug=debug,
    )


@app.command(
    epilog="\b\nExamples:\n"
    "  flink-autoscaler jobs --config autoscaler.yaml\n"
    "  flink-autoscaler jobs --set autoscaler.standalone.fetcher.flink-cluster.host=flink --json"
)
def jobs(
    config: ConfigOption = None,
    settings: SetOption = None,
    cluster: ClusterOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """List the jobs of all clusters."""
    _call(lambda commands: commands.jobs(config, settings or [], cluster_name=cluster, as_json=as_json), is_debug=debug)


@app.command(
    short_help="Check the configuration and show it.",
    epilog="\b\nExamples:\n"
    "  flink-autoscaler check-config --config autoscaler.yaml\n"
    "  FLINK_CONF_DIR=/opt/flink/conf flink-autoscaler check-config --json",
)
def check_config(
    config: ConfigOption = None, settings: SetOption = None, as_json: JsonOption = False, debug: DebugOption = False
) -> None:
    """Check the configuration and show where every value comes from."""
    _call(lambda commands: commands.check_config(config, settings or [], as_json=as_json), is_debug=debug)


app.command(short_help="Show what happened.", epilog=database_cli.EVENTS_EXAMPLES)(database_cli.events)
order_cli.register(app)
explain_cli.register(app)
backtest_cli.register(app)
fleet_report_cli.register(app)


def main() -> None:
    """Run the command line and end the process."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        # Ctrl-C ends a command at once and without a traceback; the daemon replaces this while it runs.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        code = app(standalone_mode=False)
    except _UsageError as error:
        typer.echo(f"error: {' '.join(error.format_message().split())}", err=True)
        code = EXIT_CONFIG
    except typer.Abort:
        code = EXIT_INTERRUPTED
    sys.exit(code or 0)


def _call(command: Callable[[ModuleType], int], *, is_debug: bool) -> None:
    def run_command() -> int:
        # Imported here, so that --help and mistyped options do not wait for what the commands need.
        from flink_autoscaler.standalone.cli import commands  # noqa: PLC0415

        return command(commands)

    call(run_command, is_debug=is_debug)
