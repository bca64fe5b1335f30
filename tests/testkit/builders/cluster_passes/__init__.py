"""Passes of a daemon over one fake cluster by a clock of the test, and plug-ins known by their entry points."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

import pytest

from flink_autoscaler.clients.flink.pass_plugins import installed_plugins
from flink_autoscaler.core.model.state import JobState
from flink_autoscaler.standalone.daemon.cluster_pass import PassReport
from flink_autoscaler.stores import HeapStateStore
from testkit.builders.core.ports import RecordingEvents
from testkit.fakes.flink import FakeFlink, FakeJob, chain
from testkit.scenarios.watching.wired import passes_over

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
        counter = INITIAL + 200 * self._step * self.number
        for name in ("Source__source_0.numRecordsIn", "Source__source_0.numRecordsOut"):
            source.metrics[name] = counter / 2
        source.metrics["Source__source_0.pendingRecords"] = lag
        source.records_out = work.records_in = counter
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
