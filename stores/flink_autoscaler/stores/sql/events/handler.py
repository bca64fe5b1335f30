"""Events and scaling reports as rows of a database; old ones are removed in the background."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import partial
from typing import NamedTuple

import structlog
from sqlalchemy import Connection, delete, insert, select, update

from flink_autoscaler.core.errors import StoreError
from flink_autoscaler.core.model.events import Event, EventType, ScalingReport
from flink_autoscaler.core.model.job import JobKey
from flink_autoscaler.core.model.notifications import notification_identity
from flink_autoscaler.core.model.syntax import Duration
from flink_autoscaler.core.options.context import JobAutoScalerContext
from flink_autoscaler.stores.logging_handler import REPORT_KEY, REPORT_REASON
from flink_autoscaler.stores.sql.database.database import Database, Fence, same_key
from flink_autoscaler.stores.sql.database.failures import LeaseLostError
from flink_autoscaler.stores.sql.events.figures import (
    first_with_figures,
    put_figures,
    put_vertices,
    remove_figures,
    storable_text,
)
from flink_autoscaler.stores.sql.tables import EVENTS

log = structlog.get_logger(__name__)

BATCH = 2000
"""Consecutive ids looked at by one DELETE."""
_DAY = 86_400.0
_TIME_ZONES = 2 * _DAY
"""Rows are in local time, and others may write rows of another one: so far ahead they are not wrong."""
_FIRST_RUN = (60.0, 600.0)
"""Seconds after the start, so that daemons that are restarted every day clean up, too, and not all at once."""


class _RetainedRange(NamedTuple):
    """The time of the events that stay, by the local clock of the database's rows."""

    since: datetime
    until: datetime


class EventCleaner:
    """Removes events older than a time, in small steps with pauses so that nobody else has to wait.

    Events that are as far ahead go, too: a clock was wrong when they were written. They would keep all that were
    written after them, for it is the first row that tells whether there is anything to remove.

    Args:
        database: Where the table is.
        ttl: Age in seconds after which a row is removed; more than 0.
        fence: Checked first in every transaction; without the lease nothing is removed.
        clock: Epoch seconds.
        first_run: Least and most seconds from the start to the first run.
        pause: Seconds after each DELETE.
    """

    def __init__(
        self,
        database: Database,
        *,
        ttl: float,
        fence: Fence | None = None,
        clock: Callable[[], float] = time.time,
        first_run: tuple[float, float] = _FIRST_RUN,
        pause: float = 1.0,
    ) -> None:
        self._database = database
        self._ttl = ttl
        self._fence = fence
        self._clock = clock
        self._first_run = first_run
        self._pause = pause
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run_daily, name="event-cleaner", daemon=True)

    def start(self) -> None:
        """Begin to clean: soon, and then every day, or as often as events expire. Called at most once."""
        self._thread.start()

    def stop(self) -> None:
        """End at once, between two steps. A step under way is waited for."""
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join()

    def clean(self) -> int:
        """Do one run and return how many rows it removed. Failures end the run and are logged."""
        now = self._clock()
        ahead = max(self._ttl, _TIME_ZONES)
        kept = _RetainedRange(self._database.local_time(now - self._ttl), self._database.local_time(now + ahead))
        try:
            return self._clean(kept)
        except LeaseLostError:
            log.debug("event_cleanup_left_to_leader")
        except StoreError as error:
            log.error("event_cleanup_failed", error=str(error))
        return 0

    def _clean(self, kept: _RetainedRange) -> int:
        removed = 0
        start = self._first_expired(kept)
        while start is not None and not self._stopped.is_set():
            gone = self._remove(start, kept)
            removed += gone
            self._stopped.wait(self._pause)
            # Less than a full batch means a gap in the ids, or the end: look where it goes on.
            start = start + BATCH if gone == BATCH else self._first_expired(kept)
        self._clean_figures()
        log.info("events_cleaned_up", rows=removed, older_than=kept.since.isoformat(" ", "seconds"))
        return removed

    def _clean_figures(self) -> None:
        """Remove the figures of events before the first that is left, whoever has removed those."""
        oldest = select(EVENTS.c.id).order_by(EVENTS.c.id).limit(1)
        end = self._database.run(lambda connection: connection.scalar(oldest), read_only=True)
        while end is not None and not self._stopped.is_set():
            start = self._database.run(first_with_figures, read_only=True)
            if start is None or start >= end:
                return
            last = min(start + BATCH, end)
            self._database.run(partial(remove_figures, start=start, end=last), fence=self._fence)
            self._stopped.wait(self._pause)

    def _first_expired(self, kept: _RetainedRange) -> int | None:
        """Return the id of the very first row, if that has expired."""
        first = select(EVENTS.c.id, EVENTS.c.create_time).order_by(EVENTS.c.id).limit(1)
        row = self._database.run(lambda connection: connection.execute(first).first(), read_only=True)
        return None if row is None or kept.since <= row.create_time <= kept.until else row.id

    def _remove(self, start: int, kept: _RetainedRange) -> int:
        def remove(connection: Connection) -> int:
            expired = ~EVENTS.c.create_time.between(*kept)
            batch = EVENTS.c.id.between(start, start + BATCH - 1)
            return connection.execute(delete(EVENTS).where(batch & expired)).rowcount

        return self._database.run(remove, fence=self._fence)

    def _run_daily(self) -> None:
        wait = random.uniform(*self._first_run)  # noqa: S311 - spreads load, keeps no secret
        wait = min(wait, max(self._ttl, self._first_run[0]))
        while not self._stopped.wait(wait):
            self.clean()
            wait = min(_DAY, self._ttl)


class SqlEventHandler:
    """Writes every event as a row; a repetition within its interval is counted in the row that is there.

    The interval begins when a row is made, so an event that keeps repeating has one row per interval. Reports of
    executed decisions are always rows of their own.

    Args:
        database: Where the table is; not closed with the handler.
        fence: Checked first in every transaction.
        event_ttl: Seconds after which rows are removed, in the background; 0 keeps them.
        clock: Epoch seconds.
    """

    def __init__(
        self,
        database: Database,
        *,
        fence: Fence | None = None,
        event_ttl: float = 0.0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._database = database
        self._fence = fence
        self._clock = clock
        self._cleaner = EventCleaner(database, ttl=event_ttl, fence=fence, clock=clock) if event_ttl > 0 else None
        if self._cleaner is not None:
            self._cleaner.start()

    def handle_event(self, context: JobAutoScalerContext, event: Event) -> None:
        """Write one event, or count it as a repetition.

        Raises:
            StoreError: It could not be written, or that is not sure.
        """
        self._database.run(lambda connection: self._write(connection, context.job_key, event), fence=self._fence)

    def _write(self, connection: Connection, job_key: JobKey, event: Event) -> int:
        """Write or count an event with its figures; return the id of its row."""
        now = self._database.local_time(self._clock())
        counted = None if event.interval is None else _count(connection, job_key, event, now, event.interval)
        if counted is None:
            return insert_event(connection, job_key, event, now)
        if event.figures:
            put_figures(connection, counted, event.figures)
        return counted

    def handle_scaling_report(self, context: JobAutoScalerContext, report: ScalingReport) -> None:
        """Write one report; one that is not executed counts as a repetition while its parallelisms are the same.

        Raises:
            StoreError: It could not be written, or that is not sure.
        """
        key = REPORT_KEY if report.is_executed else report.parallelism_hash
        interval = None if report.is_executed else report.interval
        event = Event(EventType.NORMAL, REPORT_REASON, report.text, key, interval)

        def write(connection: Connection) -> None:
            at_ms = round(self._clock() * 1000)
            put_vertices(connection, self._write(connection, context.job_key, event), context.job_key, report, at_ms)

        self._database.run(write, fence=self._fence)

    def close(self) -> None:
        """Stop removing old rows."""
        if self._cleaner is not None:
            self._cleaner.stop()


def insert_event(connection: Connection, job_key: JobKey, event: Event, now: datetime) -> int:
    """Write a row of its own for an event, and its figures; return the id of the row."""
    row = {"job_key": job_key, "reason": event.reason, "event_type": event.type.value, "event_count": 1}
    times = {"create_time": now, "update_time": now}
    text = {"message": storable_text(event.message), "event_key": notification_identity(job_key, event)}
    (event_id,) = connection.execute(insert(EVENTS).values(**row, **times, **text)).inserted_primary_key or (0,)
    if event.figures:
        put_figures(connection, event_id, event.figures)
    return int(event_id)


def _count(connection: Connection, job_key: JobKey, event: Event, now: datetime, interval: Duration) -> int | None:
    """Count a repetition in the latest row of an event; return its id, None when there is none within the interval."""
    condition = same_key(connection, EVENTS.c.job_key, job_key)
    latest = connection.execute(
        select(EVENTS.c.id, EVENTS.c.create_time)
        .where(condition, EVENTS.c.reason == event.reason, EVENTS.c.event_key == notification_identity(job_key, event))
        .order_by(EVENTS.c.id.desc())
        .limit(1)
    ).first()
    if latest is None or not latest.create_time > now - timedelta(seconds=interval.exact_seconds):
        return None
    counted = connection.execute(
        update(EVENTS)
        .where(EVENTS.c.id == latest.id)
        .values(update_time=now, message=storable_text(event.message), event_count=EVENTS.c.event_count + 1)
    )
    # None when the cleaner was faster.
    return int(latest.id) if counted.rowcount == 1 else None
