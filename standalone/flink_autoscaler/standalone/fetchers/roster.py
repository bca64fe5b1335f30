"""Which jobs a cluster has, which of them are still under way, and which are gone."""

from __future__ import annotations

from concurrent.futures import Future

from flink_autoscaler.core.model.job import JobAutoScalerContext, JobKey
from flink_autoscaler.core.ports.deployment import JobList


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
