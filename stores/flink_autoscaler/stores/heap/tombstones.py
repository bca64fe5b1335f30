"""Which jobs are gone, in the memory of the process."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection

from flink_autoscaler.core.model.job import JobKey


class HeapTombstones:
    """Marks gone jobs until the process ends (``JobTombstones``), for stores that have nothing of the kind.

    Args:
        clock: Seconds of a clock that never goes back.
    """

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._gone_at: dict[tuple[str, JobKey], float] = {}

    def marked(self, cluster: str) -> frozenset[JobKey]:
        """Return the jobs of a cluster that are marked as gone."""
        return self.due(cluster, 0.0)

    def mark(self, cluster: str, job_keys: Collection[JobKey]) -> None:
        """Mark jobs as gone from now on. Those that are marked already keep their time."""
        for job_key in job_keys:
            self._gone_at.setdefault((cluster, job_key), self._clock())

    def clear(self, cluster: str, job_keys: Collection[JobKey]) -> None:
        """Remove the marks of jobs."""
        for job_key in job_keys:
            self._gone_at.pop((cluster, job_key), None)

    def due(self, cluster: str, seconds: float) -> frozenset[JobKey]:
        """Return the jobs of a cluster that were marked at least so long ago."""
        latest = self._clock() - seconds
        gone_at = self._gone_at.copy().items()
        return frozenset(job_key for (place, job_key), at in gone_at if place == cluster and at <= latest)

    def unseen(self, cluster: str, present: Collection[JobKey], seconds: float) -> frozenset[JobKey]:
        """Return nothing: what this process has not seen, it does not know."""
        del cluster, present, seconds
        return frozenset()
