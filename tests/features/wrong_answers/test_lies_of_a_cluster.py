"""A cluster that lies about one job, or beside all of them: every other job is evaluated in every pass.

Values that cannot be are those of ``testkit.scenarios.hostile_flink``, which tells them of every field.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from flink_autoscaler.core.errors import AutoscalerError
from flink_autoscaler.core.model.decision import PassPhase
from flink_autoscaler.standalone.daemon.cluster_pass import ClusterPass
from flink_autoscaler.standalone.daemon.pass_report import PassReport
from flink_autoscaler.standalone.daemon.wiring import Wiring
from flink_autoscaler.standalone.observability.gauges import Gauges
from flink_autoscaler.standalone.observability.health import Health
from flink_autoscaler.standalone.observability.pass_reporter import PassReporter
from testkit.fakes.flink import Canned, FakeFlink, Fault, chain
from testkit.fakes.flink.answers import overview
from testkit.fakes.flink.load import keep_counting
from testkit.scenarios.runner import LogLines
from testkit.scenarios.runner.wired import IN_MEMORY, settings_on, started

EVALUATED = {PassPhase.COLLECTING, PassPhase.WINDOW_FILLING, PassPhase.EXECUTED}
SICK, WELL = "main/sick", "main/well"
PASSES = 3

PAGES = [b"<![foo[", b"<![", b"<html><title>Log in</title>"]
SLOTS, HEAP, GC = "taskSlotsAvailable", "Status.JVM.Memory.Heap.Used", "Status.JVM.GarbageCollector.All.TimeMsPerSecond"


class Daemon:
    """The daemon's own parts around a cluster with two jobs, and what it says."""

    def __init__(self, flink: FakeFlink, wiring: Wiring, passes: ClusterPass, lines: LogLines) -> None:
        self.flink = flink
        flink.taskmanagers = [{"id": "a", "slotsNumber": 16, "freeSlots": 8}]
        self.wiring = wiring
        self.lines = lines
        self.sick = flink.add_job("sick", chain(sources=1, vertices=2))
        self.well = flink.add_job("well", chain(sources=1, vertices=2))
        self._passes = passes
        self._announcer = PassReporter(gauges=Gauges(), health=Health({"main": 60.0}))

    def run(self, passes: int = PASSES) -> list[PassReport]:
        """Run and announce passes; no line may have a traceback."""
        reports = []
        for _ in range(passes):
            keep_counting(self.sick)
            keep_counting(self.well)
            reports.append(self._passes.run())
            self._announcer.report(reports[-1])
        assert [line for line in self.lines.all() if "exception" in line] == []
        return reports

    def decide(self) -> list[PassReport]:
        """Run passes until something was decided about the healthy job, for a while at most."""
        deadline = time.monotonic() + 60.0
        reports = self.run(1)
        while reports[-1].reports[WELL].outcome.phase is not PassPhase.EXECUTED and time.monotonic() < deadline:
            reports += self.run(1)
        return reports

    def spoil_entry(self, change: object) -> None:
        """Replace the entry of the sick job in the list; a dict changes some of its fields."""
        answer: Any = overview([self.sick, self.well])
        entry = answer["jobs"][0]
        answer["jobs"][0] = {**entry, **change} if isinstance(change, dict) else change
        self.flink.fault("/jobs/overview", Canned.json(answer))

    def learn(self) -> None:
        """Let the daemon remember something about both jobs."""
        self.run(2)
        assert self.states() == {SICK, WELL}

    def states(self) -> set[str]:
        """Return the keys of the jobs that something is remembered about."""
        return set(self.wiring._autoscaler._store.job_keys())


@pytest.fixture
def daemon() -> Iterator[Daemon]:
    options = {
        "autoscaler.clusters.0.timeout": "60 s",  # nothing hangs; a busy machine is slow
        "autoscaler.standalone.control-loop.interval": "100 ms",
        "job.autoscaler.metrics.window": "200 ms",
    }
    with (
        FakeFlink() as flink,
        LogLines() as lines,
        started(settings_on(flink.url, {**IN_MEMORY, **options})) as (wiring, passes),
    ):
        yield Daemon(flink, wiring, passes, lines)


def assert_evaluated(reports: list[PassReport], job_key: str = WELL) -> None:
    assert [report.error for report in reports] == [None] * len(reports)
    assert [report.reports[job_key].outcome.phase in EVALUATED for report in reports] == [True] * len(reports)


def failure(report: PassReport, job_key: str = SICK) -> AutoscalerError | None:
    found = report.failures.get(job_key)
    return found or next(iter(report.reports[job_key].errors), None)


@pytest.mark.parametrize(
    "change",
    [{"tasks": ""}, {"tasks": 5}, {"state": None}, {"state": {}}, {"name": None}, None, 7, [], {"jid": 5}],
    ids=str,
)
def test_one_bad_entry_of_the_list_concerns_its_job_only_and_is_told_once(daemon: Daemon, change: object) -> None:
    daemon.learn()
    daemon.spoil_entry(change)

    reports = daemon.run()
    daemon.flink.clear_faults()
    healed = daemon.run(1)

    assert_evaluated(reports)
    assert [list(report.failures) for report in reports] == [[SICK]] * PASSES
    assert [report.removed_jobs for report in reports] == [()] * PASSES
    assert daemon.states() == {SICK, WELL}
    assert len(daemon.lines.of("job_failed", job_key=SICK)) == 1
    assert_evaluated(healed, SICK)
    assert len(daemon.lines.of("job_recovered", job_key=SICK)) == 1


@pytest.mark.parametrize(
    ("path", "page", "status"),
    [("", PAGES[0], 200), ("", PAGES[2], 404), ("/config", PAGES[1], 302), ("/config", PAGES[2], 503)],
    ids=str,
)
def test_a_page_in_place_of_an_answer_about_one_job_concerns_it_only(
    daemon: Daemon, path: str, page: bytes, status: int
) -> None:
    path = f"/jobs/{daemon.sick.job_id}{path}"
    daemon.flink.fault(path, Canned(page, status, content_type="text/html"))

    reports = daemon.run(2)

    assert_evaluated(reports)
    assert [failure(report) is None for report in reports] == [False, False]


@pytest.mark.parametrize(
    ("page", "status"), [(PAGES[0], 200), (PAGES[1], 401), (PAGES[2], 302), (PAGES[2], 500)], ids=str
)
def test_a_page_in_place_of_the_list_is_a_cluster_away_whose_jobs_are_not_gone(
    daemon: Daemon, page: bytes, status: int
) -> None:
    daemon.learn()
    daemon.flink.fault("/jobs/overview", Canned(page, status, content_type="text/html"))

    reports = daemon.run()
    daemon.flink.clear_faults()
    healed = daemon.run(1)

    assert all(isinstance(report.error, AutoscalerError) for report in reports)
    assert [report.removed_jobs for report in reports] == [()] * PASSES
    assert daemon.states() == {SICK, WELL}
    assert len(daemon.lines.of("cluster_failed")) == 1
    assert_evaluated(healed)
    assert_evaluated(healed, SICK)


@pytest.mark.parametrize(
    ("path", "page"),
    [("/taskmanagers", PAGES[0]), ("/taskmanagers/metrics", PAGES[1]), ("/jobmanager/metrics", PAGES[2])],
    ids=str,
)
def test_a_page_in_place_of_facts_about_the_cluster_stops_no_job(daemon: Daemon, path: str, page: bytes) -> None:
    daemon.flink.fault(path, Canned(page, content_type="text/html"))

    reports = daemon.decide()

    assert_evaluated(reports)
    assert "FACTS_UNKNOWN" in codes(reports[-1])


@pytest.mark.parametrize(
    ("path", "fault"),
    [
        ("/taskmanagers/metrics", Fault.HANG_UP),
        ("/taskmanagers/metrics", Fault.GZIP_BOMB),
        ("/jobmanager/metrics", Fault.TRUNCATED_JSON),
        ("/jobmanager/metrics", Fault.HUGE),
    ],
)
def test_an_endpoint_beside_the_jobs_that_misbehaves_stops_none_of_them(
    daemon: Daemon, path: str, fault: Fault
) -> None:
    daemon.flink.fault(path, fault)

    reports = daemon.decide()

    assert_evaluated(reports)
    assert "FACTS_UNKNOWN" in codes(reports[-1])


@pytest.mark.parametrize(
    ("path", "answer"),
    [
        ("/jobmanager/metrics", [{"id": SLOTS, "value": 5}]),
        ("/jobmanager/metrics", [{"id": SLOTS, "value": "many"}]),
        ("/jobmanager/metrics", [{"id": SLOTS, "value": "Infinity"}]),
        ("/jobmanager/metrics", [{"id": SLOTS, "value": "-1"}]),
        ("/jobmanager/metrics", [{"id": SLOTS, "value": ["1"]}]),
        ("/taskmanagers/metrics", [{"id": HEAP, "max": "much"}, {"id": GC, "max": 5.0}]),
        ("/taskmanagers/metrics", [{"id": HEAP, "max": {}}]),
        ("/taskmanagers/metrics", []),
        ("/taskmanagers/metrics", {}),
        ("/taskmanagers/metrics", [5]),
    ],
    ids=str,
)
def test_a_bad_value_beside_the_jobs_is_unknown_and_the_decision_says_so(
    daemon: Daemon, path: str, answer: object
) -> None:
    daemon.flink.fault(path, Canned.json(answer))

    reports = daemon.decide()

    assert_evaluated(reports)
    assert_evaluated(reports, SICK)
    assert "FACTS_UNKNOWN" in codes(reports[-1])
    assert daemon.flink.paths("PUT") == []


@pytest.mark.parametrize("change", [{"slotsNumber": -4}, {"freeSlots": 1e308}, {"id": None}, 5], ids=str)
def test_taskmanagers_that_cannot_be_counted_are_unknown_and_the_decision_says_so(
    daemon: Daemon, change: object
) -> None:
    daemon.flink.taskmanagers = [{"id": "a", "slotsNumber": 1, **change} if isinstance(change, dict) else change]

    reports = daemon.decide()

    assert_evaluated(reports)
    assert "FACTS_UNKNOWN" in codes(reports[-1])
    assert len(daemon.lines.of("cluster_fact_unknown")) == 1


def test_where_everything_is_known_nothing_is_said_to_be_unknown(daemon: Daemon) -> None:
    assert "FACTS_UNKNOWN" not in codes(daemon.decide()[-1])


def codes(report: PassReport) -> set[str]:
    return {reason.code for reason in report.reports[WELL].outcome.decision.reasons}


def test_a_cluster_that_is_away_altogether_is_not_asked_about_its_jobs(daemon: Daemon) -> None:
    daemon.flink.fault("/taskmanagers/metrics", Fault.HANG_UP)
    daemon.flink.fault("/jobmanager/metrics", Fault.HANG_UP)

    reports = daemon.run(2)

    assert [report.reports[WELL].outcome.phase for report in reports] == [PassPhase.ERROR] * 2
    assert not any("/subtasks/metrics" in path for path in daemon.flink.paths())
