"""Shows the events of the database."""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final, NoReturn

from flink_autoscaler.core.errors import ConfigError, StoreError
from flink_autoscaler.core.model import syntax
from flink_autoscaler.core.model.events import EventType
from flink_autoscaler.standalone.cli import report_view
from flink_autoscaler.standalone.fetchers.job_keys import printable
from flink_autoscaler.standalone.ha.databases import open_database
from flink_autoscaler.standalone.observability.logs import masked
from flink_autoscaler.standalone.settings.preparation import prepare
from flink_autoscaler.stores.sql.database.database import Database
from flink_autoscaler.stores.sql.events.log import EventFilter, EventFollower, StoredEvent, newest_events

POLL_INTERVAL: Final = 1.0
RETRY_INTERVAL: Final = 5.0

_DATE: Final = re.compile(r"\d{4}-")
_UNIT: Final = re.compile(r"\d+\s*[a-zA-Zµ]+")


@dataclass(frozen=True, slots=True)
class EventArguments:
    """What was asked for on the command line, as text; None is everything."""

    job: str | None = None
    since: str | None = None
    reason: str | None = None
    event_type: str | None = None
    limit: int = 100


def show_events(
    file: Path | None, overrides: Sequence[str], asked: EventArguments, *, follows: bool = False, as_json: bool = False
) -> int:
    """Show what is stored and, when it follows, what comes, until the process is ended; return the exit code."""
    event_type = _event_type(asked.event_type)
    settings = prepare(file, overrides)
    with closing(open_database(settings)) as database:
        since = None if asked.since is None else read_since(asked.since, _now(database))
        wanted = EventFilter(asked.job, since, asked.reason, event_type)
        if follows:
            _follow(database, wanted, asked.limit, _print_json if as_json else _print_line)
        count = _show(newest_events(database, wanted, asked.limit), as_json=as_json)
    if count == 0:
        sys.stderr.write("no events\n")
    elif count == asked.limit:
        sys.stderr.write(f"the newest {count} events; --limit shows more\n")
    return 0


def read_since(text: str, now: datetime) -> datetime:
    """Return the instant that ``24h`` or ``2026-01-31T12:00`` means, as local time without a zone.

    Args:
        text: A duration with its unit, or a date with or without time and zone; without a zone it is local.
        now: Local time without a zone.

    Raises:
        ConfigError: It is neither.
    """
    stripped = text.strip()
    try:
        if _DATE.match(stripped):
            moment = datetime.fromisoformat(stripped)
            return moment if moment.tzinfo is None else moment.astimezone().replace(tzinfo=None)
        if _UNIT.fullmatch(stripped):
            return now - timedelta(seconds=syntax.parse_duration(stripped).exact_seconds)
    except (ValueError, OverflowError):
        pass
    raise ConfigError(f"--since '{text}': expected a duration such as 24h, or a date and time such as 2026-01-31T12:00")


def _event_type(text: str | None) -> EventType | None:
    if text is None:
        return None
    for event_type in EventType:
        if event_type.value.lower() == text.strip().lower():
            return event_type
    raise ConfigError(f"--type '{text}': expected {' or '.join(EventType)}")


def _now(database: Database) -> datetime:
    with database.transaction(read_only=True) as connection:
        return database.now(connection)


def _show(events: Iterable[StoredEvent], *, as_json: bool) -> int:
    """Print events and return how many there were."""
    count = 0
    table = report_view.table_of("TIME", "TYPE", "REASON", "JOB", "COUNT", "MESSAGE")
    for count, event in enumerate(events, start=1):  # noqa: B007 - the last number is the result
        if as_json:
            _print_json(event)
        else:
            report_view.add_row(table, *_cells(event))
    if table.row_count:
        report_view.print_table(table)
    return count


def _follow(database: Database, wanted: EventFilter, limit: int, show: Callable[[StoredEvent], None]) -> NoReturn:
    """Show events until the process is ended; a database that goes away is waited for."""
    # Before the past is read, so that what is written meanwhile is found in the first poll.
    follower = EventFollower(database, wanted)
    for event in newest_events(database, wanted, limit):
        show(event)
        follower.mark_shown(event)
    is_away = False
    while True:
        sys.stdout.flush()
        try:
            for event in follower.poll():
                show(event)
            is_away = False
        except StoreError as error:
            if not is_away:
                report_view.print_error(f"{error}; trying again")
            is_away = True
        time.sleep(RETRY_INTERVAL if is_away else POLL_INTERVAL)


def _print_line(event: StoredEvent) -> None:
    shown, event_type, reason, job_key, count, message = map(printable, _cells(event))
    times = "" if event.count == 1 else f" (x{count})"
    sys.stdout.write(f"{shown} {event_type} {reason} {job_key}{times}: {message}\n")


def _print_json(event: StoredEvent) -> None:
    sys.stdout.write(json.dumps(_document(event), ensure_ascii=False) + "\n")


def _cells(event: StoredEvent) -> tuple[str, ...]:
    message = masked(" ".join(event.message.split()))
    time_text = f"{event.updated_at:%Y-%m-%d %H:%M:%S}"
    return (time_text, event.event_type, event.reason, event.job_key, str(event.count), message)


def _document(event: StoredEvent) -> dict[str, Any]:
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
    }


def _writable(text: str) -> str:
    """Replace what UTF-8 has no form for: damaged rows are shown as far as possible."""
    return text.encode(errors="replace").decode()
