"""Finds events as they are written."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Final

from sqlalchemy import Connection, func, select

from flink_autoscaler.stores.sql.database.database import Database
from flink_autoscaler.stores.sql.events.log import (
    PAGE,
    EventFilter,
    StoredEvent,
    counts_by_id,
    events_with_ids,
)
from flink_autoscaler.stores.sql.tables import EVENTS

NEAR: Final = 10_000
"""Ids below the newest that are looked at in every poll: rows appear later than their ids say, and are updated."""
SWEEP_INTERVAL: Final = 30.0
"""Seconds between searches of the whole table for older rows that were updated."""

_CLOCK_MARGIN: Final = timedelta(minutes=5)
"""How far the clocks of those who write may differ, for updates of rows that are not near."""
_REMEMBERED: Final = 4 * NEAR


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
        self._wanted = dataclasses.replace(wanted, since=None)
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
                events = events_with_ids(connection, self._wanted, ids)
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
        return counts_by_id(connection, self._wanted, near)

    def _forget(self) -> None:
        """Keep memory bounded: the oldest ids go first."""
        if len(self._known) > _REMEMBERED:
            self._known = dict(sorted(self._known.items())[-_REMEMBERED // 2 :])


def _newest_id(connection: Connection) -> int:
    return connection.scalar(select(func.max(EVENTS.c.id))) or 0
