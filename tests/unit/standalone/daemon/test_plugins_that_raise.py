"""A plug-in that raises is the matter of the job that uses it, through the daemon's own parts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from flink_autoscaler.clients.flink.pass_plugins import installed_plugins
from flink_autoscaler.core.model.decision import PassPhase
from flink_autoscaler.standalone.daemon.cluster_pass import PassReport
from flink_autoscaler.standalone.observability.announcer import Announcer
from flink_autoscaler.standalone.observability.gauges import Gauges
from flink_autoscaler.standalone.observability.health import Health
from flink_autoscaler.stores import HeapStateStore, LoggingEventHandler
from testkit.builders.cluster_passes import passes_over
from testkit.fakes.flink import FakeFlink, FakeJob, chain
from testkit.scenarios.watching import LogLines

STEP_MS = 10_000
SICK, WELL = "main/sick", "main/well"
OPTIONS = {
    "job.autoscaler.enabled": "true",
    "job.autoscaler.metrics.window": "20 s",
    "job.autoscaler.stabilization.interval": "0 s",
    "autoscaler.engine.kind": "inline",
    "autoscaler.standalone.control-loop.interval": "10 s",
}
CODE = """
import sys


class Check:
    def try_schedule(self, request, cluster):
        raise MemoryError("no room to ask")


class Leaving:
    def try_schedule(self, request, cluster):
        sys.exit("enough")


class Executor:
    @property
    def priority(self):
        raise KeyError("no priority here")

    def apply(self, context, changes):
        return changes
"""
ENTRIES = """
[flink_autoscaler.resource_checks]
fa-raises = fa_plugins_that_raise:Check
fa-leaves = fa_plugins_that_raise:Leaving

[flink_autoscaler.executors]
fa-raises = fa_plugins_that_raise:Executor
"""
EXECUTOR = {
    "job.autoscaler.scaling.custom-executors": "mine",
    "job.autoscaler.scaling.custom-executor.mine.class": "fa_plugins_that_raise.Executor",
}


@pytest.fixture(autouse=True)
def _plugins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Install the plug-ins, which are known by their entry points alone."""
    metadata = tmp_path / "fa_plugins_that_raise-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: fa-plugins-that-raise\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(ENTRIES)
    (tmp_path / "fa_plugins_that_raise.py").write_text(CODE)
    monkeypatch.syspath_prepend(str(tmp_path))
    installed_plugins.cache_clear()
    yield
    installed_plugins.cache_clear()


class Bench:
    """Announced passes, ten seconds apart, over two busy jobs, of which the first falls behind."""

    def __init__(self, flink: FakeFlink, parts: ExitStack) -> None:
        self.store, self._number = HeapStateStore(), 0
        flink.taskmanagers = [{"id": "a", "slotsNumber": 64, "freeSlots": 60}]
        self.jobs = [
            flink.add_job(name, chain(sources=1, vertices=2, parallelism=2), start_ms=1, running_at_ms=1)
            for name in ("sick", "well")
        ]
        self._announcer = Announcer(gauges=Gauges(), health=Health({"main": 60.0}))
        self._passes = passes_over(
            flink,
            OPTIONS,
            parts,
            store=self.store,
            told=LoggingEventHandler(),
            now_ms=lambda: STEP_MS * self._number,
        )

    def run(self, passes: int) -> list[PassReport]:
        reports = []
        for _ in range(passes):
            self._number += 1
            for job, lag in zip(self.jobs, (1000.0, 0.0), strict=True):
                work_for(job, self._number, lag * self._number)
            reports.append(self._passes.run())
            self._announcer.announce(reports[-1])
        return reports


def work_for(job: FakeJob, steps: int, lag: float) -> None:
    """Let a job have read 200 records/s for so many steps, busy all the time."""
    source, work = job.vertices
    counter = 2000 * steps
    for name in ("Source__source_0.numRecordsIn", "Source__source_0.numRecordsOut"):
        source.metrics[name] = counter / 2
    source.metrics["Source__source_0.pendingRecords"] = lag
    source.records_out = work.records_in = counter
    source.busy_ms = work.busy_ms = STEP_MS * float(steps)
    for vertex in job.vertices:
        vertex.metrics["busyTimeMsPerSecond"] = 1000.0


@pytest.mark.parametrize(
    ("configuration", "words"),
    [
        pytest.param({"job.autoscaler.resource-check": "fa-raises"}, "no room to ask", id="resource check"),
        pytest.param({"job.autoscaler.resource-check": "fa-leaves"}, "enough", id="resource check that exits"),
        pytest.param(EXECUTOR, "no priority here", id="priority of an executor"),
    ],
)
def test_plugin_that_raises_fails_its_job_only_and_is_told_once(
    flink: FakeFlink, configuration: dict[str, str], words: str
) -> None:
    with ExitStack() as parts, LogLines() as lines:
        bench = Bench(flink, parts)
        bench.jobs[0].configuration.update(configuration)
        bench.run(3)
        failing = bench.run(4)

        assert [report.error for report in failing] == [None] * 4
        assert [words in str(report.reports[SICK].errors) for report in failing] == [True] * 4
        assert [report.reports[WELL].outcome.phase for report in failing] == [PassPhase.EXECUTED] * 4
        assert [report.reports[WELL].errors for report in failing] == [()] * 4
        assert [report.reports[SICK].outcome.sample is not None for report in failing] == [True] * 4
        assert bench.store.load(SICK).samples[-1].at_ms == 7 * STEP_MS
        assert len(lines.of("job_failed", job_key=SICK)) == 1
        assert words in lines.of("job_failed", job_key=SICK)[0]["error"]
        assert lines.of("job_failed", job_key=WELL) == []
