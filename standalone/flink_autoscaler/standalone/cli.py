"""The command line: options, help and exit codes. What the commands do is in ``commands``."""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, Final

import typer

from flink_autoscaler.core.errors import ConfigError
from flink_autoscaler.standalone.logs import masked

EXIT_FAILED: Final = 1
EXIT_CONFIG: Final = 2
EXIT_INTERRUPTED: Final = 130

# Typer exports this class's child alone.
_UsageError: Final[type[Any]] = typer.BadParameter.__mro__[1]

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

app = typer.Typer(
    help="Keeps Apache Flink jobs at the right parallelism.",
    epilog="\b\nStart with:\n  flink-autoscaler once --set job.autoscaler.enabled=true --dry-run",
    add_completion=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)


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
    """Look after all clusters until stopped with SIGTERM or Ctrl-C."""
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


@app.command(epilog="\b\nExamples:\n  flink-autoscaler replay --vectors scenarios_00.json.gz --output out.json")
def replay(
    vectors: Annotated[Path, typer.Option("--vectors", metavar="FILE", help="Recorded behaviour (JSON, .gz or not).")],
    output: Annotated[Path, typer.Option("--output", metavar="FILE", help="Where to write what happened (JSON).")],
    debug: DebugOption = False,
) -> None:
    """Replay recorded behaviour of the reference through this autoscaler, with compat: reference."""
    _call(lambda commands: commands.replay(vectors, output), is_debug=debug)


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
    """Run a command; an error is one line on standard error and an exit code."""
    try:
        # Imported here, so that --help and mistyped options do not wait for what the commands need.
        from flink_autoscaler.standalone import commands  # noqa: PLC0415

        code = command(commands)
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
