"""Events and scaling reports as rows of a database."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from datetime import datetime, timedelta

from sqlalchemy import Connection, insert, select, update

from flink_autoscaler.core.model.events import Event, EventType, ScalingReport
from flink_autoscaler.core.model.job import JobAutoScalerContext, JobKey
from flink_autoscaler.core.model.syntax import Duration
from flink_autoscaler.stores.logging_handler import REPORT_KEY, REPORT_REASON
from flink_autoscaler.stores.sql.database.database import Database, Fence, same_key
from flink_autoscaler.stores.sql.events.cleaner import EventCleaner
from flink_autoscaler.stores.sql.tables import EVENTS

_KEY_LENGTH = 40


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

    def handle_scaling_report(self, context: JobAutoScalerContext, report: ScalingReport) -> None:
        """Write one report; one that is not executed counts as a repetition while its parallelisms are the same.

        Raises:
            StoreError: It could not be written, or that is not sure.
        """
        key = REPORT_KEY if report.is_executed else report.parallelism_hash
        interval = None if report.is_executed else report.interval
        self.handle_event(context, Event(EventType.NORMAL, REPORT_REASON, report.text, key, interval))

    def close(self) -> None:
        """Stop removing old rows."""
        if self._cleaner is not None:
            self._cleaner.stop()

    def _write(self, connection: Connection, job_key: JobKey, event: Event) -> None:
        now = self._database.local_time(self._clock())
        if event.interval is None or not _count(connection, job_key, event, now, event.interval):
            insert_event(connection, job_key, event, now)


def insert_event(connection: Connection, job_key: JobKey, event: Event, now: datetime) -> None:
    """Write a row of its own for an event."""
    row = {"job_key": job_key, "reason": event.reason, "event_type": event.type.value, "event_count": 1}
    times = {"create_time": now, "update_time": now}
    text = {"message": _storable(event.message), "event_key": event_key(job_key, event)}
    connection.execute(insert(EVENTS).inline().values(**row, **times, **text))


def _count(connection: Connection, job_key: JobKey, event: Event, now: datetime, interval: Duration) -> bool:
    """Count a repetition in the latest row of an event; False when there is none within the interval."""
    condition = same_key(connection, EVENTS.c.job_key, job_key)
    latest = connection.execute(
        select(EVENTS.c.id, EVENTS.c.create_time)
        .where(condition, EVENTS.c.reason == event.reason, EVENTS.c.event_key == event_key(job_key, event))
        .order_by(EVENTS.c.id.desc())
        .limit(1)
    ).first()
    if latest is None or not latest.create_time > now - timedelta(seconds=interval.exact_seconds):
        return False
    counted = connection.execute(
        update(EVENTS)
        .where(EVENTS.c.id == latest.id)
        .values(update_time=now, message=_storable(event.message), event_count=EVENTS.c.event_count + 1)
    )
    # None when the cleaner was faster.
    return counted.rowcount == 1


def event_key(job_key: JobKey, event: Event) -> str:
    """Return the identity of an event as hexadecimal text, the same in every process and version.

    Two events are the same when job, type, reason and key (without a key: message) are the same.
    """
    parts = (job_key, event.type.value, event.reason, event.message if event.key is None else event.key)
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode("utf-8", "surrogatepass")
        digest.update(len(data).to_bytes(8, "big") + data)
    return digest.hexdigest()[:_KEY_LENGTH]


def _storable(message: str) -> str:
    """Replace what no database, or not every one, takes as text: NUL and halves of characters."""
    return message.replace("\0", "\N{SYMBOL FOR NULL}").encode("utf-8", "replace").decode("utf-8")
