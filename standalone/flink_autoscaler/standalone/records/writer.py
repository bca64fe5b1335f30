"""Writes recorded passes, aside from the passes themselves."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Final

import structlog

from flink_autoscaler.core.cycle.recording import RecordStore, StoredRecord, should_record, signature
from flink_autoscaler.core.error_boundary import try_call
from flink_autoscaler.core.errors import AutoscalerError, StoreError
from flink_autoscaler.core.model.job import JobKey
from flink_autoscaler.core.ports.passes import LastRecord, PassOutcome, PassRequest
from flink_autoscaler.standalone.background import BackgroundWriter
from flink_autoscaler.standalone.records.codec import PassRecord, encode
from flink_autoscaler.stores.sql.database.failures import RowError

log = structlog.get_logger(__name__)

QUEUE_LIMIT: Final = 2000
"""Passes that wait to be written; while the store is away, the oldest of them are given up."""
BATCH: Final = 20
"""Records written at once: texts may be long."""

RETRY_INTERVAL: Final = 5.0
TELL_AFTER: Final = 60.0
_CLEANUP_INTERVAL: Final = 3600.0
_SLACK: Final = 10
"""Records are looked through for their size each time that this part of what they may take was written."""


class PassRecorder(BackgroundWriter[PassRecord]):
    """Keeps the passes that are worth it. Never raises: what cannot be written is given up and logged.

    Calls come from any thread; writing is done by a thread of its own.

    Args:
        store: Where records are kept; belongs to the caller.
        interval: Seconds after which a pass that came to nothing new is recorded again.
        retention: Seconds for which records are kept.
        max_size: Bytes that all records may take.
        clock: Epoch seconds.
        retry: Seconds until a store that took nothing is tried again.
        max_waiting: Passes that wait to be written.
        tell_after: Seconds for which nothing could be written before that is told.
    """

    def __init__(
        self,
        store: RecordStore,
        *,
        interval: float,
        retention: float,
        max_size: int = 512 << 20,
        clock: Callable[[], float] = time.time,
        retry: float = RETRY_INTERVAL,
        max_waiting: int = QUEUE_LIMIT,
        tell_after: float = TELL_AFTER,
    ) -> None:
        super().__init__("pass-recorder", limit=max_waiting, batch=BATCH, retry=retry, tell_after=tell_after)
        self._store = store
        self._interval_ms = round(interval * 1000)
        self._retention = retention
        self._max_size = max_size
        self._written = 0
        self._clock = clock
        self._last: dict[JobKey, LastRecord] = {}
        self._lost = 0
        self._clean_up_at = clock() + _CLEANUP_INTERVAL / 60
        self.start()

    def last_recorded(self, job_key: JobKey) -> LastRecord:
        """Return the last pass over a job that was recorded, for the request of the next one."""
        return self._last.get(job_key) or LastRecord(interval_ms=self._interval_ms)

    def put(self, request: PassRequest, outcome: PassOutcome) -> None:
        """Record a pass, if it is worth it; returns at once.

        Args:
            request: As it was given to the engine.
            outcome: As it was carried out.
        """
        if not should_record(request, outcome):
            return
        job_key = request.context.job_key
        self._last[job_key] = LastRecord(request.now_ms, signature(outcome), self._interval_ms)
        self._put(PassRecord(request, outcome))

    def forget(self, job_key: JobKey) -> None:
        """Free the memory that a job takes; its records stay until they are too old."""
        self._last.pop(job_key, None)

    def close(self, timeout: float = 5.0) -> None:
        """Write what waits, for so many seconds at most, and end."""
        self._close_within(timeout)

    def _on_dropped(self, _record: PassRecord) -> None:
        self._lost += 1

    def _report_outage(self, error: AutoscalerError | None) -> None:
        # Whoever watches the store says that it is away: this comes late, and seldom.
        if error is None:
            log.info("pass_recording_recovered")
        else:
            log.warning("passes_not_recorded", error=str(error), effect="explain and replay do not know these passes")

    def _write(self, batch: list[PassRecord]) -> None:
        records = [stored for record in batch if (stored := _encode_record(record)) is not None]
        self._add(records)
        self._written += sum(len(record.text) for record in records)
        if self._lost:
            log.warning("pass_records_lost", passes=self._lost)
            self._lost = 0

    def _add(self, records: Sequence[StoredRecord]) -> None:
        """Hand records to the store; one that it will never take does not keep the others from being written."""
        try:
            self._store.add(records)
        except RowError as error:
            if len(records) == 1:
                log.warning("pass_not_recorded", job_key=records[0].job_key, error=str(error))
                return
            for record in records:
                self._add([record])

    def _run_maintenance(self) -> None:
        now = self._clock()
        # More than the interval is left where the clock was set back: what was due by it may be so in years.
        is_early = 0 < self._clean_up_at - now <= _CLEANUP_INTERVAL
        if is_early and self._written * _SLACK < self._max_size:
            return
        self._clean_up_at, self._written = now + _CLEANUP_INTERVAL, 0
        try:
            removed = self._store.expire(round((now - self._retention) * 1000))
            # What is written until the next time has its place, too.
            removed += self._store.shrink(self._max_size - self._max_size // _SLACK)
        except StoreError as error:
            log.debug("pass_records_cleanup_failed", error=str(error))
        else:
            log.debug("pass_records_cleaned_up", records=removed)


def _encode_record(record: PassRecord) -> StoredRecord | None:
    """Write a pass as text; None where that cannot be done, which must not keep the others from being written."""
    outcome, request = record.outcome, record.request
    text = try_call(lambda: encode(record))  # a plug-in may have put anything into an outcome
    if isinstance(text, AutoscalerError):
        log.warning("pass_not_recorded", job_key=request.context.job_key, error=str(text))
        return None
    return StoredRecord(request.context.job_key, request.now_ms, outcome.phase.value, outcome.decision.kind, text)
