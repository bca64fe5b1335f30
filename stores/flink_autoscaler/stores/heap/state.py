"""A state store in the memory of the process."""

from __future__ import annotations

from flink_autoscaler.core.model.job import JobKey
from flink_autoscaler.core.model.state import EMPTY_STATE, JobState


class HeapStateStore:
    """Remembers job states until the process ends.

    States are immutable, so they are kept and handed out as they are: whoever builds a :class:`JobState` from a
    dictionary does not change that dictionary afterwards. Each method is one operation on a dictionary, which
    threads see as done or not done; no lock is needed.
    """

    def __init__(self) -> None:
        self._states: dict[JobKey, JobState] = {}

    def load(self, job_key: JobKey) -> JobState:
        """Return what was saved last, or an empty state."""
        return self._states.get(job_key, EMPTY_STATE)

    def save(self, job_key: JobKey, state: JobState) -> None:
        """Replace the state of one job."""
        self._states[job_key] = state

    def delete(self, job_key: JobKey) -> None:
        """Forget one job. Deleting an unknown job does nothing."""
        self._states.pop(job_key, None)

    def job_keys(self) -> frozenset[JobKey]:
        """Return the keys of all jobs with a state."""
        return frozenset(self._states.copy())

    def close(self) -> None:
        """Release nothing: what was saved stays until the process ends."""
