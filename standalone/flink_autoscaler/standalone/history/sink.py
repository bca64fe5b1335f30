"""Keeps the metric history of a running daemon, aside from its passes."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Final, NamedTuple

import pyarrow as pa
import structlog

from flink_autoscaler.core.border import Border, ToldOnce, attempted
from flink_autoscaler.core.errors import AutoscalerError, ConfigError
from flink_autoscaler.core.model.job import JobKey
from flink_autoscaler.core.options.context import JobAutoScalerContext
from flink_autoscaler.core.ports.passes import PassOutcome
from flink_autoscaler.pipeline.history import Writer
from flink_autoscaler.pipeline.history.buffer import Buffer, size_of
from flink_autoscaler.pipeline.history.compact import Upkeep
from flink_autoscaler.pipeline.history.files import is_local, local_path
from flink_autoscaler.pipeline.history.layout import PENDING
from flink_autoscaler.pipeline.history.rows import NamedRow, is_eventful, rows_of
from flink_autoscaler.pipeline.history.storage import Sessions, append, needs_spark, opened
from flink_autoscaler.standalone.history.status import HistoryStatus
from flink_autoscaler.standalone.history.upkeep import Tell, failed_event, keep_in_order, report, unheard_event
from flink_autoscaler.standalone.observability.logs import masked
from flink_autoscaler.standalone.settings.schema.settings import HistorySettings

log = structlog.get_logger(__name__)

MOST_PASSES: Final = 200
"""Passes that wait to become rows; when the thread does not keep up, the oldest of them are given up."""

MOST_OUTCOMES: Final = 20_000
"""Jobs in the passes that wait, where these are more than one."""

RETRY_SECONDS: Final = 60.0
_IDLE_SECONDS: Final = 3600.0
_FIRST_UPKEEP: Final = 0.05
"""Of the interval: soon after the start, yet not in it."""

TOLERANCE: Final = 0.9
"""A pass counts as one interval later although it comes a little early: passes jitter."""

LEAST_INTERVAL: Final = 60.0
"""Seconds; rates may cover less than that where the metric window of a job does."""

_FORGOTTEN_MS: Final = 86_400_000


class LeftOut:
    """Tells which jobs cannot be kept, each once for as long as it is for the same reason."""

    def __init__(self) -> None:
        self._told = ToldOnce()

    def note(self, step: str, job_key: JobKey, error: AutoscalerError | None) -> None:
        """Take what a step of keeping a pass of a job ended with; None when it went well."""
        if self._told.is_news(f"{step} {job_key}", error) and error is not None:
            log.warning("history_pass_left_out", job_key=job_key, error=str(error))


class Turns:
    """Remembers when each job was kept last. Belongs to one thread.

    Args:
        interval: Seconds between two kept passes of a job in which nothing happens.
        left_out: Tells about jobs of which no rows can be made.
    """

    def __init__(self, interval: float, left_out: LeftOut) -> None:
        self._interval = interval
        self._left_out = left_out
        self._last_ms: dict[JobKey, int] = {}

    def rows(
        self, outcomes: Sequence[PassOutcome], contexts: Sequence[JobAutoScalerContext], now_ms: int
    ) -> Iterator[NamedRow]:
        """Yield the rows of the jobs whose turn it is; those of a job that cannot be written as rows are left out."""
        for outcome, context in zip(outcomes, contexts, strict=True):
            with Border() as border:  # a plug-in may have put anything into an outcome
                span_ms = round(1000 * interval_of(self._interval, context))
                last_ms = self._last_ms.get(context.job_key)
                is_soon = last_ms is not None and 0 <= now_ms - last_ms < span_ms * TOLERANCE
                if is_soon and not is_eventful(outcome, now_ms):
                    continue
                rows = list(rows_of(outcome, context, now_ms, span_ms=span_ms, mask=masked))
                self._last_ms[context.job_key] = now_ms
                yield from rows
            self._left_out.note("rows of", context.job_key, border.error)

    def forget(self, now_ms: int) -> None:
        """Forget the jobs that were not kept for a day."""
        self._last_ms = {key: at_ms for key, at_ms in self._last_ms.items() if now_ms - at_ms < _FORGOTTEN_MS}


def interval_of(wanted: float, context: JobAutoScalerContext) -> float:
    """Return the seconds between two kept passes of a job: no more than its samples reach back, or rates had gaps."""
    if wanted <= LEAST_INTERVAL:
        return wanted
    try:
        window = context.options.metrics_window.exact_seconds
    except ConfigError:
        return wanted  # the pass comes upon it, too, and tells
    return min(wanted, max(window, LEAST_INTERVAL))


class _Pass(NamedTuple):
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
        has_session: Tells whether a session is open that sees this machine's files: then it writes local paths, too.
        may_maintain: Tells whether this daemon compacts and removes what is old, now.
        tell: Takes events about that, from the thread of the history.
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
        has_session: Callable[[], bool] = lambda: False,
        may_maintain: Callable[[], bool] = lambda: True,
        tell: Tell = unheard_event,
        clock: Callable[[], float] = time.time,
        retry: float = RETRY_SECONDS,
    ) -> None:
        if settings.path is None:
            raise ConfigError("autoscaler.history.path is not set, but autoscaler.history.enabled is true")
        self._path = settings.path
        self._settings = settings
        self._sessions = sessions
        self._has_session = has_session
        self._may_maintain = may_maintain
        self._tell = tell
        self._clock = clock
        self._retry = retry
        self._buffer = Buffer(
            flush_seconds=settings.flush_interval, flush_rows=settings.flush_rows, spill=spill_folder(settings)
        )
        self._left_out = LeftOut()
        self._turns = Turns(settings.interval, self._left_out)
        self._passes: deque[_Pass] = deque()
        self._changed = threading.Condition()
        self._is_closing = False
        self._is_closed = False
        self._flushes_wanted = 0
        self._flushes_done = 0
        self._is_away = False
        self._status = HistoryStatus()
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
            while self._passes and self._is_too_much(len(outcomes)):
                self._passes.popleft()
                self._passes_lost += 1
                log.warning("history_pass_lost", waiting=len(self._passes))
            self._passes.append(_Pass(outcomes, contexts, now_ms))
            self._changed.notify_all()

    def _is_too_much(self, more: int) -> bool:
        """Tell whether a pass of so many jobs is too much beside those that wait."""
        return (
            len(self._passes) >= MOST_PASSES or sum(len(each.outcomes) for each in self._passes) + more > MOST_OUTCOMES
        )

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
        status, folder = self._status, spill_folder(self._settings)
        age = None if status.written_at is None else max(0.0, self._clock() - status.written_at)
        spilled = 0 if folder is None else size_of(folder)
        return replace(status, passes_lost=self._passes_lost, spilled_bytes=spilled, last_write_age_seconds=age)

    def close(self, timeout: float = 10.0) -> None:
        """Write what waits, for so many seconds at most, and end; the spill folder keeps what is not written."""
        self._is_closing = True
        is_written = self.flush(timeout)
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        self._thread.join(timeout)
        if not is_written:
            is_spilled = spill_folder(self._settings) is not None
            log.warning("history_not_flushed", rows=self._buffer.rows, is_spilled=is_spilled)

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
            if self._is_upkeep_due():
                self._upkeep_at = self._clock() + self._settings.compaction_interval
                self._attempt(self._maintain)

    def _is_upkeep_due(self) -> bool:
        interval = self._settings.compaction_interval
        left = self._upkeep_at - self._clock()
        # More than an interval is left where the clock was set back: what was due by it may be so in years.
        return interval > 0 and not self._is_away and not 0 < left <= interval

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
        found = attempted(partial(self._buffer.add, rows, now_ms))  # values may be of other types than the columns
        jobs = [list(of_job) for _, of_job in groupby(rows, key=lambda named: named[1]["job_key"])]
        error = found if isinstance(found, AutoscalerError) else None
        if error is not None and len(jobs) > 1:
            for of_job in jobs:
                self._take(of_job, now_ms)
            return
        for of_job in jobs:
            self._left_out.note("columns of", of_job[0][1]["job_key"], error)

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
        self._publish()
        # What Arrow keeps for the next time is more than it takes to ask for it again.
        pa.default_memory_pool().release_unused()

    def _write(self) -> None:
        self._buffer.close_batch()
        if self._buffer.rows == 0:
            return
        writer = self._writer()
        try:
            self._write_with(writer)
        except Exception as error:
            # A session that was lost meanwhile: what it wrote of a batch counts, and the rest of it is added.
            if writer is self._settings.writer or self._has_session():
                raise
            log.info("history_written_without_spark", reason=masked(str(error)) or type(error).__name__)
            self._write_with(self._settings.writer)

    def _write_with(self, writer: Writer) -> None:
        began = time.perf_counter()
        with opened(self._path, self._sessions, writer) as storage:
            for batch in self._buffer.batches():
                files = append(storage, batch, self._settings.partition)
                self._buffer.done()
                self._status = replace(
                    self._status,
                    rows_written=self._status.rows_written + batch.rows,
                    files_written=self._status.files_written + files,
                    written_at=self._clock(),
                    last_write_seconds=time.perf_counter() - began,
                    on_spark=needs_spark(self._path, writer),
                )
                log.debug("history_written", rows=batch.rows, files=files, on_spark=self._status.on_spark)

    def _writer(self) -> Writer:
        """Return who writes now: Spark wherever its session is there, except at the end, when time is short."""
        wanted = self._settings.writer
        is_free = wanted is Writer.AUTO and not self._is_closing
        return Writer.SPARK if is_free and self._has_session() else wanted

    def _publish(self) -> None:
        """Let others see what waits: the buffer belongs to this thread."""
        self._status = replace(
            self._status,
            up=not self._is_away,
            rows_lost=self._buffer.given_up,
            rows_waiting=self._buffer.rows,
            batches_waiting=self._buffer.waiting,
        )

    def _maintain(self) -> None:
        now_ms = round(self._clock() * 1000)
        self._turns.forget(now_ms)
        if not self._may_maintain():
            log.debug("history_left_to_the_leader")
            return
        began = time.perf_counter()
        try:
            with opened(self._path, self._sessions, self._writer()) as storage:
                done = keep_in_order(storage, Upkeep(now_ms, self._settings.retention or None))
        except Exception as error:
            self._status = replace(self._status, compaction_failures=self._status.compaction_failures + 1)
            self._tell(failed_event(error))
            raise
        if done is not None:
            seconds = time.perf_counter() - began
            self._status = replace(self._status, compacted_at=self._clock(), last_compaction_seconds=seconds)
            report(done, seconds, self._tell)


def spill_folder(settings: HistorySettings) -> Path | None:
    """Return where rows survive the end of the daemon until they are written; None for nowhere."""
    if settings.spill_directory is not None:
        return Path(settings.spill_directory).expanduser()
    return local_path(settings.path) / PENDING if settings.path is not None and is_local(settings.path) else None
