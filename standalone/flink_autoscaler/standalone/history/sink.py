"""Keeps the metric history of a running daemon, aside from its passes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import groupby
from typing import Final, NamedTuple

import structlog

from flink_autoscaler.core.border import Border, ToldOnce, attempted
from flink_autoscaler.core.errors import AutoscalerError, ConfigError
from flink_autoscaler.core.model.events import Event
from flink_autoscaler.core.model.job import JobKey
from flink_autoscaler.core.options.context import JobAutoScalerContext
from flink_autoscaler.core.ports.passes import PassOutcome
from flink_autoscaler.pipeline.history.rows import NamedRow, is_eventful, rows_of
from flink_autoscaler.pipeline.history.storage import Sessions
from flink_autoscaler.standalone.background import BackgroundWriter
from flink_autoscaler.standalone.history.status import HistoryStatus
from flink_autoscaler.standalone.history.writer import HistoryWriter
from flink_autoscaler.standalone.settings.schema.settings import HistorySettings
from flink_autoscaler.standalone.settings.secrets import masked

log = structlog.get_logger(__name__)

MOST_PASSES: Final = 200
"""Passes that wait to become rows; when the thread does not keep up, the oldest of them are given up."""

MOST_OUTCOMES: Final = 20_000
"""Jobs in the passes that wait, where these are more than one."""

RETRY_SECONDS: Final = 60.0
TOLERANCE: Final = 0.9
"""A pass counts as one interval later although it comes a little early: passes jitter."""

LEAST_INTERVAL: Final = 60.0
"""Seconds; rates may cover less than that where the metric window of a job does."""

_FORGOTTEN_MS: Final = 86_400_000


class Turns:
    """Remembers when each job was kept last. Belongs to one thread.

    Args:
        interval: Seconds between two kept passes of a job in which nothing happens.
        note: Takes a step, a job of which no rows can be made, and why not; None when they can.
    """

    def __init__(self, interval: float, note: Callable[[str, JobKey, AutoscalerError | None], None]) -> None:
        self._interval = interval
        self._note = note
        self._last_ms: dict[JobKey, int] = {}
        self._forgotten_ms = 0

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
            self._note("rows of", context.job_key, border.error)

    def forget(self, now_ms: int) -> None:
        """Forget the jobs that were not kept for a day; does nothing more often than that."""
        if abs(now_ms - self._forgotten_ms) >= _FORGOTTEN_MS:
            self._forgotten_ms = now_ms
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


class HistorySink(BackgroundWriter[_Pass]):
    """Takes what passes found out and appends it to the history.

    ``add`` returns at once and never raises. One thread makes rows of passes and spills them, another one writes them.
    Where the history cannot be written, or takes its time, rows wait within bounds, and the passes go on.

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
        super().__init__("history", limit=MOST_OUTCOMES)
        self._writer = HistoryWriter(
            settings,
            sessions=sessions,
            may_maintain=may_maintain,
            tell=tell,
            clock=clock,
            retry=retry,
        )
        self._told = ToldOnce()
        self._turns = Turns(settings.interval, self._note_left_out)
        self._passes_lost = 0
        if recovered := self._writer.buffer.recover():
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
        return super().flush(timeout) and self._writer.flush(max(0.0, until - time.monotonic()))

    def status(self) -> HistoryStatus:
        """Tell how it goes; from any thread."""
        return replace(self._writer.status(), passes_lost=self._passes_lost)

    def close(self, timeout: float = 10.0) -> None:
        """Write what waits, for so many seconds at most, and end; the spill folder keeps what is not written."""
        is_written = self._end(timeout)
        self._writer.close(timeout)
        if not is_written:
            log.warning("history_not_flushed", rows=self._writer.rows, is_spilled=self._writer.spill is not None)

    def _size(self, each: _Pass) -> int:
        """Return the jobs of a pass; a small one counts as its share of all passes that may wait."""
        return max(len(each.outcomes), MOST_OUTCOMES // MOST_PASSES)

    def _drop(self, _pass: _Pass) -> None:
        self._passes_lost += 1
        log.warning("history_pass_lost", lost=self._passes_lost)

    def _write(self, passes: list[_Pass]) -> None:
        for each in passes:
            self._turns.forget(each.now_ms)
            self._add_rows(list(self._turns.rows(each.outcomes, each.contexts, each.now_ms)), each.now_ms)

    def _add_rows(self, rows: Sequence[NamedRow], now_ms: int) -> None:
        """Add the rows of a pass; those of a job that do not fit the tables are left out."""
        # Values may be of other types than the columns.
        found = attempted(partial(self._writer.buffer.add, rows, now_ms))
        jobs = [list(of_job) for _, of_job in groupby(rows, key=lambda named: named[1]["job_key"])]
        error = found if isinstance(found, AutoscalerError) else None
        if error is not None and len(jobs) > 1:
            for of_job in jobs:
                self._add_rows(of_job, now_ms)
            return
        for of_job in jobs:
            self._note_left_out("columns of", of_job[0][1]["job_key"], error)

    def _note_left_out(self, step: str, job_key: JobKey, error: AutoscalerError | None) -> None:
        """Tell which jobs cannot be kept, each once for as long as it is for the same reason."""
        if self._told.is_news(f"{step} {job_key}", error) and error is not None:
            log.warning("history_pass_left_out", job_key=job_key, error=str(error))
