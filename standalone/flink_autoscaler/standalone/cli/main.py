"""The command line as a whole: ``flink-autoscaler`` with its commands."""

from __future__ import annotations

import signal
import sys
from typing import Annotated, Any, Final

import typer

from flink_autoscaler.standalone.cli import (
    backtest,
    check_config,
    db,
    events,
    explain,
    forecast,
    history,
    init,
    jobs,
    orders,
    report,
    run,
)
from flink_autoscaler.standalone.cli.command import EXIT_CONFIG, EXIT_INTERRUPTED, require_command

# Typer exports this class's child alone.
_UsageError: Final[type[Any]] = typer.BadParameter.__mro__[1]

app = typer.Typer(
    help="Keeps Apache Flink jobs at the right parallelism.",
    epilog=(
        "\b\nStart with:\n"
        "  flink-autoscaler once --url http://localhost:8081   what your jobs need; changes nothing\n"
        "  flink-autoscaler init --url http://localhost:8081   writes autoscaler.yaml\n"
        "  flink-autoscaler --install-completion               commands and options at the press of Tab"
    ),
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)
for module in (run, init, jobs, check_config, events, orders, explain, backtest, report):
    app.add_typer(module.app)
for name, group in {"db": db.app, "forecast": forecast.app, "history": history.app}.items():
    app.add_typer(group, name=name)


def _show_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"flink-autoscaler {version('flink-autoscaler')}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _options(
    context: typer.Context,
    _: Annotated[
        bool, typer.Option("--version", help="Show the version.", callback=_show_version, is_eager=True)
    ] = False,
) -> None:
    require_command(context)


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
