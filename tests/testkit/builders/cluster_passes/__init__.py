"""Passes of a daemon over one fake cluster by a clock of the test, and plug-ins known by their entry points."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import pytest

from flink_autoscaler.clients.flink.pass_plugins import installed_plugins
from flink_autoscaler.core.model.decision import Hold, PassPhase
from flink_autoscaler.core.model.job import Endpoint, JobKey, JobStatus
from flink_autoscaler.core.model.state import JobState
from flink_autoscaler.core.options.context import JobAutoScalerContext
from flink_autoscaler.core.ports.deployment import JobList
from flink_autoscaler.core.ports.passes import PassOutcome, PassRequest
from flink_autoscaler.standalone.daemon.pass_report import PassReport
from flink_autoscaler.stores import HeapStateStore
from testkit.builders.core.ports import RecordingEvents
from testkit.fakes.flink import FakeFlink, FakeJob, chain
from testkit.fakes.flink.load import stand_at
from testkit.scenarios.runner.wired import passes_over

INITIAL: Final = 10**9
"""Records that a job has read before the first pass."""


class SteppedPasses:
    """Passes, some seconds apart, over jobs of a source and a vertex with two subtasks each, which read 200 records/s.

    Args:
        flink: The cluster.
        options: Of the daemon.
        parts: Where what is opened is to be closed.
        step: Seconds from one pass to the next.

    Attributes:
        number: Passes so far.
        told: Events and reports.
    """

    def __init__(self, flink: FakeFlink, options: Mapping[str, str], parts: ExitStack, *, step: int = 10) -> None:
        self.flink, self.store, self.told, self.number = flink, HeapStateStore(), RecordingEvents(), 0
        self._step = step
        interval = {"autoscaler.standalone.control-loop.interval": f"{step} s"}
        self._passes = passes_over(
            flink.url,
            {**interval, **options},
            parts,
            store=self.store,
            told=self.told,
            now_ms=lambda: 1000 * step * self.number,
        )

    def add(self, name: str = "orders") -> FakeJob:
        """Serve a job."""
        return self.flink.add_job(name, chain(sources=1, vertices=2, parallelism=2), start_ms=1, running_at_ms=1)

    def run(self, count: int, change: Callable[[FakeJob], object] = lambda _: None) -> list[PassReport]:
        """Do passes over jobs that are half busy, and have in each what a change makes of them."""
        reports = []
        for _ in range(count):
            self.number += 1
            for job in self.flink.jobs.values():
                self.work(job)
                change(job)
            reports.append(self._passes.run())
            assert reports[-1].error is None
        return reports

    def work(self, job: FakeJob, *, busy: float = 500.0, lag: float = 0.0) -> None:
        """Let a job have worked until now, so many milliseconds of every second."""
        source, work = job.vertices
        stand_at(job, INITIAL + 200 * self._step * self.number, lag=lag)
        source.busy_ms = work.busy_ms = 2 * busy * self._step * self.number
        for vertex in job.vertices:
            vertex.metrics["busyTimeMsPerSecond"] = busy
        work.metrics["numRecordsInPerSecond"] = 100.0
        work.counters.clear()

    @property
    def rescales(self) -> int:
        """Requests for another parallelism so far."""
        return len(self.flink.paths("PUT"))

    def state(self, name: str = "orders") -> JobState:
        """Return what is remembered about a job."""
        return self.store.load(f"main/{name}")


def a_listed_job(job_key: JobKey, status: JobStatus = JobStatus.RUNNING, **labels: str) -> JobAutoScalerContext:
    """Return a job of a cluster that nobody asks."""
    cluster, _, name = job_key.rpartition("/")
    endpoint = Endpoint("http://127.0.0.1:1")
    return JobAutoScalerContext(job_key, "cd" * 16, status, {}, endpoint, name, cluster, labels=labels)


class ScriptedFetcher:
    """Gives one list per pass, or raises what is there instead; the last one again and again."""

    def __init__(self, *lists: JobList | Exception) -> None:
        self.lists = list(lists)

    def fetch(self) -> JobList:
        """Return the next list."""
        current = self.lists.pop(0) if len(self.lists) > 1 else self.lists[0]
        if isinstance(current, Exception):
            raise current
        return current

    def close(self) -> None:
        """Release nothing."""


@dataclass
class ScriptedEngine:
    """Keeps every job as it is, but for what it wants.

    Attributes:
        outcome: Fields of the outcome of every job, such as ``wanted``.
        during: Called in the middle of each pass; it may raise.
        given: The states of the jobs of each pass.
    """

    outcome: Mapping[str, object] = field(default_factory=dict)
    during: Callable[[], object] = lambda: None
    given: list[Mapping[JobKey, JobState]] = field(default_factory=list)

    def start(self) -> None:
        """Prepare nothing."""

    def evaluate(self, requests: Sequence[PassRequest]) -> Sequence[PassOutcome]:
        """Return an outcome per job."""
        self.given.append({request.context.job_key: request.state for request in requests})
        self.during()
        hold = Hold.because("TEST", "nothing to change")
        outcomes = [
            PassOutcome(request.context.job_key, PassPhase.EXECUTED, hold, state=request.state) for request in requests
        ]
        return [replace(each, **self.outcome) for each in outcomes]  # type: ignore[arg-type]

    def close(self) -> None:
        """Release nothing."""


@contextmanager
def installed_plugin(folder: Path, name: str, entry_points: str, code: str) -> Iterator[None]:
    """Have a distribution installed with a module of the same name, whose plug-ins are known by entry points alone."""
    metadata = folder / f"{name}-1.2.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.2\n")
    (metadata / "entry_points.txt").write_text(entry_points)
    (folder / f"{name}.py").write_text(code)
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        installed_plugins.cache_clear()
        yield
    installed_plugins.cache_clear()
