"""What is told about passes over real sockets: news once, gauges always."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cached_property

import pytest

from flink_autoscaler.core.errors import AutoscalerError, ConnectError, NotReadyError
from flink_autoscaler.core.model.decision import Hold, PassPhase, Rescale
from flink_autoscaler.core.model.events import Reason
from flink_autoscaler.core.model.job import JobStatus
from flink_autoscaler.core.model.state import EMPTY_STATE
from flink_autoscaler.core.model.supervision import Origin, RescaleRecord, Supervision
from flink_autoscaler.core.options.context import JobAutoScalerContext
from flink_autoscaler.core.ports.deployment import JobList, JobListFetcher
from flink_autoscaler.core.ports.passes import PassOutcome
from flink_autoscaler.core.rescale.tracking import WANTED_BEFORE, WANTED_BY_PERSON
from flink_autoscaler.standalone.daemon.pass_report import PassReport
from flink_autoscaler.standalone.observability.pass_reporter import MAX_REASONS, request_facts
from flink_autoscaler.standalone.service.loop import ClusterSchedule
from testkit.builders.cluster_passes import a_listed_job
from testkit.fakes.flink import Canned, FakeFlink, Fault, flink_error
from testkit.scenarios.runner import LogLines, Watching, run_passes

FAULTS = [
    pytest.param(Fault.RESET, id="resets connections"),
    pytest.param(Fault.HANG, id="hangs"),
    pytest.param(Fault.HTML, id="answers HTML"),
    pytest.param(Fault.TRUNCATED_JSON, id="truncates JSON"),
    pytest.param(Canned(b"{}", status=503), id="is unavailable"),
]


class Site:
    """A cluster, what manages it, and what is logged.

    Attributes:
        timeout: Of requests, seconds.
        fetcher: Lists the jobs; that of the daemon unless given.
    """

    def __init__(self, flink: FakeFlink, watching: Watching, lines: LogLines) -> None:
        self.flink, self.watching, self.lines = flink, watching, lines
        self.timeout = 5.0
        self.fetcher: JobListFetcher | None = None

    @cached_property
    def watch(self) -> ClusterSchedule:
        return self.watching.watch(self.flink, timeout=self.timeout, fetcher=self.fetcher)

    def run(self, count: int = 1) -> list[PassReport]:
        return run_passes(self.watch, count)


@pytest.fixture
def site(flink: FakeFlink, watching: Watching, lines: LogLines) -> Site:
    return Site(flink, watching, lines)


@pytest.mark.parametrize("fault", FAULTS)
def test_bad_cluster_is_reported_once_and_once_when_it_is_back(site: Site, fault: Fault | Canned) -> None:
    site.flink.add_job("orders")
    site.timeout = 1.0
    site.flink.fault("/jobs/overview", fault)

    site.run(3)
    site.flink.clear_faults()
    site.run(2)

    assert len(site.lines.of("cluster_failed", cluster="main")) == 1
    assert len(site.lines.of("cluster_recovered", cluster="main")) == 1
    assert site.lines.of("job_removed") == []


def test_cluster_that_refuses_connections_is_reported_once(site: Site) -> None:
    site.flink.pause()

    site.run(2)

    (line,) = site.lines.all()
    assert line["event"] == "cluster_failed"
    assert line["level"] == "warning"
    assert site.flink.url in line["error"]
    assert "exception" not in line


def test_another_error_is_news(site: Site) -> None:
    site.flink.fault("/jobs/overview", Fault.HTML)
    site.run(2)

    site.flink.pause()
    site.run(2)

    assert len(site.lines.of("cluster_failed")) == 2
    assert site.lines.of("cluster_recovered") == []


def test_phase_is_told_when_it_changes(site: Site) -> None:
    site.flink.add_job("orders", configuration={"job.autoscaler.stabilization.interval": "0 s"})

    reports = site.run(4)

    phases = [report.reports["main/orders"].outcome.phase for report in reports]
    changes = [phase for phase, before in zip(phases, [None, *phases], strict=False) if phase is not before]
    assert phases[0] is PassPhase.COLLECTING
    assert [line["phase"] for line in site.lines.of("job_phase")] == changes


def decided(report: PassReport, *reasons: Reason, phase: PassPhase = PassPhase.EXECUTED) -> PassReport:
    """Return a pass that came to a decision for other reasons."""
    job = report.reports["main/orders"]
    outcome = replace(job.outcome, phase=phase, decision=Hold(reasons))
    return replace(report, reports={"main/orders": replace(job, outcome=outcome)})


def test_reasons_are_told_when_their_codes_change_and_not_when_their_figures_do(site: Site) -> None:
    site.flink.add_job("orders")
    (report,) = site.run()

    for figure in range(5):
        site.watch.reporter.report(decided(report, Reason("WAITS", f"{figure} s", None, (("left", figure / 3),))))
    site.watch.reporter.report(decided(report, Reason("DOES_NOT_PAY", "too dear", None, (("late", math.inf),))))

    assert [line["phase"] for line in site.lines.of("job_phase")][1:] == ["executed"]
    (line,) = site.lines.of("job_reasons")
    assert (line["decision"], line["reasons"]) == ("hold", ["too dear"])
    assert line["codes"] == [{"code": "DOES_NOT_PAY", "late": "Infinity"}]


@pytest.mark.parametrize(
    "phases", [(PassPhase.EXECUTED, PassPhase.EXECUTED), (PassPhase.EXECUTED, PassPhase.NOT_READY)]
)
def test_reasons_that_flap_do_not_flood_the_log(site: Site, phases: tuple[PassPhase, PassPhase]) -> None:
    site.flink.add_job("orders")
    (report,) = site.run()

    for number in range(200):
        reason = Reason(("ONE", "OTHER")[number % 2], "a reason")
        site.watch.reporter.report(decided(report, reason, phase=phases[number % 2]))

    told = [line["event"] for line in site.lines.all() if line["event"].startswith(("job_reasons", "job_phase"))]
    assert len(told) == MAX_REASONS + 1
    assert [event for event in told if event == "job_reasons_flapping"] == told[-1:]


def test_job_that_is_gone_is_announced_and_loses_its_series(site: Site) -> None:
    job = site.flink.add_job("orders")
    site.flink.add_job("payments")
    site.run()

    del site.flink.jobs[job.job_id]
    site.run(2)

    assert [line["job_key"] for line in site.lines.of("job_removed")] == ["main/orders"]
    assert "main/orders" not in b"".join(site.watching.gauges.texts()).decode()
    assert "main/payments" in b"".join(site.watching.gauges.texts()).decode()
    assert site.watching.store.job_keys() == {"main/payments"}


def test_job_that_vanishes_between_two_requests_disturbs_nobody(site: Site) -> None:
    doomed = site.flink.add_job("doomed")
    site.flink.add_job("orders")
    site.run()

    site.flink.fault(f"/jobs/{doomed.job_id}", flink_error(404, f"Job {doomed.job_id} not found"))
    during = site.run()[0]
    del site.flink.jobs[doomed.job_id]
    after = site.run()[0]

    assert during.error is None
    assert during.reports["main/orders"].errors == ()
    assert "not found" in site.lines.of("job_failed", job_key="main/doomed")[0]["error"]
    assert [context.job_key for context in after.removed_jobs] == ["main/doomed"]
    assert after.is_clean


def test_failing_job_is_reported_once_and_once_when_it_recovers(site: Site) -> None:
    job = site.flink.add_job("orders")
    site.flink.add_job("payments")
    site.flink.fault(f"/jobs/{job.job_id}/vertices", Fault.HTML)

    site.run(3)
    site.flink.clear_faults()
    site.run(2)

    assert [line["job_key"] for line in site.lines.of("job_failed")] == ["main/orders"]
    assert [line["job_key"] for line in site.lines.of("job_recovered")] == ["main/orders"]


def test_invalid_job_stays_alone_and_has_its_event(site: Site) -> None:
    site.flink.add_job("invalid", configuration={"job.autoscaler.utilization.target": "7"})
    site.flink.add_job("valid")

    (report,) = site.run()

    assert report.reports["main/invalid"].outcome.phase is PassPhase.INVALID_CONFIG
    assert report.reports["main/valid"].outcome.phase is PassPhase.COLLECTING
    assert [line["job_key"] for line in site.lines.of("autoscaler_event")] == ["main/invalid"]


def test_cluster_that_restarted_empty_and_got_its_job_back(site: Site) -> None:
    site.flink.add_job("orders")
    site.run()

    site.flink.pause()
    site.run()
    site.flink.jobs.clear()
    resubmitted = site.flink.add_job("orders")
    site.flink.resume()
    (report,) = site.run()

    assert report.is_clean
    assert site.lines.of("job_removed") == []
    assert [line["job_id"] for line in site.lines.of("job_found")][-1] == resubmitted.job_id


def test_no_line_without_news(site: Site) -> None:
    site.flink.add_job("orders", configuration={"job.autoscaler.enabled": "false"})
    site.run()
    before = len(site.lines.all())

    site.run(5)

    assert len(site.lines.all()) == before


class Gaps:
    """A fetcher whose list has the jobs and gaps of the test."""

    def __init__(self) -> None:
        self.jobs: list[JobAutoScalerContext] = []
        self.gaps: dict[str, AutoscalerError] = {}

    def fetch(self) -> JobList:
        return JobList(tuple(self.jobs), problems=dict(self.gaps))

    def close(self) -> None:
        pass


def test_each_gap_is_told_once_and_once_when_it_is_closed(site: Site) -> None:
    fetcher = site.fetcher = Gaps()

    fetcher.gaps = {"application_1_1": ConnectError("no answer"), "application_1_2": NotReadyError("it is starting")}
    site.run(3)
    gaps_then = site.watching.sample("list_gaps", cluster="main")
    del fetcher.gaps["application_1_1"]
    site.run(3)

    assert [(line["part"], line["level"]) for line in site.lines.of("list_gap", cluster="main")] == [
        ("application_1_1", "warning"),
        ("application_1_2", "info"),  # it will pass
    ]
    assert [line["part"] for line in site.lines.of("list_gap_closed")] == ["application_1_1"]
    assert (gaps_then, site.watching.sample("list_gaps", cluster="main")) == (2, 1)
    assert site.watching.sample("cluster_up", cluster="main") == 1
    assert site.watching.health.readiness().clusters["main"].ready


def test_flapping_cluster_does_not_flood_the_log(site: Site) -> None:
    site.flink.taskmanagers = [{"id": "a", "slotsNumber": 16, "freeSlots": 8}]
    for _ in range(15):
        site.flink.fault("/jobs/overview", Fault.HTML)
        site.run()
        site.flink.clear_faults()
        site.run()

    events = [line["event"] for line in site.lines.all()]
    assert events == ["cluster_failed", "cluster_recovered"] * 2 + ["cluster_failed", "cluster_flapping"]
    assert site.watching.passes("main", "failed") == 15


def test_flapping_job_does_not_flood_the_log(site: Site) -> None:
    job = site.flink.add_job("orders")
    for _ in range(15):
        site.flink.fault(f"/jobs/{job.job_id}/vertices", Fault.HTML)
        site.run()
        site.flink.clear_faults()
        site.run()

    assert len(site.lines.of("job_failed") + site.lines.of("job_recovered")) == 5
    assert len(site.lines.of("job_flapping", job_key="main/orders")) == 1


def test_labels_are_facts_of_every_line_about_a_job(site: Site) -> None:
    fetcher = Gaps()
    fetcher.jobs = [
        a_listed_job(
            "main/orders",
            JobStatus.FINISHED,
            yarn_application_id="application_1_2",
            yarn_queue="root.a",
            yarn_user="ann",
        )
    ]
    site.fetcher = fetcher
    site.run()

    fetcher.jobs = []
    site.run()

    about = [
        line for line in site.lines.all() if line.get("job_key") == "main/orders" and "deleted" not in line["event"]
    ]
    assert {line["event"] for line in about} >= {"job_found", "job_phase", "job_removed"}
    assert {(line["yarn_application_id"], line["yarn_queue"], line["yarn_user"]) for line in about} == {
        ("application_1_2", "root.a", "ann")
    }


def test_outcome_that_cannot_be_told_keeps_no_other_job_from_being_told_of(site: Site) -> None:
    for name in ("bad", "good", "last"):
        site.flink.add_job(name)
    (report,) = site.run()
    reasons = (Reason("NEWS", "something new"),)
    outcomes = {key: replace(each.outcome, decision=Hold(reasons)) for key, each in report.reports.items()}
    hold = {key: replace(each, outcome=outcomes[key]) for key, each in report.reports.items()}
    bad = next(key for key in hold if key.endswith("bad"))
    hold[bad] = replace(hold[bad], outcome=replace(hold[bad].outcome, decision=Hold((42,))))  # type: ignore[arg-type]
    before = len(site.lines.all())

    for _ in range(3):
        site.watch.reporter.report(replace(report, reports=hold))

    told = site.lines.all()[before:]
    assert [line["job_key"] for line in told if line["event"] == "job_not_reported"] == [bad]
    news = sorted(line["job_key"] for line in told if line.get("codes") == [{"code": "NEWS"}])
    assert news == sorted(hold.keys() - {bad})


HOLD = Hold((Reason("NO_CHANGE", "no vertex needs another parallelism now"),))


LOAD = Rescale({}, (Reason("SIZED", "needs more", "a"),))


PLAN = Rescale({}, (Reason("PLANNED", "as planned", "a"),))


def outcome_of(decision: Hold | Rescale, origin: Origin, reason: str = "") -> PassOutcome:
    record = RescaleRecord(1000, 1000, {"a": 2, "b": 3}, {"a": 4, "b": 3}, origin, reason=reason)
    state = replace(EMPTY_STATE, supervision=Supervision(current=record))
    return PassOutcome("main/orders", PassPhase.EXECUTED, decision, state)


@pytest.mark.parametrize(
    ("outcome", "cause"),
    [
        pytest.param(outcome_of(LOAD, Origin.AUTOSCALER), "load", id="load"),
        pytest.param(outcome_of(PLAN, Origin.AUTOSCALER), "plan", id="a planned time"),
        pytest.param(outcome_of(HOLD, Origin.OPERATOR, WANTED_BY_PERSON), "pin", id="a pin"),
        pytest.param(outcome_of(HOLD, Origin.OPERATOR, "ann: a test"), "order", id="a rollback that was ordered"),
        pytest.param(outcome_of(HOLD, Origin.OPERATOR, WANTED_BEFORE), "earlier", id="what was decided before"),
        pytest.param(outcome_of(HOLD, Origin.AUTOSCALER), "earlier", id="the same again"),
        pytest.param(outcome_of(HOLD, Origin.ROLLBACK), "rollback", id="a rollback"),
    ],
)
def test_request_says_what_changes_and_why(outcome: PassOutcome, cause: str) -> None:
    facts = request_facts(outcome, {"a": 4, "b": 3})

    assert (facts["cause"], facts["text"]) == (cause, "a 2 → 4")
    assert facts["changes"] == [{"vertex": "a", "vertex_id": "a", "from": 2, "to": 4}]
    assert facts["parallelism"] == {"a": 4, "b": 3}
