"""Where profiles are kept between the nightly job that makes them and the daemon that uses them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Protocol

from flink_autoscaler.core.model.job import JobKey
from flink_autoscaler.core.model.load_profile import ProfileResult
from flink_autoscaler.core.model.metrics import VertexId


def revision_of(sources: Mapping[VertexId, str]) -> str:
    """Return the revision of a job: it changes with that of any source, and with the sources."""
    return " ".join(f"{source}={sources[source]}" for source in sorted(sources))


class ForecastStore(Protocol):
    """Keeps the newest result for every source of every job. Calls may come from any thread.

    Implementations raise :class:`StoreError` and nothing else.
    """

    def save(self, results: Iterable[ProfileResult]) -> None:
        """Replace what is kept about the sources of the results; a result is replaced as a whole or not at all.

        A result without a profile removes the earlier profile. Called once a night, with the results of all jobs.
        """
        ...

    def load(self, job_key: JobKey) -> Mapping[VertexId, ProfileResult]:
        """Return the results of a job by source; empty when there are none.

        A profile that is damaged, or of another version, is a problem of its source and no error. Called when
        :meth:`revisions` says so.
        """
        ...

    def revisions(self) -> Mapping[JobKey, str]:
        """Return the revision (:func:`revision_of`) of every job that has results. Called every few minutes."""
        ...

    def forget(self, job_keys: Collection[JobKey]) -> None:
        """Delete the results of some jobs; unknown ones do no harm."""
        ...
