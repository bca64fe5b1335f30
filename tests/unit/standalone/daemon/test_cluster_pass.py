from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack

import pytest

from flink_autoscaler.core.autoscaler import JobAutoScaler
from flink_autoscaler.core.errors import AutoscalerError, ConnectError, RealizeError, StoreError
from flink_autoscaler.core.model.job import JobKey
from flink_autoscaler.core.model.state import JobState
from flink_autoscaler.core.options.context import JobAutoScalerContext
from flink_autoscaler.core.ports.deployment import (
    JobList,
)
from flink_autoscaler.core.ports.passes import RescaleTarget
from flink_autoscaler.standalone.daemon.cluster_pass import ClusterPass, PassDependencies
from flink_autoscaler.standalone.daemon.pass_report import PassReport
from testkit.builders.cluster_passes import ScriptedEngine, ScriptedFetcher, a_listed_job
from testkit.builders.core.ports import RecordingEvents, RecordingRealizer, RecordingStore
from testkit.clusters.flink.waiting import wait_until

VERTEX = "ab" * 16


def a_list(
    *job_keys: str, unreadable: Mapping[JobKey, AutoscalerError] | None = None, gap: AutoscalerError | None = None
) -> JobList:
    problems = {} if gap is None else {"application_1_1": gap}
    return JobList(tuple(a_listed_job(job_key) for job_key in job_keys), unreadable or {}, frozenset(), problems)


class Store(RecordingStore):
    """Cannot load the jobs named ``unloadable``."""

    unloadable: Collection[JobKey] = ()

    def load(self, job_key: JobKey) -> JobState:
        if job_key in self.unloadable:
            raise StoreError(f"{job_key}: the database is gone")
        return super().load(job_key)


class Bench:
    """A pass with the parts around it."""

    def __init__(self) -> None:
        self.store, self.events, self.engine = (
            Store(),
            RecordingEvents(),
            ScriptedEngine({"target": RescaleTarget({VERTEX: 2})}),
        )
        self.tried: list[JobKey] = []
        self.cleanup = ExitStack()

    def cluster_pass(
        self,
        *lists: JobList | Exception,
        realize: Callable[[JobAutoScalerContext], object] = lambda _: None,
        parallelism: int = 4,
        deadline: float = 10.0,
    ) -> ClusterPass:
        def noted(context: JobAutoScalerContext) -> None:
            self.tried.append(context.job_key)
            realize(context)

        realizer = RecordingRealizer(before=noted)
        passes = ClusterPass(
            "c",
            fetcher=ScriptedFetcher(*lists),
            engine=self.engine,
            autoscaler=JobAutoScaler(store=self.store, realizer=realizer, event_handler=self.events),
            parallelism=parallelism,
            deadline=deadline,
            dependencies=PassDependencies(now_ms=lambda: 1_000),
        )
        self.cleanup.callback(passes.close)
        return passes


@pytest.fixture
def bench() -> Iterator[Bench]:
    bench = Bench()
    with bench.cleanup:
        yield bench


class Gate:
    """Lets the work on some jobs, or on all, go on once it is open."""

    def __init__(self, *job_keys: JobKey) -> None:
        self._job_keys = job_keys
        self.is_open = threading.Event()

    def __call__(self, context: JobAutoScalerContext) -> None:
        if not self._job_keys or context.job_key in self._job_keys:
            self.is_open.wait(timeout=300)


def raising(error: Exception) -> Callable[..., object]:
    def fail(*_: object) -> object:
        raise error

    return fail


@pytest.mark.parametrize(
    "error", [pytest.param(RealizeError("no"), id="ours"), pytest.param(ZeroDivisionError("oops"), id="a plug-in's")]
)
def test_failing_jobs_are_all_tried_and_not_cleaned_up(bench: Bench, error: Exception) -> None:
    report = bench.cluster_pass(a_list("c/a", "c/b"), realize=raising(error), parallelism=1).run()

    assert sorted(bench.tried) == ["c/a", "c/b"]
    assert [len(each.errors) for each in report.reports.values()] == [1, 1]
    assert [event.reason for event in bench.events.events] == ["AutoscalerError"] * 2
    assert not report.is_clean
    assert bench.store.deleted == []


@pytest.mark.parametrize(
    "error", [pytest.param(ConnectError("nobody"), id="ours"), pytest.param(KeyError("x"), id="a plug-in's")]
)
def test_failed_list_ends_the_pass_and_nothing_is_cleaned_up(bench: Bench, error: Exception) -> None:
    passes = bench.cluster_pass(a_list("c/a"), error, a_list("c/a"))

    reports = [passes.run() for _ in range(3)]

    assert [report.error is None for report in reports] == [True, False, True]
    assert isinstance(reports[1].error, AutoscalerError)
    assert bench.tried == ["c/a", "c/a"]
    assert bench.store.deleted == []


@pytest.mark.parametrize(
    "error", [pytest.param(ConnectError("lost"), id="ours"), pytest.param(TypeError("x"), id="a plug-in's")]
)
def test_failed_engine_is_an_error_of_the_pass(bench: Bench, error: Exception) -> None:
    bench.engine.during = raising(error)

    report = bench.cluster_pass(a_list("c/a")).run()

    assert isinstance(report.error, AutoscalerError)
    assert bench.tried == []


def test_as_many_jobs_as_the_pool_is_large_run_at_the_same_time(bench: Bench) -> None:
    together = threading.Barrier(10)

    report = bench.cluster_pass(
        a_list(*(f"c/{n}" for n in range(10))), realize=lambda _: together.wait(timeout=300), parallelism=10
    ).run()

    assert report.is_clean


def test_stuck_job_delays_the_others_by_one_pass_only(bench: Bench) -> None:
    others = [f"c/{n}" for n in range(9)]
    gate = Gate("c/stuck")
    passes = bench.cluster_pass(a_list("c/stuck", *others), realize=gate, parallelism=2, deadline=3.0)
    reports = [passes.run() for _ in range(20)]
    gate.is_open.set()

    assert all(set(report.reports) == set(others) for report in reports)
    assert all("still under way" in str(report.failures["c/stuck"]) for report in reports)
    assert all(report.unfinished_count == 1 for report in reports)
    assert bench.tried.count("c/stuck") == 1
    assert all(report.seconds < 3.0 <= reports[0].seconds for report in reports[1:])


def test_jobs_wait_in_vain_when_all_workers_are_stuck(bench: Bench) -> None:
    gate = Gate()
    passes = bench.cluster_pass(a_list("c/a", "c/b"), realize=gate, parallelism=1, deadline=0.05)
    first = passes.run()
    gate.is_open.set()
    _run_until(passes, lambda report: report.is_clean)

    assert "no free worker" in str(first.failures["c/b"])
    assert bench.tried[0] == "c/a"
    assert "c/b" in bench.tried


def test_unreadable_job_is_a_failure_and_not_cleaned_up_before_it_is_gone(bench: Bench) -> None:
    unreadable = a_list("c/b", unreadable={"c/a": ConnectError("no answer")})
    passes = bench.cluster_pass(a_list("c/a", "c/b"), unreadable, unreadable, a_list("c/b"))

    reports = [passes.run() for _ in range(3)]

    assert bench.store.deleted == []
    assert "no answer" in str(reports[1].failures["c/a"])
    passes.run()
    assert bench.store.deleted == ["c/a"]


def test_job_under_way_is_cleaned_up_once_when_it_is_done(bench: Bench) -> None:
    gate = Gate("c/a")
    passes = bench.cluster_pass(a_list("c/a", "c/b"), a_list("c/b"), realize=gate, deadline=0.05)
    for _ in range(3):
        passes.run()
    before = list(bench.store.deleted)
    gate.is_open.set()
    _run_until(passes, lambda report: bool(report.removed_jobs))
    passes.run()

    assert before == []
    assert bench.store.deleted == ["c/a"]


def test_job_that_returns_while_under_way_is_not_cleaned_up(bench: Bench) -> None:
    gate = Gate()
    passes = bench.cluster_pass(a_list("c/a"), a_list(), a_list("c/a"), realize=gate, deadline=0.05)
    for _ in range(3):
        passes.run()
    gate.is_open.set()
    _run_until(passes, lambda report: report.is_clean)

    assert bench.store.deleted == []


def test_job_whose_state_cannot_be_loaded_stays_alone(bench: Bench) -> None:
    bench.store.unloadable = {"c/a"}

    report = bench.cluster_pass(a_list("c/a", "c/b")).run()

    assert "the database is gone" in str(report.failures["c/a"])
    assert bench.tried == ["c/b"]
    assert bench.store.deleted == []


def test_jobs_beside_a_gap_are_looked_at_and_the_gap_is_reported(bench: Bench) -> None:
    gap = ConnectError("no answer")

    report = bench.cluster_pass(a_list("c/a", gap=gap)).run()

    assert set(report.reports) == {"c/a"}
    assert report.gaps == {"application_1_1": gap}
    assert report.error is None
    assert not report.is_clean


def test_passes_that_take_over_know_which_jobs_are_gone(bench: Bench) -> None:
    before, after = bench.cluster_pass(a_list("c/a", "c/b")), bench.cluster_pass(a_list("c/b"))
    before.run()

    after.take_over(before)
    before.close()

    assert [context.job_key for context in after.run().removed_jobs] == ["c/a"]
    assert bench.store.deleted == ["c/a"]


def test_passes_that_take_over_leave_what_is_under_way_alone(bench: Bench) -> None:
    gate = Gate()
    before = bench.cluster_pass(a_list("c/a"), realize=gate, deadline=0.05)
    after = bench.cluster_pass(a_list("c/a"))
    before.run()
    after.take_over(before)
    before.close()
    report = after.run()
    is_idle = after.is_idle()
    gate.is_open.set()
    _run_until(after, lambda report: report.is_clean)

    assert "still under way" in str(report.failures["c/a"])
    assert not is_idle
    assert bench.tried == ["c/a", "c/a"]


def _run_until(passes: ClusterPass, condition: Callable[[PassReport], bool]) -> None:
    wait_until("the pass comes to it", lambda: condition(passes.run()), timeout=300, interval=0.01)
