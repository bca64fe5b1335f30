"""What the commands of the command line share: options, exit codes, and how errors are shown."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Final

import typer

from flink_autoscaler.core.errors import ConfigError
from flink_autoscaler.standalone.observability.logs import masked

EXIT_FAILED: Final = 1
EXIT_CONFIG: Final = 2
EXIT_INTERRUPTED: Final = 130

ConfigOption = Annotated[
    Path | None, typer.Option("--config", "-c", metavar="FILE", help="Configuration file (YAML).", show_default=False)
]
SetOption = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Set one option; may be repeated.", show_default=False),
]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Decide and report, but change nothing on any cluster.")]
DebugOption = Annotated[bool, typer.Option("--debug", help="Show a traceback with an error.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
ClusterOption = Annotated[
    str | None, typer.Option("--cluster", metavar="NAME", help="Only this cluster.", show_default=False)
]
JobOption = Annotated[
    str | None,
    typer.Option(
        "--job", metavar="PATTERN", help="Only jobs with this key, name or id; * and ? match.", show_default=False
    ),
]


def call(command: Callable[[], int], *, is_debug: bool) -> None:
    """Run a command and end with its exit code; an error is one line on standard error and an exit code.

    Args:
        command: Imports what it needs itself, so that --help and mistyped options do not wait for it.
        is_debug: Whether an error also shows its traceback.
    """
    try:
        code = command()
    except BrokenPipeError:
        # The reader of a pipe has seen enough; the interpreter must not complain when it flushes at the end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = EXIT_FAILED
    except Exception as error:
        if is_debug:
            traceback.print_exc()
        _show_error(error)
        code = EXIT_CONFIG if isinstance(error, ConfigError) else EXIT_FAILED
    raise typer.Exit(code)


def _show_error(error: Exception) -> None:
    text = masked(str(error)) or type(error).__name__
    for line in text.splitlines():
        typer.echo(f"error: {line}", err=True)
