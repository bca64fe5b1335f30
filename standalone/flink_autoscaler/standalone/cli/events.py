"""``events``: what happened, from the database."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Final, NoReturn

import typer

from flink_autoscaler.core.errors import ConfigError, StoreError
from flink_autoscaler.core.model.events import EventType
from flink_autoscaler.standalone.cli import command as cli
from flink_autoscaler.standalone.cli import output as out
from flink_autoscaler.standalone.settings.secrets import masked

if TYPE_CHECKING:
    from flink_autoscaler.stores.sql.database.database import Database
    from flink_autoscaler.stores.sql.events.log import EventFilter, StoredEvent

app = typer.Typer()

POLL_INTERVAL: Final = 1.0
AWAY_INTERVAL: Final = 5.0
"""Seconds between attempts to reach a database that is away."""


@cli.command(
    app,
    "flink-autoscaler events --config autoscaler.yaml --job 'orders*' --since 24h",
    "flink-autoscaler events --config autoscaler.yaml --type Warning --follow --json",
    short_help="Show events.",
)
def events(
    given: cli.GivenSettings,
    job: Annotated[
        str | None, cli.valued("--job", "PATTERN", "Only jobs with this key or name; * and ? match.")
    ] = None,
    since: Annotated[
        str | None,
        cli.valued("--since", "TIME", "Only events since: 24h, 30 min, or 2026-01-31T12:00."),
    ] = None,
    reason: Annotated[str | None, cli.valued("--reason", "NAME", "Only this reason, such as ScalingReport.")] = None,
    event_type: Annotated[str | None, cli.valued("--type", "TYPE", "Only Normal or Warning.")] = None,
    limit: Annotated[int, cli.valued("--limit", "N", "At most the newest N.", min=1, max=10_000)] = 100,
    follow: Annotated[bool, cli.switch("--follow -f", "Show new events until Ctrl-C.")] = False,
    as_json: Annotated[bool, cli.switch("--json", "Print one JSON object per line.")] = False,
) -> int:
    """Show the events in the database, oldest first, each with its last occurrence and its count.

    Needs event-handler.type: JDBC, or the daemon's own file.
    """
    from flink_autoscaler.stores.sql.events.log import EventFilter, newest_events

    types = {kind.value.lower(): kind for kind in EventType}
    wanted_type = None if event_type is None else types.get(event_type.strip().lower())
    if event_type is not None and wanted_type is None:
        raise ConfigError(f"--type '{event_type}': expected {' or '.join(EventType)}")
    with given.database() as database:
        begin = None
        if since is not None:
            with database.transaction(read_only=True) as connection:
                now = database.now(connection).timestamp()
            begin = datetime.fromtimestamp(cli.read_instant(since, now, "--since") / 1000)
        wanted = EventFilter(job, begin, reason, wanted_type)
        if follow:
            _follow(database, wanted, limit, _print_json if as_json else _print_line)
        # One that happens again and again began before others, and is read where its last time is.
        found = sorted(newest_events(database, wanted, limit), key=lambda event: event.updated_at)
    if as_json:
        for event in found:
            _print_json(event)
    elif found:
        out.print_table(("TIME", "TYPE", "REASON", "JOB", "COUNT", "MESSAGE"), list(map(_cells, found)))
    if not found:
        out.write_error("no events\n")
    elif len(found) == limit:
        out.write_error(f"the newest {limit} events; --limit shows more\n")
    return 0


def _follow(database: Database, wanted: EventFilter, limit: int, show: Callable[[StoredEvent], None]) -> NoReturn:
    """Show events until the process is ended; a database that goes away is waited for."""
    from flink_autoscaler.stores.sql.events.log import EventFollower, newest_events

    # Before the past is read, so that what is written meanwhile is found in the first poll.
    follower = EventFollower(database, wanted)
    for event in newest_events(database, wanted, limit):
        show(event)
        follower.mark_shown(event)
    is_away = False
    while True:
        try:
            for event in follower.poll():
                show(event)
            is_away = False
        except StoreError as error:
            if not is_away:
                out.print_error(f"{error}; trying again")
            is_away = True
        time.sleep(AWAY_INTERVAL if is_away else POLL_INTERVAL)


def _print_line(event: StoredEvent) -> None:
    shown, event_type, reason, job_key, count, message = map(out.one_line, _cells(event))
    times = "" if event.count == 1 else f" (x{count})"
    out.write_out(f"{shown} {event_type} {reason} {job_key}{times}: {message}\n")


def _print_json(event: StoredEvent) -> None:
    from flink_autoscaler.standalone.views.events import stored_event_view

    out.write_out(out.json_text(stored_event_view(event).model_dump()) + "\n")


def _cells(event: StoredEvent) -> tuple[str, ...]:
    message = masked(" ".join(event.message.split()))
    time_text = f"{event.updated_at:%Y-%m-%d %H:%M:%S}"
    return (time_text, event.event_type, event.reason, event.job_key, str(event.count), message)
