"""A plug-in that raises is the matter of the job that uses it, through the daemon's own parts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from flink_autoscaler.core.model.decision import PassPhase
from flink_autoscaler.standalone.daemon.pass_report import PassReport
from flink_autoscaler.standalone.observability.gauges import Gauges
from flink_autoscaler.standalone.observability.health import Health
from flink_autoscaler.standalone.observability.pass_reporter import PassReporter
from testkit.builders.cluster_passes import SteppedPasses, installed_plugin
from testkit.fakes.flink import FakeFlink, FakeJob
from testkit.scenarios.runner import LogLines

STEP_MS = 10_000
SICK, WELL = "main/sick", "main/well"
OPTIONS = {
    "job.autoscaler.metrics.window": "20 s",
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
def _plugins(tmp_path: Path) -> Iterator[None]:
    with installed_plugin(tmp_path, "fa_plugins_that_raise", ENTRIES, CODE):
        yield


class Bench(SteppedPasses):
    """Announced passes over two busy jobs, of which the first falls behind."""

    def __init__(self, flink: FakeFlink, parts: ExitStack) -> None:
        super().__init__(flink, OPTIONS, parts)
        flink.taskmanagers = [{"id": "a", "slotsNumber": 64, "freeSlots": 60}]
        self.sick, _ = self.add("sick"), self.add("well")
        self._announcer = PassReporter(gauges=Gauges(), health=Health({"main": 60.0}))

    def run_announced(self, count: int) -> list[PassReport]:
        reports = []
        for _ in range(count):
            reports += self.run(1, self.work_hard)
            self._announcer.report(reports[-1])
        return reports

    def work_hard(self, job: FakeJob) -> None:
        self.work(job, busy=1000.0, lag=1000.0 * self.number if job is self.sick else 0.0)


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
        bench.sick.configuration.update(configuration)
        bench.run_announced(3)
        failing = bench.run_announced(4)

        assert [report.error for report in failing] == [None] * 4
        assert [words in str(report.reports[SICK].errors) for report in failing] == [True] * 4
        assert [report.reports[WELL].outcome.phase for report in failing] == [PassPhase.EXECUTED] * 4
        assert [report.reports[WELL].errors for report in failing] == [()] * 4
        assert [report.reports[SICK].outcome.observation.sample is not None for report in failing] == [True] * 4
        assert bench.store.load(SICK).samples[-1].at_ms == 7 * STEP_MS
        assert len(lines.of("job_failed", job_key=SICK)) == 1
        assert words in lines.of("job_failed", job_key=SICK)[0]["error"]
        assert lines.of("job_failed", job_key=WELL) == []
