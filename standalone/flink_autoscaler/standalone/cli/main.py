"""The command line as a whole: ``flink-autoscaler`` with its commands."""

from __future__ import annotations

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
    meaning,
    notify,
    report,
    run,
)
from flink_autoscaler.standalone.cli.command import EXIT_CONFIG, EXIT_FAILED, EXIT_INTERRUPTED, require_command
from flink_autoscaler.standalone.cli.orders import commands as orders
from flink_autoscaler.standalone.cli.output import print_error, replace_closed_streams, write_out

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
for module in (run, init, jobs, check_config, events, orders, explain, meaning, notify, backtest, report):
    app.add_typer(module.app)
for name, group in {"db": db.app, "forecast": forecast.app, "history": history.app}.items():
    app.add_typer(group, name=name)


def _show_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        write_out(f"flink-autoscaler {version('flink-autoscaler')}\n")
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
    replace_closed_streams()
    try:
        code = app(standalone_mode=False)
    except _UsageError as error:
        from flink_autoscaler.standalone.settings.removed import removed_command

        print_error(removed_command(sys.argv[1:]) or " ".join(error.format_message().split()))
        code = EXIT_CONFIG
    except typer.Abort:
        code = EXIT_INTERRUPTED
    except OSError as error:  # of a help that cannot be written
        print_error(str(error))
        code = EXIT_FAILED
    sys.exit(code or 0)
