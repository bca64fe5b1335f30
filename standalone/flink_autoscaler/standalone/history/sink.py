"""Keeps the metric history of a running daemon, aside from its passes."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Final

import pyarrow as pa
import structlog

from flink_autoscaler.core.errors import ConfigError
from flink_autoscaler.core.model.decision import PassOutcome
from flink_autoscaler.core.model.job import JobAutoScalerContext
from flink_autoscaler.pipeline.history.buffer import Buffer
from flink_autoscaler.pipeline.history.compact import Upkeep
from flink_autoscaler.pipeline.history.files import is_local, local_path
from flink_autoscaler.pipeline.history.layout import PENDING
from flink_autoscaler.pipeline.history.rows import NamedRow
from flink_autoscaler.pipeline.history.spill import size_of
from flink_autoscaler.pipeline.history.storage import Sessions, opened
from flink_autoscaler.pipeline.history.writer import append
from flink_autoscaler.standalone.history.status import HistoryCounts, HistoryStatus
from flink_autoscaler.standalone.history.turns import Turns
from flink_autoscaler.standalone.history.upkeep import keep_in_order
from flink_autoscaler.standalone.observability.logs import masked
from flink_autoscaler.standalone.settings.schema.settings import HistorySettings

log = structlog.get_logger(__name__)

MOST_PASSES: Final = 200
"""Passes that wait to become rows; when the thread does not keep up, the oldest of them are given up."""

RETRY_SECONDS: Final = 60.0
_UNFIT: Final = (pa.ArrowException, TypeError, ValueError, OverflowError)
"""What values of other types than those of the columns raise."""

_IDLE_SECONDS: Final = 3600.0
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
        self._turns = Turns(settings.interval)
        self._passes: deque[_Pass] = deque()
        self._changed = threading.Condition()
        self._is_closed = False
        self._flushes_wanted = 0
        self._flushes_done = 0
        self._is_away = False
        self._counts = HistoryCounts()
        self._passes_lost = 0
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
                self._passes_lost += 1
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

    def status(self) -> HistoryStatus:
        """Tell how it goes; from any thread."""
        counts, folder = replace(self._counts, passes_lost=self._passes_lost), spill_folder(self._settings)
        age = None if counts.written_at is None else max(0.0, self._clock() - counts.written_at)
        return HistoryStatus(counts, 0 if folder is None else size_of(folder), age)

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
                self._take(list(self._turns.rows(each.outcomes, each.contexts, each.now_ms)), each.now_ms)
            self._publish()
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

    def _take(self, rows: Sequence[NamedRow], now_ms: int) -> None:
        """Add the rows of a pass; those of a job that do not fit the tables are left out."""
        try:
            self._buffer.add(rows, now_ms)
        except _UNFIT as error:
            jobs = [list(of_job) for _, of_job in groupby(rows, key=lambda named: named[1]["job_key"])]
            if len(jobs) == 1:
                problem = f"{type(error).__name__}: {error}"
                log.warning("history_pass_left_out", job_key=rows[0][1]["job_key"], error=problem)
                return
            for of_job in jobs:
                self._take(of_job, now_ms)

    def _attempt(self, action: Callable[[], None]) -> None:
        """Do something with the history; when that fails, say so once and go on."""
        try:
            action()
        except Exception as error:  # opening a session raises whatever Spark does
            text = masked(str(error)) or type(error).__name__
            if not self._is_away:
                log.warning("history_unavailable", path=masked(self._path), error=text, rows=self._buffer.rows)
            self._is_away = True
            self._counts = replace(self._counts, failures=self._counts.failures + 1)
            self._not_before = self._clock() + self._retry
        else:
            if self._is_away:
                log.info("history_available", path=masked(self._path))
            self._is_away = False
        self._publish()
        # What Arrow keeps for the next time is more than it takes to ask for it again.
        pa.default_memory_pool().release_unused()

    def _write(self) -> None:
        self._buffer.close_batch()
        if self._buffer.rows == 0:
            return
        began = time.perf_counter()
        with opened(self._path, self._sessions, self._settings.writer) as storage:
            for batch in self._buffer.batches():
                files = append(storage, batch, self._settings.partition)
                self._buffer.done()
                self._written(batch.rows, files, began)
                log.debug("history_written", rows=batch.rows, files=files)

    def _written(self, rows: int, files: int, began: float) -> None:
        """Count a batch that was written; ``began`` is when the first one of this time was begun."""
        counts, took = self._counts, time.perf_counter() - began
        self._counts = replace(
            counts,
            rows=counts.rows + rows,
            files=counts.files + files,
            written_at=self._clock(),
            write_seconds=took,
        )

    def _publish(self) -> None:
        """Let others see what waits: the buffer belongs to this thread."""
        self._counts = replace(
            self._counts,
            is_up=not self._is_away,
            rows_lost=self._buffer.given_up,
            waiting_rows=self._buffer.rows,
            waiting_batches=self._buffer.waiting,
        )

    def _maintain(self) -> None:
        now_ms = round(self._clock() * 1000)
        self._turns.forget(now_ms)
        upkeep = Upkeep(now_ms, self._settings.retention or None)
        with opened(self._path, self._sessions, self._settings.writer) as storage:
            keep_in_order(storage, upkeep)


def spill_folder(settings: HistorySettings) -> Path | None:
    """Return where rows survive the end of the daemon until they are written; None for nowhere."""
    if settings.spill_directory is not None:
        return Path(settings.spill_directory).expanduser()
    return local_path(settings.path) / PENDING if settings.path is not None and is_local(settings.path) else None
