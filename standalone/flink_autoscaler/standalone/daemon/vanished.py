"""What happens to the state of jobs that are gone: it is kept for a while, then deleted."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Final

from flink_autoscaler.core.autoscaler import JobAutoScaler
from flink_autoscaler.core.errors import StoreError
from flink_autoscaler.core.model.job import JobKey
from flink_autoscaler.core.ports.deployment import JobTombstones

SWEEP_INTERVAL: Final = 3600.0
FIRST_SWEEP: Final = 60.0
_LONGEST_CHECK: Final = 60.0
_CHECKS: Final = 60
"""Marks are looked at so often within the grace period, at least every minute."""


@dataclass(frozen=True, slots=True)
class Patience:
    """How long the state of a job outlives it.

    Attributes:
        grace: Seconds from when a job was seen to be gone. 0 deletes at once.
        retention: Seconds since a job was last seen, for one that went while nobody looked. 0 never deletes.
    """

    grace: float = 0.0
    retention: float = 0.0


class VanishedJobs:
    """Marks the gone jobs of one cluster and deletes their state when its time has come.

    Belongs to the thread of the cluster's passes. Nothing is forgotten when the store fails: the next pass goes on.

    Args:
        cluster: Name of the cluster.
        autoscaler: Deletes states.
        tombstones: Keeps the marks.
        patience: When a state is deleted.
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
        patience: Patience,
        forget_orders: Callable[[Collection[JobKey]], None] = lambda _: None,
        is_ready: Callable[[], bool] = lambda: True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._cluster = cluster
        self._autoscaler = autoscaler
        self._tombstones = tombstones
        self._patience = patience
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
            self._next_check = min(self._next_check, self._clock() + self._patience.grace)
        if not is_complete:
            return ()
        return (*self._delete_due(present), *self._sweep(present))

    def _delete_due(self, present: Collection[JobKey]) -> tuple[JobKey, ...]:
        if not self._marked or self._clock() < self._next_check:
            return ()
        deleted = self._delete(self._tombstones.due(self._cluster, self._patience.grace).difference(present))
        self._next_check = self._clock() + min(_LONGEST_CHECK, self._patience.grace / _CHECKS)
        return deleted

    def _sweep(self, present: Collection[JobKey]) -> tuple[JobKey, ...]:
        """Delete what is left of jobs that went while no daemon ran."""
        if not self._patience.retention or self._clock() < self._next_sweep:
            return ()
        deleted = self._delete(self._tombstones.unseen(self._cluster, present, self._patience.retention))
        self._next_sweep = self._clock() + min(SWEEP_INTERVAL, self._patience.retention)
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
