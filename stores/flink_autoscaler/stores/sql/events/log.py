"""Reads the table of events, a page at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from fnmatch import fnmatchcase
from typing import Any, Final

from sqlalchemy import ColumnElement, Connection, Select, select

from flink_autoscaler.core.model.events import EventType
from flink_autoscaler.core.model.job import JobKey
from flink_autoscaler.stores.sql.database.database import Database
from flink_autoscaler.stores.sql.tables import EVENTS

PAGE: Final = 200
"""Whole rows read at once; messages may be long."""
_LIGHT_PAGE: Final = 5000
"""Rows read at once without their messages."""
_ESCAPE: Final = "!"


@dataclass(frozen=True, slots=True)
class StoredEvent:
    """One row: an event, and how often it happened within its interval.

    Attributes:
        created_at: First occurrence, local time without a zone.
        updated_at: Last occurrence, likewise.
        event_type: ``Normal`` or ``Warning``, or what another program wrote.
        key: Identity for de-duplication; of no use to people.
    """

    id: int
    created_at: datetime
    updated_at: datetime
    job_key: JobKey
    event_type: str
    reason: str
    count: int
    message: str
    key: str


@dataclass(frozen=True, slots=True)
class EventFilter:
    """Which events are wanted; None takes all.

    Attributes:
        job: Pattern for the job key, or for the name behind the cluster; ``*`` and ``?`` match.
        since: Last occurrence at or after this local time.
        reason: To the letter.
        event_type: Normal or Warning.
    """

    job: str | None = None
    since: datetime | None = None
    reason: str | None = None
    event_type: EventType | None = None

    def takes(self, job_key: JobKey, reason: str) -> bool:
        """Tell whether a row is wanted that :meth:`conditions` let through: they ignore case in some databases."""
        is_wanted = self.reason is None or reason == self.reason
        return is_wanted and (self.job is None or _matches(job_key, self.job))

    def conditions(self) -> Iterator[ColumnElement[bool]]:
        """Yield what the database can check; may let through more than is wanted, never less."""
        columns = EVENTS.c
        if self.job is not None:
            pattern = _like(self.job)
            by_name = columns.job_key.like(f"%/{pattern}", escape=_ESCAPE)
            yield columns.job_key.like(pattern, escape=_ESCAPE) | by_name
        if self.since is not None:
            yield columns.update_time >= self.since
        if self.reason is not None:
            yield columns.reason == self.reason
        if self.event_type is not None:
            yield columns.event_type == self.event_type.value


def newest_events(database: Database, wanted: EventFilter, limit: int) -> Iterator[StoredEvent]:
    """Yield the newest events, the oldest of them first.

    Args:
        database: The database.
        wanted: Which.
        limit: How many at most.

    Raises:
        StoreError: The database could not be read.
    """
    ids = _newest_ids(database, wanted, limit)
    if ids is None:
        return
    first, last = ids
    while True:
        with database.transaction(read_only=True) as connection:
            in_range = EVENTS.c.id.between(first, last)
            rows = connection.execute(_whole(wanted).where(in_range).order_by(EVENTS.c.id).limit(PAGE)).all()
        yield from (event for event in map(stored_event, rows) if wanted.takes(event.job_key, event.reason))
        if len(rows) < PAGE:
            return
        first = rows[-1].id + 1


def events_with_ids(connection: Connection, wanted: EventFilter, ids: Sequence[int]) -> list[StoredEvent]:
    """Return the wanted ones among the events with some ids, at most :data:`PAGE` of them, by id."""
    rows = connection.execute(_whole(wanted).where(EVENTS.c.id.in_(ids)).order_by(EVENTS.c.id))
    return [event for event in map(stored_event, rows) if wanted.takes(event.job_key, event.reason)]


def counts_by_id(connection: Connection, wanted: EventFilter, *conditions: ColumnElement[bool]) -> dict[int, int]:
    """Return how often events happened, by id in ascending order, for those that meet the conditions too."""
    columns = EVENTS.c
    query = select(columns.id, columns.event_count).where(*wanted.conditions(), *conditions).order_by(columns.id)
    counts: dict[int, int] = {}
    last = None
    while True:
        behind = () if last is None else (columns.id > last,)
        rows = connection.execute(query.where(*behind).limit(_LIGHT_PAGE)).all()
        counts.update((row.id, row.event_count) for row in rows)
        if len(rows) < _LIGHT_PAGE:
            return counts
        last = rows[-1].id


def stored_event(row: Any) -> StoredEvent:
    """Make an event of a row with all columns."""
    return StoredEvent(
        row.id,
        row.create_time,
        row.update_time,
        row.job_key,
        row.event_type,
        row.reason,
        row.event_count,
        row.message,
        row.event_key,
    )


def _newest_ids(database: Database, wanted: EventFilter, limit: int) -> tuple[int, int] | None:
    """Return the ids between which the newest events are, as many as wanted."""
    columns = EVENTS.c
    query = select(columns.id, columns.job_key, columns.reason).where(*wanted.conditions()).order_by(columns.id.desc())
    first = last = None
    count = 0
    below: tuple[ColumnElement[bool], ...] = ()
    while True:
        with database.transaction(read_only=True) as connection:
            rows = connection.execute(query.where(*below).limit(_LIGHT_PAGE)).all()
        for row in (row for row in rows if wanted.takes(row.job_key, row.reason)):
            first, last, count = row.id, last or row.id, count + 1
            if count == limit:
                return first, last
        if len(rows) < _LIGHT_PAGE:
            return None if first is None or last is None else (first, last)
        below = (columns.id < rows[-1].id,)


def _whole(wanted: EventFilter) -> Select[Any]:
    return select(EVENTS).where(*wanted.conditions())


def _matches(job_key: JobKey, pattern: str) -> bool:
    _, _, name = job_key.partition("/")
    return fnmatchcase(job_key, pattern) or fnmatchcase(name, pattern)


def _like(pattern: str) -> str:
    """Return a LIKE pattern for at least what a pattern with ``*``, ``?`` and ``[`` matches."""
    literal, bracket, _ = pattern.partition("[")
    special = {"*": "%", "?": "_"} | {each: _ESCAPE + each for each in ("%", "_", _ESCAPE)}
    return "".join(special.get(character, character) for character in literal) + ("%" if bracket else "")
