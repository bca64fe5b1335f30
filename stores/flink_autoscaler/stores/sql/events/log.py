"""Reads the table of events: a page at a time, or as they are written."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from fnmatch import fnmatchcase
from itertools import starmap
from typing import Final

from sqlalchemy import ColumnElement, Connection, func, select

from flink_autoscaler.core.model.events import EventType
from flink_autoscaler.core.model.job import JobKey
from flink_autoscaler.stores.sql.database.database import Database
from flink_autoscaler.stores.sql.events.figures import NO_FIGURES, EventFigures, figures_of
from flink_autoscaler.stores.sql.tables import EVENTS

PAGE: Final = 200
"""Whole rows read at once; messages may be long."""
_LIGHT_PAGE: Final = 5000
"""Rows read at once without their messages."""
_ESCAPE: Final = "!"

NEAR: Final = 10_000
"""Ids below the newest that are looked at in every poll: rows appear later than their ids say, and are updated."""
SWEEP_INTERVAL: Final = 30.0
"""Seconds between searches of the whole table for older rows that were updated."""

_CLOCK_MARGIN: Final = timedelta(minutes=5)
"""How far the clocks of those who write may differ, for updates of rows that are not near."""
_REMEMBERED: Final = 4 * NEAR


@dataclass(frozen=True, slots=True)
class StoredEvent:
    """One row, in the order of its columns: an event, and how often it happened within its interval; and its numbers.

    Attributes:
        created_at: First occurrence, local time without a zone.
        updated_at: Last occurrence, likewise.
        event_type: ``Normal`` or ``Warning``, or what another program wrote.
        key: Identity for de-duplication; of no use to people.
        figures: The numbers behind the text, where some are kept.
    """

    id: int
    created_at: datetime
    updated_at: datetime
    job_key: JobKey
    reason: str
    event_type: str
    message: str
    count: int
    key: str
    figures: EventFigures = NO_FIGURES


@dataclass(frozen=True, slots=True)
class EventFilter:
    """Selection of events; None takes all.

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
    for start in range(0, len(ids), PAGE):
        with database.transaction(read_only=True) as connection:
            events = _events_with_ids(connection, wanted, ids[start : start + PAGE])
        yield from events


def _events_with_ids(connection: Connection, wanted: EventFilter, ids: Sequence[int]) -> list[StoredEvent]:
    """Return the wanted ones among the events with some ids, at most :data:`PAGE` of them, by id."""
    found = select(EVENTS).where(*wanted.conditions(), EVENTS.c.id.in_(ids)).order_by(EVENTS.c.id)
    events = starmap(StoredEvent, connection.execute(found).all())
    taken = [event for event in events if wanted.takes(event.job_key, event.reason)]
    figures = figures_of(connection, [event.id for event in taken])
    return [replace(event, figures=figures.get(event.id, NO_FIGURES)) for event in taken]


def _counts_by_id(connection: Connection, wanted: EventFilter, *conditions: ColumnElement[bool]) -> dict[int, int]:
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


def _newest_ids(database: Database, wanted: EventFilter, limit: int) -> list[int]:
    """Return the ids of the newest events, as many as wanted, in ascending order."""
    columns = EVENTS.c
    query = select(columns.id, columns.job_key, columns.reason).where(*wanted.conditions()).order_by(columns.id.desc())
    ids: list[int] = []
    below: tuple[ColumnElement[bool], ...] = ()
    while True:
        with database.transaction(read_only=True) as connection:
            rows = connection.execute(query.where(*below).limit(_LIGHT_PAGE)).all()
        ids += [row.id for row in rows if wanted.takes(row.job_key, row.reason)]
        if len(ids) >= limit or len(rows) < _LIGHT_PAGE:
            return ids[:limit][::-1]
        below = (columns.id < rows[-1].id,)


def _matches(job_key: JobKey, pattern: str) -> bool:
    _, _, name = job_key.partition("/")
    return fnmatchcase(job_key, pattern) or fnmatchcase(name, pattern)


def _like(pattern: str) -> str:
    """Return a LIKE pattern for at least what a pattern with ``*``, ``?`` and ``[`` matches."""
    literal, bracket, _ = pattern.partition("[")
    special = {"*": "%", "?": "_"} | {each: _ESCAPE + each for each in ("%", "_", _ESCAPE)}
    return "".join(special.get(character, character) for character in literal) + ("%" if bracket else "")


class EventFollower:
    """Gives events that are new or happened again since the last look.

    A row is recognised by its id and its count, not by its time, so nothing is missed when a transaction with a lower
    id commits later, or when writers' clocks differ. Rows more than :data:`NEAR` ids old are found by their update
    time, within :data:`SWEEP_INTERVAL`. What happened while the database was away is found afterwards.

    Args:
        database: The database.
        wanted: Which events; its ``since`` does not matter.
        clock: Seconds of a clock that never goes back.

    Raises:
        StoreError: The database could not be read.
    """

    def __init__(self, database: Database, wanted: EventFilter, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._database = database
        self._wanted = replace(wanted, since=None)
        self._clock = clock
        with database.transaction(read_only=True) as connection:
            self._newest = _newest_id(connection)
            self._swept_to = database.now(connection)
            self._next_sweep = clock() + SWEEP_INTERVAL
            self._known = self._found(connection, sweeps=True)

    def mark_shown(self, event: StoredEvent) -> None:
        """Leave out an event in later polls until it happens again."""
        self._known[event.id] = event.count

    def poll(self) -> Generator[StoredEvent, None, None]:
        """Yield what is new, by id; what was not taken from the iterator comes again in the next poll.

        Raises:
            StoreError: The database could not be read; the next poll finds what this one did not.
        """
        sweeps = self._clock() >= self._next_sweep
        with self._database.transaction(read_only=True) as connection:
            now = self._database.now(connection)
            newest = _newest_id(connection)
            found = self._found(connection, sweeps=sweeps)
        changed = {each: count for each, count in found.items() if self._known.get(each) != count}
        yield from self._changed_events(changed)
        self._newest = max(self._newest, newest)
        if sweeps:
            self._swept_to, self._next_sweep = now, self._clock() + SWEEP_INTERVAL
        self._forget()

    def _changed_events(self, changed: Mapping[int, int]) -> Iterator[StoredEvent]:
        """Yield events outside of a transaction: whoever takes them may be slow."""
        for start in range(0, len(changed), PAGE):
            ids = list(changed)[start : start + PAGE]
            with self._database.transaction(read_only=True) as connection:
                events = _events_with_ids(connection, self._wanted, ids)
            for event in events:
                yield event
                self.mark_shown(event)
            # What the database let through and nobody wants is not looked at again either.
            shown = {event.id for event in events}
            self._known |= {each: changed[each] for each in ids if each not in shown}

    def _found(self, connection: Connection, *, sweeps: bool) -> dict[int, int]:
        near = EVENTS.c.id > self._newest - NEAR
        if sweeps:
            since: datetime = self._swept_to - _CLOCK_MARGIN
            near |= EVENTS.c.update_time >= since
        return _counts_by_id(connection, self._wanted, near)

    def _forget(self) -> None:
        """Keep memory bounded: the oldest ids go first."""
        if len(self._known) > _REMEMBERED:
            self._known = dict(sorted(self._known.items())[-_REMEMBERED // 2 :])


def _newest_id(connection: Connection) -> int:
    return connection.scalar(select(func.max(EVENTS.c.id))) or 0
