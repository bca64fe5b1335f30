"""States, orders, load profiles and marks of gone jobs in the memory of the process, until that ends."""

from __future__ import annotations

import threading
import time
from bisect import insort
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import accumulate

from flink_autoscaler.core.cycle.recording import StoredRecord
from flink_autoscaler.core.model.job import JobKey, cluster_of
from flink_autoscaler.core.model.load_profile import ProfileResult
from flink_autoscaler.core.model.metrics import VertexId
from flink_autoscaler.core.model.orders import NO_ORDERS, Orders
from flink_autoscaler.core.model.state import EMPTY_STATE, JobState
from flink_autoscaler.core.ports.forecast_store import revision_of
from flink_autoscaler.core.ports.order_store import Command, CommandResult
from flink_autoscaler.core.rescale.operator_commands import without_expired


class HeapStateStore:
    """Remembers job states until the process ends.

    States are immutable, so they are kept and handed out as they are: whoever builds a :class:`JobState` from a
    dictionary does not change that dictionary afterwards. What is kept of jobs that are gone is bounded: those that
    went last stay whole, those before lose their metric window, and of still older ones nothing is kept. Thread-safe.

    Args:
        most_whole: Gone jobs that are kept with their metric window.
        most_gone: Gone jobs that are kept at all.
    """

    def __init__(self, *, most_whole: int = 100, most_gone: int = 2000) -> None:
        self._most_whole = most_whole
        self._most_gone = most_gone
        self._lock = threading.Lock()
        self._states: dict[JobKey, JobState] = {}
        self._whole: OrderedDict[JobKey, None] = OrderedDict()
        self._bare: OrderedDict[JobKey, None] = OrderedDict()

    def load(self, job_key: JobKey) -> JobState:
        """Return what was saved last, or an empty state."""
        with self._lock:
            self._mark_active(job_key)
            return self._states.get(job_key, EMPTY_STATE)

    def save(self, job_key: JobKey, state: JobState) -> None:
        """Replace the state of one job."""
        with self._lock:
            self._mark_active(job_key)
            self._states[job_key] = state

    def save_all(self, states: Mapping[JobKey, JobState]) -> frozenset[JobKey]:
        """Replace the states of many jobs."""
        with self._lock:
            for job_key in states:
                self._mark_active(job_key)
            self._states |= states
        return frozenset(states)

    def delete(self, job_key: JobKey) -> None:
        """Forget one job. Deleting an unknown job does nothing."""
        with self._lock:
            self._mark_active(job_key)
            self._states.pop(job_key, None)

    def release(self, job_key: JobKey) -> None:
        """Count a job among those that are gone, until it is loaded or saved again."""
        with self._lock:
            if job_key not in self._states:
                return
            self._mark_active(job_key)
            self._whole[job_key] = None
            if len(self._whole) > self._most_whole:
                oldest, _ = self._whole.popitem(last=False)
                self._states[oldest] = replace(self._states[oldest], samples=())
                self._bare[oldest] = None
            if len(self._whole) + len(self._bare) > self._most_gone:
                forgotten, _ = (self._bare or self._whole).popitem(last=False)
                del self._states[forgotten]

    def _mark_active(self, job_key: JobKey) -> None:
        """Count a job no longer among those that are gone."""
        self._whole.pop(job_key, None)
        self._bare.pop(job_key, None)

    def job_keys(self) -> frozenset[JobKey]:
        """Return the keys of all jobs with a state."""
        return frozenset(self._states.copy())

    def close(self) -> None:
        """Release nothing: what was saved stays until the process ends."""


class HeapOrderStore:
    """Keeps orders until the process ends (``OrderStore``), for programs that give them in the process itself.

    Args:
        now_ms: Epoch milliseconds.
    """

    def __init__(self, *, now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000) -> None:
        self._now_ms = now_ms
        self._lock = threading.Lock()
        self._orders: dict[JobKey, Orders] = {}

    def orders(self, cluster: str) -> Mapping[JobKey, Orders]:
        """Return the orders for jobs of a cluster, and for those whose keys do not name one."""
        with self._lock:
            return {key: orders for key, orders in self._orders.items() if cluster_of(key) in ("", cluster)}

    def change(self, job_key: JobKey, command: Command) -> CommandResult:
        """Apply a command to the orders of one job."""
        with self._lock:
            ordered = command(self._orders.get(job_key, NO_ORDERS), self._now_ms())
            self._replace(job_key, ordered.orders)
        return ordered

    def tidy(self, cluster: str, now_ms: int) -> None:
        """Remove what is over from the orders for jobs of a cluster."""
        for job_key in self.orders(cluster):
            with self._lock:
                self._replace(job_key, without_expired(self._orders.get(job_key, NO_ORDERS), now_ms))

    def forget(self, job_keys: Collection[JobKey]) -> None:
        """Delete the orders for some jobs."""
        with self._lock:
            for job_key in job_keys:
                self._orders.pop(job_key, None)

    def _replace(self, job_key: JobKey, orders: Orders) -> None:
        if orders == NO_ORDERS:
            self._orders.pop(job_key, None)
        else:
            self._orders[job_key] = orders


class HeapRecordStore:
    """Keeps the newest records of every job until the process ends (``RecordStore``).

    Args:
        most_bytes: Characters of all records of one job; the newest one is kept whatever it takes.
    """

    def __init__(self, most_bytes: int = 50_000) -> None:
        self._most_bytes = most_bytes
        self._lock = threading.Lock()
        self._records: dict[JobKey, list[StoredRecord]] = {}

    def add(self, records: Sequence[StoredRecord]) -> None:
        """Keep records, and forget the oldest ones of jobs that have too many by now."""
        with self._lock:
            for record in records:
                kept = self._records.setdefault(record.job_key, [])
                insort(kept, record, key=_instant)
                while len(kept) > 1 and sum(len(each.text) for each in kept) > self._most_bytes:
                    del kept[0]

    def latest(self, job_key: JobKey, at_ms: int | None = None) -> StoredRecord | None:
        """Return the newest record of a job, of those at or before an instant where one is given."""
        with self._lock:
            found = [each for each in self._records.get(job_key, ()) if at_ms is None or each.at_ms <= at_ms]
        return found[-1] if found else None

    def list_newest(self, job_key: JobKey, before_ms: int | None, limit: int) -> Sequence[tuple[int, str, str]]:
        """Return instant, phase and decision of the newest records of a job before an instant, the newest first."""
        with self._lock:
            found = [each for each in self._records.get(job_key, ()) if before_ms is None or each.at_ms < before_ms]
        return [(each.at_ms, each.phase, each.decision) for each in reversed(found)][:limit]

    def job_keys(self) -> frozenset[JobKey]:
        """Return the keys of all jobs that have a record."""
        with self._lock:
            return frozenset(self._records)

    def expire(self, before_ms: int) -> int:
        """Forget the records of passes before an instant; return how many there were."""
        with self._lock:
            before = sum(map(len, self._records.values()))
            left = {key: [each for each in kept if each.at_ms >= before_ms] for key, kept in self._records.items()}
            self._records = {key: kept for key, kept in left.items() if kept}
            return before - sum(map(len, self._records.values()))

    def shrink(self, most_bytes: int) -> int:
        """Forget the oldest records, of whatever job, until the others take no more; return how many there were."""
        with self._lock:
            newest = sorted((each for kept in self._records.values() for each in kept), key=_instant, reverse=True)
        sizes = accumulate(len(each.text) for each in newest)
        last = next((each.at_ms for each, size in zip(newest, sizes, strict=True) if size > most_bytes), None)
        return 0 if last is None else self.expire(last + 1)


def _instant(record: StoredRecord) -> int:
    return record.at_ms


class HeapForecastStore:
    """Keeps the newest result of every source until the process ends (``ForecastStore``)."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._jobs: dict[JobKey, dict[VertexId, ProfileResult]] = {}

    def save(self, results: Iterable[ProfileResult]) -> None:
        """Replace what is kept about the sources of the results."""
        for result in results:  # outside the lock: the results may still have to be computed
            with self._lock:
                self._jobs.setdefault(result.job_key, {})[result.source_id] = result

    def load(self, job_key: JobKey) -> Mapping[VertexId, ProfileResult]:
        """Return the results of a job by source."""
        with self._lock:
            return dict(self._jobs.get(job_key, {}))

    def revisions(self) -> Mapping[JobKey, str]:
        """Return the revision of every job that has results."""
        with self._lock:
            jobs = {job_key: dict(kept) for job_key, kept in self._jobs.items()}
        return {
            job_key: revision_of({source: each.revision for source, each in kept.items()})
            for job_key, kept in jobs.items()
        }

    def forget(self, job_keys: Collection[JobKey]) -> None:
        """Delete the results of some jobs."""
        with self._lock:
            for job_key in job_keys:
                self._jobs.pop(job_key, None)


class HeapTombstones:
    """Marks gone jobs until the process ends (``JobTombstones``), for stores that have nothing of the kind.

    Args:
        clock: Seconds of a clock that never goes back.
    """

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._gone_at: dict[tuple[str, JobKey], float] = {}

    def marked_jobs(self, cluster: str) -> frozenset[JobKey]:
        """Return the jobs of a cluster that are marked as gone."""
        return self.due_jobs(cluster, 0.0)

    def mark(self, cluster: str, job_keys: Collection[JobKey]) -> None:
        """Mark jobs as gone from now on. Those that are marked already keep their time."""
        for job_key in job_keys:
            self._gone_at.setdefault((cluster, job_key), self._clock())

    def clear(self, cluster: str, job_keys: Collection[JobKey]) -> None:
        """Remove the marks of jobs."""
        for job_key in job_keys:
            self._gone_at.pop((cluster, job_key), None)

    def due_jobs(self, cluster: str, seconds: float) -> frozenset[JobKey]:
        """Return the jobs of a cluster that were marked at least so long ago."""
        latest = self._clock() - seconds
        gone_at = self._gone_at.copy().items()
        return frozenset(job_key for (place, job_key), at in gone_at if place == cluster and at <= latest)

    def unseen_jobs(self, cluster: str, present: Collection[JobKey], seconds: float) -> frozenset[JobKey]:
        """Return nothing: what this process has not seen, it does not know."""
        del cluster, present, seconds
        return frozenset()
