"""Recorded passes in the memory of the process."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from typing import Final

from flink_autoscaler.core.cycle.recording import StoredRecord
from flink_autoscaler.core.model.job import JobKey

MOST_BYTES: Final = 32 << 20
"""Of all records together; a record is about its text."""


class HeapRecordStore:
    """Keeps the newest records of every job until the process ends (``RecordStore``).

    Args:
        most_per_job: Records of one job.
        most_bytes: Characters of all texts together; beyond that the oldest records of all jobs go.
    """

    def __init__(self, *, most_per_job: int = 20, most_bytes: int = MOST_BYTES) -> None:
        self._most_per_job = most_per_job
        self._most_bytes = most_bytes
        self._jobs: dict[JobKey, deque[StoredRecord]] = {}
        self._bytes = 0
        self._lock = threading.Lock()

    def add(self, records: Sequence[StoredRecord]) -> None:
        """Keep records, and forget the oldest ones."""
        with self._lock:
            for record in records:
                kept = self._jobs.setdefault(record.job_key, deque())
                kept.append(record)
                self._bytes += len(record.text)
                if len(kept) > self._most_per_job:
                    self._forget_oldest(record.job_key)
            while self._bytes > self._most_bytes and self._jobs:
                self._forget_oldest(min(self._jobs, key=lambda job_key: self._jobs[job_key][0].at_ms))

    def latest(self, job_key: JobKey, at_ms: int | None = None) -> StoredRecord | None:
        """Return the newest record of a job, of those at or before an instant where one is given."""
        with self._lock:
            found = [each for each in self._jobs.get(job_key, ()) if at_ms is None or each.at_ms <= at_ms]
        return max(reversed(found), key=lambda record: record.at_ms, default=None)

    def job_keys(self) -> frozenset[JobKey]:
        """Return the keys of all jobs that have a record."""
        with self._lock:
            return frozenset(self._jobs)

    def expire(self, before_ms: int) -> int:
        """Forget the records of passes before an instant; return how many there were."""
        with self._lock:
            forgotten = 0
            for job_key in list(self._jobs):
                while job_key in self._jobs and self._jobs[job_key][0].at_ms < before_ms:
                    self._forget_oldest(job_key)
                    forgotten += 1
            return forgotten

    def _forget_oldest(self, job_key: JobKey) -> None:
        kept = self._jobs[job_key]
        self._bytes -= len(kept.popleft().text)
        if not kept:
            del self._jobs[job_key]
