"""Removes old events in the background."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from datetime import datetime

import structlog
from sqlalchemy import Connection, delete, select

from flink_autoscaler.core.errors import StoreError
from flink_autoscaler.stores.sql.database.database import Database, Fence
from flink_autoscaler.stores.sql.database.failures import LeaseLostError
from flink_autoscaler.stores.sql.tables import EVENTS

log = structlog.get_logger(__name__)

BATCH = 2000
"""Consecutive ids looked at by one DELETE."""
_DAY = 86_400.0
_FIRST_RUN = (60.0, 600.0)
"""Seconds after the start, so that daemons that are restarted every day clean up, too, and not all at once."""


class EventCleaner:
    """Removes events older than a time, in small steps with pauses so that nobody else has to wait.

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
        """Begin to clean: soon, and then every day. Called at most once."""
        self._thread.start()

    def stop(self) -> None:
        """End at once, between two steps. A step under way is waited for."""
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join()

    def clean(self) -> int:
        """Do one run and return how many rows it removed. Failures end the run and are logged."""
        cut_off = self._database.local_time(self._clock() - self._ttl)
        try:
            return self._clean(cut_off)
        except LeaseLostError:
            log.debug("event_clean_up_left_to_the_leader")
        except StoreError as error:
            log.error("event_clean_up_failed", error=str(error))
        return 0

    def _clean(self, cut_off: datetime) -> int:
        removed = 0
        start = self._first_expired(cut_off)
        while start is not None and not self._stopped.is_set():
            gone = self._remove(start, cut_off)
            removed += gone
            self._stopped.wait(self._pause)
            # Less than a full batch means a gap in the ids, or the end: look where it goes on.
            start = start + BATCH if gone == BATCH else self._first_expired(cut_off)
        log.info("events_cleaned_up", rows=removed, older_than=cut_off.isoformat(" ", "seconds"))
        return removed

    def _first_expired(self, cut_off: datetime) -> int | None:
        """Return the id of the very first row, if that has expired."""
        first = select(EVENTS.c.id, EVENTS.c.create_time).order_by(EVENTS.c.id).limit(1)
        row = self._database.run(lambda connection: connection.execute(first).first(), read_only=True)
        return row.id if row is not None and row.create_time < cut_off else None

    def _remove(self, start: int, cut_off: datetime) -> int:
        def remove(connection: Connection) -> int:
            expired = EVENTS.c.id.between(start, start + BATCH - 1) & (EVENTS.c.create_time < cut_off)
            return connection.execute(delete(EVENTS).where(expired)).rowcount

        return self._database.run(remove, fence=self._fence)

    def _run_daily(self) -> None:
        wait = random.uniform(*self._first_run)  # noqa: S311 - spreads load, keeps no secret
        while not self._stopped.wait(wait):
            self.clean()
            wait = _DAY
