"""Writes the rows of a running daemon's history and keeps it in order, in a thread of its own."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Final

import pyarrow as pa
import structlog

from flink_autoscaler.core.errors import ConfigError
from flink_autoscaler.core.model.events import Event, EventType
from flink_autoscaler.pipeline.history.buffer import Buffer, size_of
from flink_autoscaler.pipeline.history.compact import LockedError, Maintained, Upkeep, maintain
from flink_autoscaler.pipeline.history.files import MissingHistoryError, is_local, local_path
from flink_autoscaler.pipeline.history.layout import PENDING
from flink_autoscaler.pipeline.history.storage import Sessions, append, opened
from flink_autoscaler.standalone.history.status import HistoryStatus
from flink_autoscaler.standalone.settings.schema.settings import HistorySettings
from flink_autoscaler.standalone.settings.secrets import masked

log = structlog.get_logger(__name__)

_IDLE_SECONDS: Final = 3600.0
_SHOWN_PROBLEMS: Final = 3
_PROGRESS_SECONDS: Final = 30.0
_FIRST_UPKEEP: Final = 0.05
"""Of the interval: soon after the start, yet not in it."""


class HistoryWriter:
    """Writes batches that are due, compacts, and removes what is old: all that may take as long as a file system does.

    Where the history cannot be written, batches wait in the buffer, and the log says so once.

    Args:
        settings: With a path.
        buffer: What is to be written; somebody else adds to it.
        sessions: Lends a Spark session, where one is needed.
        may_maintain: Tells whether this daemon compacts and removes what is old, now.
        tell: Takes events about that, from this thread.
        clock: Epoch seconds.
        retry: Seconds until a history that could not be written is tried again.

    Raises:
        ConfigError: There is no path.
    """

    def __init__(
        self,
        settings: HistorySettings,
        buffer: Buffer,
        *,
        sessions: Sessions | None,
        may_maintain: Callable[[], bool],
        tell: Callable[[Event], None],
        clock: Callable[[], float],
        retry: float,
    ) -> None:
        if settings.path is None:
            raise ConfigError("autoscaler.history.path is not set, but autoscaler.history.enabled is true")
        self._path = settings.path
        self._settings = settings
        self._buffer = buffer
        self._sessions = sessions
        self._may_maintain = may_maintain
        self._tell = tell
        self._clock = clock
        self._retry = retry
        self._changed = threading.Condition()
        self._is_woken = False
        self._is_closed = False
        self._flushes_wanted = 0
        self._flushes_done = 0
        self._is_away = False
        self._status = HistoryStatus()
        self._not_before = 0.0
        self._upkeep_at = clock() + settings.compaction_interval * _FIRST_UPKEEP
        self._thread = threading.Thread(target=self._run, name="history-writer", daemon=True)
        self._thread.start()

    def wake(self) -> None:
        """Look whether something is due."""
        with self._changed:
            self._is_woken = True
            self._changed.notify_all()

    def flush(self, timeout: float) -> bool:
        """Have everything written that is in the buffer; tell whether that was tried within so many seconds."""
        with self._changed:
            self._flushes_wanted += 1
            wanted = self._flushes_wanted
            self._changed.notify_all()
            return self._changed.wait_for(lambda: self._flushes_done >= wanted or self._is_closed, timeout)

    def close(self, timeout: float) -> bool:
        """End; tell whether what is being done has allowed that within so many seconds."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def status(self) -> HistoryStatus:
        """Tell how it goes, apart from passes; from any thread."""
        status, folder = self._status, spill_folder(self._settings)
        return replace(
            status,
            up=not self._is_away,
            rows_lost=self._buffer.given_up,
            rows_waiting=self._buffer.rows,
            batches_waiting=self._buffer.waiting,
            spilled_bytes=0 if folder is None else size_of(folder),
            last_write_age_seconds=None if status.written_at is None else max(0.0, self._clock() - status.written_at),
        )

    def _run(self) -> None:
        while True:
            flush, is_closed = self._next()
            if flush > self._flushes_done or self._is_due():
                self._attempt(self._write)
            with self._changed:
                self._flushes_done = flush
                self._changed.notify_all()
            if is_closed:
                return
            if self._is_upkeep_due():
                self._upkeep_at = self._clock() + self._settings.compaction_interval
                self._attempt(self._maintain)

    def _is_upkeep_due(self) -> bool:
        interval = self._settings.compaction_interval
        left = self._upkeep_at - self._clock()
        # More than an interval is left where the clock was set back: what was due by it may be so in years.
        return interval > 0 and not self._is_away and not 0 < left <= interval

    def _next(self) -> tuple[int, bool]:
        """Wait for something to do; return the flushes that are wanted, and whether to end."""
        with self._changed:
            self._changed.wait_for(
                lambda: self._is_woken or self._is_closed or self._flushes_wanted > self._flushes_done, self._idle()
            )
            self._is_woken = False
            return self._flushes_wanted, self._is_closed

    def _idle(self) -> float:
        """Return the seconds after which something may be due although nothing came."""
        waits = [_IDLE_SECONDS, self._settings.flush_interval]
        if self._buffer.rows and self._is_away:
            waits.append(self._retry)
        if self._settings.compaction_interval > 0:
            waits.append(max(0.0, self._upkeep_at - self._clock()))
        return min(waits)

    def _is_due(self) -> bool:
        now = self._clock()
        is_waiting = self._is_away and 0 <= self._not_before - now <= self._retry
        return not is_waiting and self._buffer.is_due(round(now * 1000))

    def _attempt(self, action: Callable[[], None]) -> None:
        """Do something with the history; when that fails, say so once and go on."""
        try:
            action()
        except Exception as error:  # opening a session raises whatever Spark does
            text = masked(str(error)) or type(error).__name__
            if not self._is_away:
                log.warning("history_unavailable", path=masked(self._path), error=text, rows=self._buffer.rows)
            self._is_away = True
            self._status = replace(self._status, failures=self._status.failures + 1)
            self._not_before = self._clock() + self._retry
        else:
            if self._is_away:
                log.info("history_available", path=masked(self._path))
            self._is_away = False
        # What Arrow keeps for the next time is more than it takes to ask for it again.
        pa.default_memory_pool().release_unused()

    def _write(self) -> None:
        self._buffer.close_batch()
        if self._buffer.rows == 0:
            return
        began = time.perf_counter()
        with opened(self._path, self._sessions) as files, closing(self._buffer.batches()) as batches:
            for batch in batches:
                count = append(files, batch, self._settings.partition)
                self._buffer.done()
                self._status = replace(
                    self._status,
                    rows_written=self._status.rows_written + batch.rows,
                    files_written=self._status.files_written + count,
                    written_at=self._clock(),
                    last_write_seconds=time.perf_counter() - began,
                )
                log.debug("history_written", rows=batch.rows, files=count)

    def _maintain(self) -> None:
        """Compact the history and remove what is too old, where this daemon leads and no other process does it."""
        if not self._may_maintain():
            log.debug("history_left_to_the_leader")
            return
        now_ms = round(self._clock() * 1000)
        began = time.perf_counter()
        try:
            with opened(self._path, self._sessions) as files:
                done = maintain(files, Upkeep(now_ms, self._settings.retention or None), _Progress())
        except MissingHistoryError:
            return  # nothing was written yet
        except LockedError as error:
            log.debug("history_locked", error=str(error))
            return
        except Exception as error:
            self._status = replace(self._status, compaction_failures=self._status.compaction_failures + 1)
            text = masked(str(error)) or type(error).__name__
            self._tell(Event(EventType.WARNING, "HistoryCompactionFailed", text))
            raise
        seconds = time.perf_counter() - began
        self._status = replace(self._status, compacted_at=self._clock(), last_compaction_seconds=seconds)
        self._tell_compaction(done, seconds)

    def _tell_compaction(self, done: Maintained, seconds: float) -> None:
        if done.damaged:
            log.warning("history_files_damaged", files=len(done.damaged), problems=done.damaged[:_SHOWN_PROBLEMS])
        if done.before or done.expired or done.leftovers:
            log.info(
                "history_compacted",
                files_before=done.before,
                files_after=done.after,
                days_removed=done.expired,
                leftovers=done.leftovers,
                seconds=round(seconds, 3),
            )
            text = f"{done.before} files became {done.after}, {done.expired} days removed, in {seconds:.1f} s"
            self._tell(Event(EventType.NORMAL, "HistoryCompacted", text))


class _Progress:
    """Tells how far a long compaction is."""

    def __init__(self) -> None:
        self._told_at = time.monotonic()

    def __call__(self, done: int, of: int) -> None:
        if time.monotonic() - self._told_at >= _PROGRESS_SECONDS:
            self._told_at = time.monotonic()
            log.info("history_compacting", folders_done=done, folders=of)


def spill_folder(settings: HistorySettings) -> Path | None:
    """Return where rows survive the end of the daemon until they are written; None for nowhere."""
    if settings.spill_directory is not None:
        return Path(settings.spill_directory).expanduser()
    return local_path(settings.path) / PENDING if settings.path is not None and is_local(settings.path) else None
