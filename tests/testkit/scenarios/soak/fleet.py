"""Clusters that ask for a token, and jobs on them that come, go, end, return, and have more or less to do."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Sequence

from testkit.fakes.flink import Canned, FakeFlink, FakeRequest, Fault, chain, flink_error
from testkit.fakes.flink.driving import drive, up_and_down

_ENDED_SECONDS = 3.0
"""For which a cluster still lists a job that has ended."""


class GuardedFlink(FakeFlink):
    """A fake cluster that answers whoever has its token, and has room for every rescale."""

    def __init__(self, token: str) -> None:
        super().__init__()
        self.token = token
        self.jobmanager_metrics = {"taskSlotsTotal": "100000", "taskSlotsAvailable": "90000"}
        self.rescales = 0

    def _respond(self, request: FakeRequest) -> tuple[Fault | Canned, Canned]:
        self.requests.clear()
        if request.headers.get("authorization") != f"Bearer {self.token}":
            refusal = flink_error(401, "the token has expired")
            return refusal, refusal
        self.rescales += request.method == "PUT"
        return super()._respond(request)


class Fleet:
    """The jobs of all clusters. As many as there were leave in the course of a run, and others take their place.

    Args:
        clusters: Where they run.
        jobs: At any time, on all clusters together.
        leaving: Jobs that leave per second.
        period: Seconds for which the load of a job is the same.
    """

    def __init__(self, clusters: Sequence[GuardedFlink], *, jobs: int, leaving: float, period: float) -> None:
        self._clusters = clusters
        self._leaving = leaving
        self._period = period
        self._names = itertools.count()
        self._ended: deque[tuple[float, GuardedFlink, str]] = deque()
        self._driven = 0.0
        self.gone = 0
        for number in range(jobs):
            self._add(clusters[number % len(clusters)], f"job-{next(self._names)}")

    def tick(self, elapsed: float) -> None:
        """Let everything happen that has happened so many seconds after the start."""
        while self.gone < self._leaving * elapsed:
            self._leave(elapsed)
        while self._ended and self._ended[0][0] <= elapsed:
            _, cluster, job_id = self._ended.popleft()
            cluster.jobs.pop(job_id, None)
        jobs = [job for cluster in self._clusters for job in list(cluster.jobs.values())]
        for number, job in enumerate(jobs):
            drive(job, up_and_down(elapsed + number * self._period / 3, self._period), elapsed - self._driven)
        self._driven = elapsed

    @property
    def rescales(self) -> int:
        """Requests for another parallelism so far."""
        return sum(cluster.rescales for cluster in self._clusters)

    def _add(self, cluster: GuardedFlink, name: str) -> None:
        cluster.add_job(name, chain(sources=1, vertices=3, parallelism=2), obeys=True).hide_age()

    def _leave(self, elapsed: float) -> None:
        """Have the oldest running job of a cluster vanish, end, or be submitted again."""
        cluster = self._clusters[self.gone % len(self._clusters)]
        oldest = next(job for job in list(cluster.jobs.values()) if job.state == "RUNNING")
        way = self.gone // len(self._clusters) % 3
        self.gone += 1
        if way == 0:
            oldest.state = "FAILED" if self.gone % 2 else "FINISHED"
            self._ended.append((elapsed + _ENDED_SECONDS, cluster, oldest.job_id))
        else:
            del cluster.jobs[oldest.job_id]
        self._add(cluster, oldest.name if way == 1 else f"job-{next(self._names)}")
