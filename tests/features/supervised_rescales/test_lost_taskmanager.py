"""A job that starts again for want of a TaskManager: the loss is named, with the decision and as an event."""

from __future__ import annotations

import pytest

from flink_autoscaler.core.model.decision import PassPhase
from flink_autoscaler.standalone.daemon.pass_report import PassReport
from testkit.fakes.flink import FakeFlink, FakeJob, chain
from testkit.scenarios.runner import LogLines
from testkit.scenarios.runner.wired import passes_of

BOTH = [{"id": name, "slotsNumber": 4, "freeSlots": 2} for name in ("a", "b")]


@pytest.fixture
def job(flink: FakeFlink) -> FakeJob:
    flink.taskmanagers = BOTH
    return flink.add_job("orders", chain(sources=1, vertices=2))


def reasons(report: PassReport) -> dict[str, str]:
    return {reason.code: reason.text for reason in report.reports["main/orders"].outcome.decision.reasons}


def test_job_that_does_not_run_names_the_loss(flink: FakeFlink, job: FakeJob) -> None:
    with LogLines() as lines, passes_of(flink) as passes:
        before = passes.run()
        flink.taskmanagers = BOTH[:1]
        job.state = "RESTARTING"
        report = passes.run()

        assert "TASKMANAGER_LOST" not in reasons(before)
        assert report.reports["main/orders"].outcome.phase is PassPhase.NOT_RUNNING
        assert reasons(report)["TASKMANAGER_LOST"] == "the cluster lost 1 of its 2 TaskManagers"
        (line,) = lines.of("autoscaler_event", reason="TaskManagerLost")
        assert "lost 1 of its 2 TaskManagers" in line["text"]


def test_job_that_has_started_again_meanwhile_names_it_too(flink: FakeFlink, job: FakeJob) -> None:
    with passes_of(flink) as passes:
        passes.run()
        flink.taskmanagers = BOTH[:1]
        job.rescale({})

        assert "TASKMANAGER_LOST" in reasons(passes.run())


def test_one_that_comes_back_is_not_lost(flink: FakeFlink, job: FakeJob) -> None:
    with passes_of(flink) as passes:
        passes.run()
        flink.taskmanagers = BOTH[:1]
        passes.run()
        flink.taskmanagers = BOTH
        job.state = "RESTARTING"

        assert "TASKMANAGER_LOST" not in reasons(passes.run())
