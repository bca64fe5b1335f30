"""The command line as a whole: ``flink-autoscaler`` with its commands."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Annotated, Any, Final

import typer
from typer.core import TyperGroup
from typer.main import get_group

from flink_autoscaler.standalone.cli.command import EXIT_CONFIG, EXIT_FAILED, EXIT_INTERRUPTED, require_command
from flink_autoscaler.standalone.cli.output import print_error, replace_closed_streams, write_out

# Typer exports this class's child alone.
_UsageError: Final[type[Any]] = typer.BadParameter.__mro__[1]

_COMMANDS_OF: Final = {
    "run": ("run", "once"),
    "init": ("init",),
    "jobs": ("jobs",),
    "check_config": ("check-config",),
    "events": ("events",),
    "orders": ("pause", "resume", "pin", "unpin", "rollback", "reset", "dry-run", "orders"),
    "explain": ("explain", "replay"),
    "meaning": ("meaning",),
    "notify": ("notify",),
    "backtest": ("backtest", "tune"),
    "report": ("report",),
    "db": ("db",),
    "forecast": ("forecast",),
    "history": ("history",),
}
"""The commands of each module, in the order of the help."""

_MODULE_OF: Final = {name: module for module, names in _COMMANDS_OF.items() for name in names}


class _Commands(Mapping[str, Any]):
    """The commands by name, each imported when it is asked for: what one needs must not delay the others."""

    def __getitem__(self, name: str) -> Any:
        app = import_module(f"flink_autoscaler.standalone.cli.{_MODULE_OF[name]}").app
        holder = typer.Typer(rich_markup_mode=None)
        holder.add_typer(app, name=name if app.registered_callback else None)
        return get_group(holder).commands[name]

    def __iter__(self) -> Iterator[str]:
        return iter(_MODULE_OF)

    def __len__(self) -> int:
        return len(_MODULE_OF)


class _Group(TyperGroup):
    """The command line with its lazy commands."""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)
        self.commands: Any = _Commands()


app = typer.Typer(
    cls=_Group,
    help="Keeps Apache Flink jobs at the right parallelism.",
    epilog=(
        "\b\nStart with:\n"
        "  flink-autoscaler once --url http://localhost:8081   shows what jobs need; changes nothing\n"
        "  flink-autoscaler init --url http://localhost:8081   writes autoscaler.yaml\n"
        "  flink-autoscaler --install-completion               lets Tab complete commands and options"
    ),
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)


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
