"""Writes the rows of a running daemon's history and keeps it in order, in a thread of its own."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

import pyarrow as pa
import structlog

from flink_autoscaler.core.border import Border
from flink_autoscaler.core.errors import AutoscalerError, ConfigError, StoreError
from flink_autoscaler.core.model.events import Event, EventType
from flink_autoscaler.pipeline.history.buffer import Buffer, SpilledBatch, size_of
from flink_autoscaler.pipeline.history.compact import LockedError, Maintained, Upkeep, maintain
from flink_autoscaler.pipeline.history.files import MissingHistoryError, is_local, local_path
from flink_autoscaler.pipeline.history.layout import PENDING
from flink_autoscaler.pipeline.history.storage import Sessions, append, opened
from flink_autoscaler.standalone.background import BackgroundWriter
from flink_autoscaler.standalone.history.status import HistoryStatus
from flink_autoscaler.standalone.settings.schema.settings import HistorySettings
from flink_autoscaler.standalone.settings.secrets import masked

log = structlog.get_logger(__name__)

BATCHES_KEPT: Final = 4
"""Batches of the greatest size that wait for a path that is away; then the oldest ones are given up."""

_IDLE_SECONDS: Final = 3600.0
_SHOWN_PROBLEMS: Final = 3
_PROGRESS_SECONDS: Final = 30.0
_FIRST_UPKEEP: Final = 0.05
"""Of the interval: soon after the start, yet not in it."""


class HistoryWriter(BackgroundWriter[SpilledBatch]):
    """Writes batches that are due, compacts, and removes what is old: all that may take as long as a file system does.

    Where the history cannot be written, batches wait in the buffer, and the log says so once.

    Args:
        settings: With a path.
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
        *,
        sessions: Sessions | None,
        may_maintain: Callable[[], bool],
        tell: Callable[[Event], None],
        clock: Callable[[], float],
        retry: float,
    ) -> None:
        if settings.path is None:
            raise ConfigError("autoscaler.history.path is not set, but autoscaler.history.enabled is true")
        super().__init__(
            "history-writer", limit=BATCHES_KEPT * settings.flush_rows, batch=BATCHES_KEPT + 1, retry=retry
        )
        self._path = settings.path
        self._settings = settings
        self.spill = spill_folder(settings)
        self.buffer = Buffer(
            flush_seconds=settings.flush_interval,
            flush_rows=settings.flush_rows,
            spill=self.spill,
            hand_over=self._put,
        )
        self._sessions = sessions
        self._may_maintain = may_maintain
        self._tell = tell
        self._clock = clock
        self._status = HistoryStatus()
        self._upkeep_at = clock() + settings.compaction_interval * _FIRST_UPKEEP

    def flush(self, timeout: float) -> bool:
        """Have everything written that is in the buffer; tell whether it is within so many seconds."""
        self.buffer.close_batch()
        return super().flush(timeout)

    def close(self, timeout: float) -> None:
        """Write what waits, for so many seconds at most, and leave the rest in the spill folder to the next process."""
        self._end(timeout)
        if not self._thread.is_alive():
            for _, spill in self._unwritten():
                if spill is not None:
                    spill.close()

    @property
    def rows(self) -> int:
        """Rows that are not written yet."""
        return self.buffer.rows + sum(map(self._size, self._unwritten()))

    def status(self) -> HistoryStatus:
        """Tell how it goes, apart from passes; from any thread."""
        status = self._status
        return replace(
            status,
            up=self._failing_since is None,
            rows_waiting=self.rows,
            batches_waiting=len(self._unwritten()),
            spilled_bytes=0 if self.spill is None else size_of(self.spill),
            last_write_age_seconds=None if status.written_at is None else max(0.0, self._clock() - status.written_at),
        )

    def _size(self, item: SpilledBatch) -> int:
        return item[0].rows

    def _drop(self, item: SpilledBatch) -> None:
        batch, spill = item
        if spill is not None:
            spill.remove()
        lost = self._status.rows_lost + batch.rows
        self._status = replace(self._status, rows_lost=lost)
        log.warning("history_rows_lost", rows=batch.rows, lost=lost)

    def _tell_outage(self, error: AutoscalerError | None) -> None:
        if error is None:
            log.info("history_available", path=masked(self._path))
        else:
            log.warning("history_unavailable", path=masked(self._path), error=masked(str(error)), rows=self.rows)

    def _idle(self) -> float:
        """Return the seconds after which something may be due although nothing came."""
        interval = self._settings.compaction_interval
        left = [max(0.0, self._upkeep_at - self._clock())] if interval > 0 and self._failing_since is None else []
        return min(_IDLE_SECONDS, self._settings.flush_interval, *left)

    def _upkeep(self) -> None:
        self.buffer.close_due(round(self._clock() * 1000))
        interval = self._settings.compaction_interval
        left = self._upkeep_at - self._clock()
        # More than an interval is left where the clock was set back: what was due by it may be so in years.
        if interval > 0 and self._failing_since is None and not 0 < left <= interval:
            self._upkeep_at = self._clock() + interval
            with Border(StoreError) as border, self._counting_failures():
                self._maintain()
            if border.error is not None:
                self._note(border.error)

    @contextmanager
    def _counting_failures(self) -> Iterator[None]:
        try:
            yield
        except Exception:  # opening a session raises whatever Spark does
            self._status = replace(self._status, failures=self._status.failures + 1)
            raise
        finally:
            # What Arrow keeps for the next time is more than it takes to ask for it again.
            pa.default_memory_pool().release_unused()

    def _write(self, items: list[SpilledBatch]) -> None:
        began = time.perf_counter()
        with self._counting_failures(), opened(self._path, self._sessions) as files:
            while items:
                batch, spill = items[0]
                count = append(files, batch, self._settings.partition)
                items.pop(0)
                if spill is not None:
                    spill.remove()
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
