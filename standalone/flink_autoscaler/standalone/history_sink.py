"""Keeps the metric history of a running daemon, aside from its passes."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa
import structlog

from flink_autoscaler.core.decision import PassOutcome
from flink_autoscaler.core.errors import ConfigError
from flink_autoscaler.core.job import JobAutoScalerContext, JobKey
from flink_autoscaler.pipeline.history.buffer import Buffer
from flink_autoscaler.pipeline.history.catalog import unheard
from flink_autoscaler.pipeline.history.compact import Maintained, Upkeep, maintain
from flink_autoscaler.pipeline.history.files import MissingHistoryError, is_local, local_path
from flink_autoscaler.pipeline.history.layout import PENDING
from flink_autoscaler.pipeline.history.lock import LockedError
from flink_autoscaler.pipeline.history.rows import NamedRow, is_eventful, rows_of
from flink_autoscaler.pipeline.history.storage import Sessions, opened
from flink_autoscaler.pipeline.history.writer import append
from flink_autoscaler.standalone.history_settings import HistorySettings
from flink_autoscaler.standalone.logs import masked

log = structlog.get_logger(__name__)

MOST_PASSES: Final = 200
"""Passes that wait to become rows; when the thread does not keep up, the oldest of them are given up."""

RETRY_SECONDS: Final = 60.0
TOLERANCE: Final = 0.9
"""A pass counts as one interval later although it comes a little early: passes jitter."""

_IDLE_SECONDS: Final = 3600.0
_FORGOTTEN_MS: Final = 86_400_000
_FIRST_UPKEEP: Final = 0.05
"""Of the interval: soon after the start, yet not in it."""


@dataclass(frozen=True, slots=True)
class _Pass:
    outcomes: Sequence[PassOutcome]
    contexts: Sequence[JobAutoScalerContext]
    now_ms: int


class HistorySink:
    """Takes what passes found out and appends it to the history.

    ``add`` returns at once and never raises; everything else is done by a thread of its own. Where the history cannot
    be written, rows wait within bounds, the log says so once, and the passes go on.

    Args:
        settings: With a path.
        sessions: Lends a Spark session, where one is needed.
        clock: Epoch seconds.
        retry: Seconds until a history that could not be written is tried again.

    Raises:
        ConfigError: There is no path.
    """

    def __init__(
        self,
        settings: HistorySettings,
        *,
        sessions: Sessions | None = None,
        clock: Callable[[], float] = time.time,
        retry: float = RETRY_SECONDS,
    ) -> None:
        if settings.path is None:
            raise ConfigError("autoscaler.history.path is not set, but autoscaler.history.enabled is true")
        self._path = settings.path
        self._settings = settings
        self._sessions = sessions
        self._clock = clock
        self._retry = retry
        self._buffer = Buffer(
            flush_seconds=settings.flush_interval, flush_rows=settings.flush_rows, spill=spill_folder(settings)
        )
        self._last_ms: dict[JobKey, int] = {}
        self._passes: deque[_Pass] = deque()
        self._changed = threading.Condition()
        self._is_closed = False
        self._flushes_wanted = 0
        self._flushes_done = 0
        self._is_away = False
        self._not_before = 0.0
        self._upkeep_at = clock() + settings.compaction_interval * _FIRST_UPKEEP
        self._thread = threading.Thread(target=self._run, name="history", daemon=True)
        self._thread.start()

    def add(self, outcomes: Sequence[PassOutcome], contexts: Sequence[JobAutoScalerContext], now_ms: int) -> None:
        """Take a pass; returns at once. From any thread.

        Args:
            outcomes: As they were carried out.
            contexts: The jobs, one per outcome, in the same order.
            now_ms: The instant of the pass, epoch milliseconds.
        """
        with self._changed:
            if len(self._passes) >= MOST_PASSES:
                self._passes.popleft()
                log.warning("history_pass_lost", waiting=MOST_PASSES)
            self._passes.append(_Pass(outcomes, contexts, now_ms))
            self._changed.notify_all()

    def flush(self, timeout: float) -> bool:
        """Have everything written that was added before; tell whether it is within so many seconds."""
        with self._changed:
            self._flushes_wanted += 1
            wanted = self._flushes_wanted
            self._changed.notify_all()
            has_tried = self._changed.wait_for(lambda: self._flushes_done >= wanted or self._is_closed, timeout)
            return has_tried and not self._passes and self._buffer.rows == 0

    def close(self, timeout: float = 10.0) -> None:
        """Write what waits, for so many seconds at most, and end; the spill folder keeps what is not written."""
        is_written = self.flush(timeout)
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        self._thread.join(timeout)
        if not is_written:
            log.warning(
                "history_not_flushed", rows=self._buffer.rows, is_spilled=spill_folder(self._settings) is not None
            )

    def _run(self) -> None:
        recovered = self._buffer.recover()
        if recovered:
            log.info("history_rows_recovered", rows=recovered)
        while True:
            passes, flush, is_closed = self._next()
            for each in passes:
                self._buffer.add(self._rows(each), each.now_ms)
            if flush > self._flushes_done or self._is_due():
                self._attempt(self._write)
            with self._changed:
                self._flushes_done = flush
                self._changed.notify_all()
            if is_closed:
                self._buffer.close()
                return
            is_kept_up = self._settings.compaction_interval > 0 and not self._is_away
            if is_kept_up and self._clock() >= self._upkeep_at:
                self._upkeep_at = self._clock() + self._settings.compaction_interval
                self._attempt(self._maintain)

    def _next(self) -> tuple[Sequence[_Pass], int, bool]:
        """Wait for something to do; return the passes that came, the flushes that are wanted, and whether to end."""
        with self._changed:
            self._changed.wait_for(
                lambda: self._passes or self._is_closed or self._flushes_wanted > self._flushes_done, self._idle()
            )
            passes = list(self._passes)
            self._passes.clear()
            return passes, self._flushes_wanted, self._is_closed

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

    def _rows(self, given: _Pass) -> Iterator[NamedRow]:
        """Yield the rows of the jobs whose turn it is; those of a job that cannot be written as rows are left out."""
        span_ms = round(self._settings.interval * 1000)
        for outcome, context in zip(given.outcomes, given.contexts, strict=True):
            try:
                if self._is_turn(context.job_key, given.now_ms) or is_eventful(outcome, given.now_ms):
                    rows = list(rows_of(outcome, context, given.now_ms, span_ms=span_ms, mask=masked))
                    self._last_ms[context.job_key] = given.now_ms
                    yield from rows
            except Exception as error:  # a plug-in may have put anything into an outcome
                problem = f"{type(error).__name__}: {error}"
                log.warning("history_pass_left_out", job_key=context.job_key, error=problem)

    def _is_turn(self, job_key: JobKey, now_ms: int) -> bool:
        last_ms = self._last_ms.get(job_key)
        is_soon = last_ms is not None and 0 <= now_ms - last_ms < self._settings.interval * 1000 * TOLERANCE
        return not is_soon

    def _attempt(self, action: Callable[[], None]) -> None:
        """Do something with the history; when that fails, say so once and go on."""
        try:
            action()
        except Exception as error:  # opening a session raises whatever Spark does
            text = masked(str(error)) or type(error).__name__
            if not self._is_away:
                log.warning("history_unavailable", path=masked(self._path), error=text, rows=self._buffer.rows)
            self._is_away = True
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
        with opened(self._path, self._sessions, self._settings.writer) as storage:
            for batch in self._buffer.batches():
                files = append(storage, batch, self._settings.partition)
                self._buffer.done()
                log.debug("history_written", rows=batch.rows, files=files)

    def _maintain(self) -> None:
        now_ms = round(self._clock() * 1000)
        self._last_ms = {key: at_ms for key, at_ms in self._last_ms.items() if now_ms - at_ms < _FORGOTTEN_MS}
        upkeep = Upkeep(now_ms, self._settings.retention or None)
        try:
            with opened(self._path, self._sessions, self._settings.writer) as storage:
                done = maintain(storage, upkeep, unheard)
        except MissingHistoryError:
            return  # nothing was written yet
        except LockedError as error:
            log.debug("history_locked", error=str(error))
            return
        _tell(done)


def spill_folder(settings: HistorySettings) -> Path | None:
    """Return where rows survive the end of the daemon until they are written; None for nowhere."""
    if settings.spill_directory is not None:
        return Path(settings.spill_directory).expanduser()
    return local_path(settings.path) / PENDING if settings.path is not None and is_local(settings.path) else None


def _tell(done: Maintained) -> None:
    if done.damaged:
        log.warning("history_files_damaged", files=len(done.damaged), problems=done.damaged[:3])
    if done.before or done.expired or done.leftovers:
        log.info(
            "history_compacted",
            files_before=done.before,
            files_after=done.after,
            days_removed=done.expired,
            leftovers=done.leftovers,
        )
