"""``events``: what happened, from the database."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any, Final, NoReturn

import typer

from flink_autoscaler.standalone.cli.command import GivenSettings, command, mistake, valued
from flink_autoscaler.standalone.cli.output import json_text, one_line, print_error, print_table, write_error, write_out

if TYPE_CHECKING:
    from flink_autoscaler.core.model.events import EventType, VertexReport
    from flink_autoscaler.core.model.metrics import VertexId
    from flink_autoscaler.stores.sql.database.database import Database
    from flink_autoscaler.stores.sql.events.log import EventFilter, StoredEvent

app = typer.Typer()

POLL_INTERVAL: Final = 1.0
AWAY_INTERVAL: Final = 5.0
"""Seconds between attempts to reach a database that is away."""

_DATE: Final = re.compile(r"\d{4}-")
_UNIT: Final = re.compile(r"\d+\s*[a-zA-Zµ]+")


@command(
    app,
    "flink-autoscaler events --config autoscaler.yaml --job 'orders*' --since 24h",
    "flink-autoscaler events --config autoscaler.yaml --type Warning --follow --json",
    short_help="Show what happened.",
)
def events(
    given: GivenSettings,
    job: Annotated[
        str | None, valued("--job", metavar="PATTERN", text="Only jobs with this key or name; * and ? match.")
    ] = None,
    since: Annotated[
        str | None,
        valued("--since", metavar="TIME", text="Only what happened since: 24h, 30 min, or 2026-01-31T12:00."),
    ] = None,
    reason: Annotated[
        str | None, valued("--reason", metavar="NAME", text="Only this reason, such as ScalingReport.")
    ] = None,
    event_type: Annotated[str | None, valued("--type", metavar="TYPE", text="Only Normal or Warning.")] = None,
    limit: Annotated[
        int, typer.Option("--limit", metavar="N", min=1, max=10_000, help="The newest so many at most.")
    ] = 100,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with what happens, until Ctrl-C.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object per line.")] = False,
) -> int:
    """Show the events in the database, the oldest first.

    Each line is an event with its last occurrence and how often it happened. Needs events in a database:
    event-handler.type: JDBC, or the file that the daemon has of its own.
    """
    from flink_autoscaler.stores.sql.events.log import EventFilter, newest_events

    wanted_type = _event_type(event_type)
    with given.database() as database:
        begin = None if since is None else read_since(since, _now(database))
        wanted = EventFilter(job, begin, reason, wanted_type)
        if follow:
            _follow(database, wanted, limit, _print_json if as_json else _print_line)
        # One that happens again and again began before others, and is read where its last time is.
        found = sorted(newest_events(database, wanted, limit), key=lambda event: event.updated_at)
    if as_json:
        for event in found:
            _print_json(event)
    elif found:
        print_table(("TIME", "TYPE", "REASON", "JOB", "COUNT", "MESSAGE"), list(map(_cells, found)))
    if not found:
        write_error("no events\n")
    elif len(found) == limit:
        write_error(f"the newest {limit} events; --limit shows more\n")
    return 0


def read_since(text: str, now: datetime) -> datetime:
    """Return the instant that ``24h`` or ``2026-01-31T12:00`` means, as local time without a zone.

    Args:
        text: A duration with its unit, or a date with or without time and zone; without a zone it is local.
        now: Local time without a zone.

    Raises:
        ConfigError: It is neither.
    """
    from flink_autoscaler.core.model import syntax

    stripped = text.strip()
    try:
        if _DATE.match(stripped):
            moment = datetime.fromisoformat(stripped)
            return moment if moment.tzinfo is None else moment.astimezone().replace(tzinfo=None)
        if _UNIT.fullmatch(stripped):
            return now - timedelta(seconds=syntax.parse_time(stripped).exact_seconds)
    except (ValueError, OverflowError):
        pass
    raise mistake(f"--since '{text}': expected a duration such as 24h, or a date and time such as 2026-01-31T12:00")


def _event_type(text: str | None) -> EventType | None:
    from flink_autoscaler.core.model.events import EventType

    if text is None:
        return None
    for event_type in EventType:
        if event_type.value.lower() == text.strip().lower():
            return event_type
    raise mistake(f"--type '{text}': expected {' or '.join(EventType)}")


def _now(database: Database) -> datetime:
    with database.transaction(read_only=True) as connection:
        return database.now(connection)


def _follow(database: Database, wanted: EventFilter, limit: int, show: Callable[[StoredEvent], None]) -> NoReturn:
    """Show events until the process is ended; a database that goes away is waited for."""
    from flink_autoscaler.core.errors import StoreError
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
                print_error(f"{error}; trying again")
            is_away = True
        time.sleep(AWAY_INTERVAL if is_away else POLL_INTERVAL)


def _print_line(event: StoredEvent) -> None:
    shown, event_type, reason, job_key, count, message = map(one_line, _cells(event))
    times = "" if event.count == 1 else f" (x{count})"
    write_out(f"{shown} {event_type} {reason} {job_key}{times}: {message}\n")


def _print_json(event: StoredEvent) -> None:
    write_out(json_text(_document(event)) + "\n")


def _cells(event: StoredEvent) -> tuple[str, ...]:
    from flink_autoscaler.standalone.observability.logs import masked

    message = masked(" ".join(event.message.split()))
    time_text = f"{event.updated_at:%Y-%m-%d %H:%M:%S}"
    return (time_text, event.event_type, event.reason, event.job_key, str(event.count), message)


def _document(event: StoredEvent) -> dict[str, Any]:
    from flink_autoscaler.standalone.observability.logs import masked

    return {
        "id": event.id,
        "created_at": event.created_at.astimezone().isoformat(),
        "updated_at": event.updated_at.astimezone().isoformat(),
        "job_key": _writable(event.job_key),
        "type": event.event_type,
        "reason": event.reason,
        "count": event.count,
        "key": event.key,
        "message": _writable(masked(event.message)),
        "figures": dict(event.figures.figures),
        "is_executed": event.figures.is_executed,
        "vertices": [_vertex(*each) for each in event.figures.vertices.items()],
    }


def _vertex(vertex_id: VertexId, vertex: VertexReport) -> dict[str, Any]:
    rates = {name: getattr(vertex, name) for name in ("capacity", "expected_capacity", "target_rate")}
    known = {name: rate if math.isfinite(rate) else None for name, rate in rates.items()}
    return {
        "vertex_id": vertex_id,
        "name": _writable(vertex.name),
        "current": vertex.current,
        "new": vertex.new,
        **known,
    }


def _writable(text: str) -> str:
    """Replace what UTF-8 has no form for: damaged rows are shown as far as possible."""
    return text.encode(errors="replace").decode()
