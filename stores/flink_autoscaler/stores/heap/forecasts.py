"""Load profiles in the memory of the process."""

from __future__ import annotations

import threading
from collections.abc import Collection, Iterable, Mapping

from flink_autoscaler.core.model.job import JobKey
from flink_autoscaler.core.model.metrics import VertexId
from flink_autoscaler.core.model.policy_values import ProfileResult
from flink_autoscaler.core.ports.forecast_store import revision_of


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
