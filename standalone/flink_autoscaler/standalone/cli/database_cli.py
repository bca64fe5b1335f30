"""The commands about the database on the command line: options and help. What they do is in ``database_commands``."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from types import ModuleType
from typing import Annotated, Final

import typer

from flink_autoscaler.core.errors import ConfigError
from flink_autoscaler.standalone.cli.options import (
    EXIT_CONFIG,
    ClusterOption,
    ConfigOption,
    DebugOption,
    JsonOption,
    SetOption,
    call,
)

EVENTS_EXAMPLES: Final = (
    "\b\nExamples:\n"
    "  flink-autoscaler events --config autoscaler.yaml --job 'orders*' --since 24h\n"
    "  flink-autoscaler events --config autoscaler.yaml --type Warning --follow --json"
)

db = typer.Typer(
    help="Look after the database.",
    short_help="Look after the database: upgrade, status, check, import.",
    invoke_without_command=True,
    epilog="\b\nExamples:\n  flink-autoscaler db upgrade --config autoscaler.yaml",
    rich_markup_mode=None,
)


@db.callback()
def _options(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help(), err=True)
        raise typer.Exit(EXIT_CONFIG)


@db.command(epilog="\b\nExamples:\n  flink-autoscaler db upgrade --config autoscaler.yaml")
def upgrade(config: ConfigOption = None, settings: SetOption = None, debug: DebugOption = False) -> None:
    """Create or upgrade the schema.

    Tables that the Java process has made are kept as they are, with all rows. May run on several hosts at once.
    """
    _call(lambda commands: commands.upgrade_schema(config, settings or []), is_debug=debug)


@db.command(
    epilog="\b\nExamples:\n  flink-autoscaler db status --config autoscaler.yaml\n"
    "\nExit code: 0 when the daemon can work with the schema, 1 when not."
)
def status(
    config: ConfigOption = None, settings: SetOption = None, as_json: JsonOption = False, debug: DebugOption = False
) -> None:
    """Show the revision of the schema and the one that is needed."""
    _call(lambda commands: commands.show_status(config, settings or [], as_json=as_json), is_debug=debug)


@db.command(
    epilog="\b\nExamples:\n  flink-autoscaler db check --config autoscaler.yaml\n"
    "\nExit code: 0 when nothing is wrong, 1 when something is; warnings do not count."
)
def check(
    config: ConfigOption = None, settings: SetOption = None, as_json: JsonOption = False, debug: DebugOption = False
) -> None:
    """Try out connection, schema, clock, time zone and permission to write; count what is stored.

    Changes nothing: what is written to try it out is rolled back.
    """
    _call(lambda commands: commands.check_database(config, settings or [], as_json=as_json), is_debug=debug)


@db.command(
    "import",
    short_help="Adopt state that another process has stored.",
    epilog="\b\nExamples:\n"
    "  flink-autoscaler db import --from-job-keys --config autoscaler.yaml --dry-run\n"
    "\nExit code: 0 when everything found was adopted, 1 when something was refused or could not be looked at.",
)
def import_state(
    config: ConfigOption = None,
    settings: SetOption = None,
    from_job_keys: Annotated[
        bool, typer.Option("--from-job-keys", help="Adopt state under plain job ids, as the Java process stores it.")
    ] = False,
    cluster: ClusterOption = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would be done.")] = False,
    debug: DebugOption = False,
) -> None:
    """Give stored state the keys of this daemon, for the jobs that the clusters list now.

    State under a job id gets the key <cluster>/<job name>. State that is there under that key already is never
    overwritten. May be repeated. Stop the daemon before.
    """
    if not from_job_keys:
        raise typer.BadParameter("say what to import: --from-job-keys")
    _call(
        lambda commands: commands.import_from_job_keys(
            config, settings or [], cluster_name=cluster, is_dry_run=dry_run
        ),
        is_debug=debug,
    )


def events(  # noqa: PLR0913, PLR0917 - one parameter per option
    config: ConfigOption = None,
    settings: SetOption = None,
    job: Annotated[
        str | None,
        typer.Option(
            "--job", metavar="PATTERN", help="Only jobs with this key or name; * and ? match.", show_default=False
        ),
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(
            "--since",
            metavar="TIME",
            help="Only what happened since: 24h, 30 min, or 2026-01-31T12:00.",
            show_default=False,
        ),
    ] = None,
    reason: Annotated[
        str | None,
        typer.Option("--reason", metavar="NAME", help="Only this reason, such as ScalingReport.", show_default=False),
    ] = None,
    event_type: Annotated[
        str | None, typer.Option("--type", metavar="TYPE", help="Only Normal or Warning.", show_default=False)
    ] = None,
    limit: Annotated[
        int, typer.Option("--limit", metavar="N", min=1, max=10_000, help="The newest so many at most.")
    ] = 100,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with what happens, until Ctrl-C.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per line.")] = False,
    debug: DebugOption = False,
) -> None:
    """Show the events in the database, the oldest first.

    Each line is an event with its last occurrence and how often it happened. Needs event-handler.type: JDBC.
    """

    def run_command() -> int:
        event_commands = _imported("event_commands")
        asked = event_commands.EventArguments(job=job, since=since, reason=reason, event_type=event_type, limit=limit)
        code: int = event_commands.show_events(config, settings or [], asked, follows=follow, as_json=as_json)
        return code

    call(run_command, is_debug=debug)


def _call(command: Callable[[ModuleType], int], *, is_debug: bool) -> None:
    call(lambda: command(_imported("database_commands")), is_debug=is_debug)


def _imported(module: str) -> ModuleType:
    """Import what a command needs: not before, so that --help and mistyped options do not wait for it."""
    try:
        return importlib.import_module(f"flink_autoscaler.standalone.cli.{module}")
    except ModuleNotFoundError as error:
        if error.name not in ("alembic", "sqlalchemy"):
            raise
        extras = "flink-autoscaler[postgresql], [mysql] or [sql]"
        raise ConfigError(f"{error.name} is not installed, which a database needs: install {extras}") from error
