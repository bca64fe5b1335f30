"""Jobs that have left a cluster, and their state: it is kept for a while, then deleted."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from concurrent.futures import Future
from typing import Final

from flink_autoscaler.core.autoscaler import JobAutoScaler
from flink_autoscaler.core.errors import StoreError
from flink_autoscaler.core.model.job import JobKey
from flink_autoscaler.core.options.context import JobAutoScalerContext
from flink_autoscaler.core.ports.deployment import JobList, JobTombstones

SWEEP_INTERVAL: Final = 3600.0
FIRST_SWEEP: Final = 60.0
_LONGEST_CHECK: Final = 60.0
_CHECKS: Final = 60
"""Marks are looked at so often within the grace period, at least every minute."""


class Roster:
    """The jobs of one cluster from pass to pass. Belongs to the thread of the pass.

    Every job that leaves the list is given out for clean-up exactly once, and never while work on it is under way.
    A job that returns before that is not cleaned up.
    """

    def __init__(self) -> None:
        self._present: dict[JobKey, JobAutoScalerContext] = {}
        self._gone: dict[JobKey, JobAutoScalerContext] = {}
        self._under_way: dict[JobKey, Future[object]] = {}

    def update(self, job_list: JobList) -> tuple[JobAutoScalerContext, ...]:
        """Take the jobs of this pass and return those to clean up now; none while the list has gaps."""
        listed = {context.job_key: context for context in job_list.jobs}
        if job_list.problems:
            self._present |= listed
            self._gone = {key: context for key, context in self._gone.items() if key not in job_list.present}
            return ()
        # An unreadable job is there; what was known about it stays, for the day it is gone.
        kept = {key: self._present[key] for key in job_list.present - listed.keys() if key in self._present}
        present = {**kept, **listed}
        gone = {key: context for key, context in {**self._gone, **self._present}.items() if key not in present}
        due = {key: context for key, context in gone.items() if not self.is_under_way(key)}
        self._present = present
        self._gone = {key: context for key, context in gone.items() if key not in due}
        return tuple(due.values())

    def job_keys(self) -> frozenset[JobKey]:
        """Return every job that is known: present, or gone and not given out yet."""
        return frozenset(self._present | self._gone)

    def begin(self, job_key: JobKey, work: Future[object]) -> None:
        """Remember work on a job; it counts as under way until the future is done."""
        self._under_way[job_key] = work

    def is_idle(self) -> bool:
        """Tell whether no work is under way at all. From any thread."""
        return all(work.done() for work in self._under_way.copy().values())

    def is_under_way(self, job_key: JobKey) -> bool:
        """Tell whether work on a job that an earlier pass began has not ended yet."""
        work = self._under_way.get(job_key)
        if work is not None and work.done():
            del self._under_way[job_key]
            return False
        return work is not None


class VanishedJobs:
    """Marks the gone jobs of one cluster and deletes their state when its time has come.

    Belongs to the thread of the cluster's passes. Nothing is forgotten when the store fails: the next pass goes on.

    Args:
        cluster: Its name.
        autoscaler: Deletes states.
        tombstones: Keeps the marks.
        grace: Seconds from when a job was seen to be gone until its state is deleted. 0 deletes at once.
        retention: The same since it was last seen, for a job that went while nobody looked. 0 never deletes.
        forget_orders: Deletes the orders for jobs.
        is_ready: Tells whether the store answers; else everything is put off to a later pass.
        clock: Seconds of a clock that never goes back.
    """

    def __init__(
        self,
        cluster: str,
        *,
        autoscaler: JobAutoScaler,
        tombstones: JobTombstones,
        grace: float = 0.0,
        retention: float = 0.0,
        forget_orders: Callable[[Collection[JobKey]], None] = lambda _: None,
        is_ready: Callable[[], bool] = lambda: True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._cluster = cluster
        self._autoscaler = autoscaler
        self._tombstones = tombstones
        self._grace = grace
        self._retention = retention
        self._forget_orders = forget_orders
        self._is_ready = is_ready
        self._clock = clock
        self._to_mark: set[JobKey] = set()
        self._marked: frozenset[JobKey] | None = None
        self._next_check = 0.0
        self._next_sweep = clock() + FIRST_SWEEP

    def hand_over(self) -> None:
        """Read the marks again in the next pass: another daemon may have changed them since."""
        self._marked = None

    def update(
        self, present: Collection[JobKey], gone: Collection[JobKey], *, is_complete: bool = True
    ) -> tuple[JobKey, ...]:
        """Take the jobs of a pass.

        Args:
            present: Jobs that the cluster has, readable or not.
            gone: Jobs that have left it since the last pass.
            is_complete: Whether ``present`` are all jobs; else nothing is deleted.

        Returns:
            Jobs whose state was deleted.

        Raises:
            StoreError: The database failed; what is left to do is done in later passes.
        """
        self._to_mark.update(gone)
        self._to_mark.difference_update(present)
        if not self._is_ready():
            return ()
        if self._marked is None:
            self._marked = self._tombstones.marked(self._cluster)
        self._clear(self._marked.intersection(present))
        if self._to_mark:
            self._tombstones.mark(self._cluster, self._to_mark)
            self._to_mark.clear()
            self._marked = self._tombstones.marked(self._cluster)
            self._next_check = min(self._next_check, self._clock() + self._grace)
        if not is_complete:
            return ()
        return (*self._delete_due(present), *self._sweep(present))

    def _delete_due(self, present: Collection[JobKey]) -> tuple[JobKey, ...]:
        if not self._marked or self._clock() < self._next_check:
            return ()
        deleted = self._delete(self._tombstones.due(self._cluster, self._grace).difference(present))
        self._next_check = self._clock() + min(_LONGEST_CHECK, self._grace / _CHECKS)
        return deleted

    def _sweep(self, present: Collection[JobKey]) -> tuple[JobKey, ...]:
        """Delete what is left of jobs that went while no daemon ran."""
        if not self._retention or self._clock() < self._next_sweep:
            return ()
        deleted = self._delete(self._tombstones.unseen(self._cluster, present, self._retention))
        self._next_sweep = self._clock() + min(SWEEP_INTERVAL, self._retention)
        return deleted

    def _delete(self, job_keys: Collection[JobKey]) -> tuple[JobKey, ...]:
        # First: an order that is carried out once must not outlive the note that it was.
        self._forget_orders(job_keys)
        for job_key in job_keys:
            for error in self._autoscaler.delete(job_key):
                # A mark stays until the state is surely deleted.
                raise StoreError(f"the state of {job_key} could not be deleted: {error}") from error
        self._clear(job_keys)
        return tuple(sorted(job_keys))

    def _clear(self, job_keys: Collection[JobKey]) -> None:
        if job_keys:
            self._tombstones.clear(self._cluster, job_keys)
            self._marked = (self._marked or frozenset()).difference(job_keys)
