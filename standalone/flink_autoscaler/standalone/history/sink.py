"""Keeps the metric history of a running daemon, aside from its passes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Final, NamedTuple

import pyarrow as pa
import structlog

from flink_autoscaler.core.error_boundary import ErrorBoundary, try_call
from flink_autoscaler.core.errors import AutoscalerError, ConfigError, StoreError
from flink_autoscaler.core.log_once import LogOnce
from flink_autoscaler.core.model.events import Event, EventType
from flink_autoscaler.core.model.job import JobKey
from flink_autoscaler.core.options.context import JobAutoScalerContext
from flink_autoscaler.core.ports.passes import PassOutcome
from flink_autoscaler.pipeline.tables.buffer import RowBuffer, SpilledBatch, spilled_bytes
from flink_autoscaler.pipeline.tables.compact import LockedError, MaintenanceTask, run_maintenance
from flink_autoscaler.pipeline.tables.files import MissingHistoryError, Sessions, is_local, local_path, open_files
from flink_autoscaler.pipeline.tables.rows import NamedRow, is_eventful, rows_of
from flink_autoscaler.pipeline.tables.store import PENDING, append
from flink_autoscaler.standalone.background import BackgroundWriter
from flink_autoscaler.standalone.settings.schema.settings import HistorySettings
from flink_autoscaler.standalone.settings.secrets import mask_secrets

log = structlog.get_logger(__name__)

MAX_PASSES: Final = 200
"""Passes that wait to become rows; when the thread does not keep up, the oldest of them are given up."""

MAX_OUTCOMES: Final = 20_000
"""Jobs in the passes that wait, where these are more than one."""

MAX_BATCHES: Final = 4
"""Batches of the greatest size that wait for a path that is away; then the oldest ones are given up."""

RETRY_SECONDS: Final = 60.0
TOLERANCE: Final = 0.9
"""A pass counts as one interval later although it comes a little early: passes jitter."""

MIN_INTERVAL: Final = 60.0
"""Seconds; rates may cover less than that where the metric window of a job does."""

_FORGOTTEN_MS: Final = 86_400_000
_IDLE_SECONDS: Final = 3600.0
_FIRST_UPKEEP: Final = 0.05
"""Of the interval: soon after the start, yet not in it."""


@dataclass(slots=True)
class HistoryStatus:
    """Counts of the history's thread since the start of the daemon, and its queue, as the series report them.

    Attributes:
        up: True before the first access to the path.
        rows_waiting: On their way to a batch or in one.
        last_write_age_seconds: At the instant of the status; None before the first write.
        last_write_seconds: With all batches that were due; None before the first.
        last_compaction_timestamp_seconds: When one ended well last, epoch seconds; None before the first.
        last_compaction_seconds: How long that took.
    """

    rows_written: int = 0
    files_written: int = 0
    rows_lost: int = 0
    passes_lost: int = 0
    failures: int = 0
    compaction_failures: int = 0
    up: bool = True
    rows_waiting: int = 0
    batches_waiting: int = 0
    spilled_bytes: int = 0
    last_write_age_seconds: float | None = None
    last_write_seconds: float | None = None
    last_compaction_timestamp_seconds: float | None = None
    last_compaction_seconds: float | None = None


class _Pass(NamedTuple):
    outcomes: Sequence[PassOutcome]
    contexts: Sequence[JobAutoScalerContext]
    now_ms: int


class HistorySink(BackgroundWriter[_Pass]):
    """Takes what passes found out and appends it to the history.

    ``add`` returns at once and never raises. One thread makes rows of passes and spills them, another one writes them:
    where the history cannot be written, or takes its time, rows wait within bounds, and the passes go on.

    Args:
        settings: With a path.
        sessions: Lends a Spark session, where one is needed.
        may_maintain: Tells whether this daemon compacts and removes what is old, now.
        tell: Takes events about that, from the thread that writes.
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
        may_maintain: Callable[[], bool] = lambda: True,
        tell: Callable[[Event], None] = lambda _: None,
        clock: Callable[[], float] = time.time,
        retry: float = RETRY_SECONDS,
    ) -> None:
        super().__init__("history", limit=MAX_OUTCOMES)
        self._interval = settings.interval
        self._writer = _HistoryWriter(settings, sessions, may_maintain, tell, clock, retry)
        self._buffer = self._writer.buffer
        self._last_ms: dict[JobKey, int] = {}
        self._log_once = LogOnce()
        self._passes_lost = 0
        if recovered := self._buffer.recover():
            log.info("history_rows_recovered", rows=recovered)
        self._writer.start()
        self.start()

    def add(self, outcomes: Sequence[PassOutcome], contexts: Sequence[JobAutoScalerContext], now_ms: int) -> None:
        """Take a pass; returns at once. From any thread.

        Args:
            outcomes: As they were carried out.
            contexts: The jobs, one per outcome, in the same order.
            now_ms: The instant of the pass, epoch milliseconds.
        """
        self._put(_Pass(outcomes, contexts, now_ms))

    def flush(self, timeout: float) -> bool:
        """Have everything written that was added before; tell whether it is within so many seconds."""
        until = time.monotonic() + timeout
        if not super().flush(timeout):
            return False
        self._buffer.close_batch()
        return self._writer.flush(max(0.0, until - time.monotonic()))

    def status(self) -> HistoryStatus:
        """Tell how it goes; from any thread."""
        return replace(self._writer.status(), passes_lost=self._passes_lost)

    def close(self, timeout: float = 10.0) -> None:
        """Write what waits, for so many seconds at most, and end; the spill folder keeps what is not written."""
        is_written = self._close_within(timeout)
        self._writer.close(timeout)
        if not is_written:
            log.warning("history_not_flushed", rows=self._writer.rows, is_spilled=self._writer.spill is not None)

    def _size(self, each: _Pass) -> int:
        """Return the jobs of a pass; a small one counts as its share of all passes that may wait."""
        return max(len(each.outcomes), MAX_OUTCOMES // MAX_PASSES)

    def _on_dropped(self, _pass: _Pass) -> None:
        self._passes_lost += 1
        log.warning("history_pass_lost", lost=self._passes_lost)

    def _write(self, passes: list[_Pass]) -> None:
        for each in passes:
            rows = dict(self._rows(each))
            error = self._add(list(chain.from_iterable(rows.values())), each.now_ms)
            for job_key, of_job in rows.items():
                # Together is quicker; where that fails, all but the job whose values fit no column are added.
                self._log_job_failure(job_key, None if error is None else self._add(of_job, each.now_ms))

    def _rows(self, each: _Pass) -> Iterator[tuple[JobKey, list[NamedRow]]]:
        """Yield the rows of the jobs whose turn it is; a job of which no rows can be made is left out."""
        self._last_ms = {key: at_ms for key, at_ms in self._last_ms.items() if each.now_ms - at_ms < _FORGOTTEN_MS}
        for outcome, context in zip(each.outcomes, each.contexts, strict=True):
            with ErrorBoundary() as boundary:  # a plug-in may have put anything into an outcome
                span_ms = round(1000 * sampling_interval(self._interval, context))
                last_ms = self._last_ms.get(context.job_key)
                is_soon = last_ms is not None and 0 <= each.now_ms - last_ms < span_ms * TOLERANCE
                if not is_soon or is_eventful(outcome, each.now_ms):
                    rows = list(rows_of(outcome, context, each.now_ms, span_ms=span_ms, mask=mask_secrets))
                    self._last_ms[context.job_key] = each.now_ms
                    yield context.job_key, rows
            if boundary.error is not None:
                self._log_job_failure(context.job_key, boundary.error)

    def _add(self, rows: Sequence[NamedRow], now_ms: int) -> AutoscalerError | None:
        added = try_call(partial(self._buffer.add, rows, now_ms))
        return added if isinstance(added, AutoscalerError) else None

    def _log_job_failure(self, job_key: JobKey, error: AutoscalerError | None) -> None:
        """Tell which jobs cannot be kept, each once for as long as it is for the same reason."""
        if self._log_once.is_news(job_key, error) and error is not None:
            log.warning("history_pass_skipped", job_key=job_key, error=str(error))


def sampling_interval(wanted: float, context: JobAutoScalerContext) -> float:
    """Return the seconds between two kept passes of a job: no more than its samples reach back, or rates had gaps."""
    if wanted <= MIN_INTERVAL:
        return wanted
    try:
        window = context.options.metrics_window.exact_seconds
    except ConfigError:
        return wanted  # the pass comes upon it, too, and tells
    return min(wanted, max(window, MIN_INTERVAL))


class _HistoryWriter(BackgroundWriter[SpilledBatch]):
    """Writes batches that are due, compacts, and removes what is old: all that may take as long as a file system does.

    Where the history cannot be written, batches wait in the buffer, and the log says so once. Arguments and errors are
    those of :class:`HistorySink`.
    """

    def __init__(
        self,
        settings: HistorySettings,
        sessions: Sessions | None,
        may_maintain: Callable[[], bool],
        tell: Callable[[Event], None],
        clock: Callable[[], float],
        retry: float,
    ) -> None:
        if settings.path is None:
            raise ConfigError("autoscaler.history.path is not set, but autoscaler.history.enabled is true")
        super().__init__("history-writer", limit=MAX_BATCHES * settings.flush_rows, batch=MAX_BATCHES + 1, retry=retry)
        self._path = settings.path
        self._settings = settings
        self._sessions = sessions
        self._may_maintain = may_maintain
        self._tell = tell
        self._clock = clock
        self.spill = spill_folder(settings)
        self.buffer = RowBuffer(
            flush_seconds=settings.flush_interval,
            flush_rows=settings.flush_rows,
            spill=self.spill,
            hand_over=self._put,
        )
        self._status = HistoryStatus()
        self._written_at: float | None = None
        self._upkeep_at = clock() + settings.compaction_interval * _FIRST_UPKEEP

    def close(self, timeout: float) -> None:
        """Write what waits, for so many seconds at most, and leave the rest in the spill folder to the next process."""
        self.buffer.close_batch()
        self._close_within(timeout)
        if not self._thread.is_alive():
            for _, spill in self._pending_items():
                if spill is not None:
                    spill.close()

    @property
    def rows(self) -> int:
        """Rows that are not written yet."""
        return self.buffer.rows + sum(map(self._size, self._pending_items()))

    def status(self) -> HistoryStatus:
        """Tell how it goes, apart from passes; from any thread."""
        return replace(
            self._status,
            up=self._failing_since is None,
            rows_waiting=self.rows,
            batches_waiting=len(self._pending_items()),
            spilled_bytes=0 if self.spill is None else spilled_bytes(self.spill),
            last_write_age_seconds=None if self._written_at is None else max(0.0, self._clock() - self._written_at),
        )

    def _size(self, item: SpilledBatch) -> int:
        return item[0].rows

    def _on_dropped(self, item: SpilledBatch) -> None:
        batch, spill = item
        if spill is not None:
            spill.remove()
        self._status.rows_lost += batch.rows
        log.warning("history_rows_lost", rows=batch.rows, lost=self._status.rows_lost)

    def _report_outage(self, error: AutoscalerError | None) -> None:
        if error is None:
            log.info("history_available", path=mask_secrets(self._path))
        else:
            log.warning(
                "history_unavailable", path=mask_secrets(self._path), error=mask_secrets(str(error)), rows=self.rows
            )

    def _seconds_to_maintenance(self) -> float | None:
        """Return the seconds until the history is compacted, at most 0 where that is due; None where it is not done."""
        interval = self._settings.compaction_interval
        if interval <= 0 or self._failing_since is not None:
            return None
        left = self._upkeep_at - self._clock()
        # More than an interval is left where the clock was set back: what was due by it may be so in years.
        return left if left <= interval else 0.0

    def _max_idle_seconds(self) -> float:
        """Return the seconds after which something may be due although nothing came."""
        left = self._seconds_to_maintenance()
        return min(_IDLE_SECONDS, self._settings.flush_interval, *([] if left is None else [max(0.0, left)]))

    def _run_maintenance(self) -> None:
        self.buffer.close_due(round(self._clock() * 1000))
        left = self._seconds_to_maintenance()
        if left is not None and left <= 0:
            self._upkeep_at = self._clock() + self._settings.compaction_interval
            with ErrorBoundary(StoreError) as boundary, self._count_failures():
                self._compact_and_expire()
            if boundary.error is not None:
                self._track_outage(boundary.error)

    @contextmanager
    def _count_failures(self) -> Iterator[None]:
        try:
            yield
        except Exception:  # opening a session raises whatever Spark does
            self._status.failures += 1
            raise
        finally:
            # What Arrow keeps for the next time is more than it takes to ask for it again.
            pa.default_memory_pool().release_unused()

    def _write(self, items: list[SpilledBatch]) -> None:
        began = time.perf_counter()
        with self._count_failures(), open_files(self._path, self._sessions) as files:
            while items:
                batch, spill = items[0]
                count = append(files, batch, self._settings.partition)
                items.pop(0)
                if spill is not None:
                    spill.remove()
                self._status.rows_written += batch.rows
                self._status.files_written += count
                self._status.last_write_seconds = time.perf_counter() - began
                self._written_at = self._clock()
                log.debug("history_written", rows=batch.rows, files=count)

    def _compact_and_expire(self) -> None:
        """Compact the history and remove what is too old, where this daemon leads and no other process does it."""
        if not self._may_maintain():
            log.debug("history_left_to_leader")
            return
        upkeep = MaintenanceTask(round(self._clock() * 1000), self._settings.retention or None)
        began = time.perf_counter()
        try:
            with open_files(self._path, self._sessions) as files:
                done = run_maintenance(files, upkeep)
        except MissingHistoryError:
            return  # nothing was written yet
        except LockedError as error:
            log.debug("history_locked", error=str(error))
            return
        except Exception as error:
            self._status.compaction_failures += 1
            text = mask_secrets(str(error)) or type(error).__name__
            self._tell(Event(EventType.WARNING, "HistoryCompactionFailed", text))
            raise
        seconds = self._status.last_compaction_seconds = time.perf_counter() - began
        self._status.last_compaction_timestamp_seconds = self._clock()
        if done.damaged:
            log.warning("history_files_damaged", files=len(done.damaged), problems=done.damaged[:3])
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


def spill_folder(settings: HistorySettings) -> Path | None:
    """Return where rows survive the end of the daemon until they are written; None for nowhere."""
    if settings.spill_directory is not None:
        return Path(settings.spill_directory).expanduser()
    return local_path(settings.path) / PENDING if settings.path is not None and is_local(settings.path) else None
