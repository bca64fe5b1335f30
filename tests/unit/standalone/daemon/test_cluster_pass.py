from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack

import pytest

from flink_autoscaler.core.autoscaler import JobAutoScaler
from flink_autoscaler.core.errors import AutoscalerError, ConnectError, RealizeError, StoreError
from flink_autoscaler.core.model.decision import Hold, PassPhase
from flink_autoscaler.core.model.events import Event, ScalingReport
from flink_autoscaler.core.model.job import Endpoint, JobKey, JobStatus
from flink_autoscaler.core.model.metrics import VertexId
from flink_autoscaler.core.model.state import ConfigChanges, JobState
from flink_autoscaler.core.options.context import JobAutoScalerContext
from flink_autoscaler.core.ports.deployment import (
    NO_TERMS,
    EvaluationEngine,
    JobList,
    Realization,
    RealizationTerms,
    RealizeResult,
)
from flink_autoscaler.core.ports.passes import PassOutcome, PassRequest
from flink_autoscaler.standalone.daemon.cluster_pass import ClusterPass, PassDependencies, PassReport
from flink_autoscaler.stores import HeapStateStore
from testkit.clusters.flink.waiting import wait_until

VERTEX = "ab" * 16
NOW_MS = 1_000
DONE = Realization(RealizeResult.UNCHANGED)

RealizeAction = Callable[[JobAutoScalerContext], Realization]


def a_job(job_key: str) -> JobAutoScalerContext:
    return JobAutoScalerContext(job_key, "cd" * 16, JobStatus.RUNNING, {}, Endpoint("http://127.0.0.1:1"), job_key, "c")


def a_list(
    *job_keys: str, unreadable: Mapping[JobKey, AutoscalerError] | None = None, gap: AutoscalerError | None = None
) -> JobList:
    problems = {} if gap is None else {"application_1_1": gap}
    return JobList(tuple(a_job(job_key) for job_key in job_keys), unreadable or {}, frozenset(), problems)


class ScriptedFetcher:
    """Gives one list per pass, or raises what is there instead; the last one again and again."""

    def __init__(self, *lists: JobList | Exception) -> None:
        self._lists = list(lists)
        self.closed = 0

    def fetch(self) -> JobList:
        current = self._lists.pop(0) if len(self._lists) > 1 else self._lists[0]
        if isinstance(current, Exception):
            raise current
        return current

    def close(self) -> None:
        self.closed += 1


class WantingEngine:
    """Decides that every job needs its overrides realized."""

    def evaluate(self, requests: Sequence[PassRequest]) -> Sequence[PassOutcome]:
        hold = Hold.because("TEST", "nothing to change")
        return [
            PassOutcome(request.context.job_key, PassPhase.EXECUTED, hold, state=request.state, wanted={VERTEX: 2})
            for request in requests
        ]

    def start(self) -> None:
        pass

    def close(self) -> None:
        pass


class BrokenEngine(WantingEngine):
    def __init__(self, error: Exception) -> None:
        self._error = error

    def evaluate(self, requests: Sequence[PassRequest]) -> Sequence[PassOutcome]:
        raise self._error


class ActingRealizer:
    """Does what the test says for every job."""

    def __init__(self, action: RealizeAction) -> None:
        self._action = action

    def realize_overrides(
        self, context: JobAutoScalerContext, overrides: Mapping[VertexId, int], *, terms: RealizationTerms = NO_TERMS
    ) -> Realization:
        return self._action(context)

    def realize_config(self, context: JobAutoScalerContext, changes: ConfigChanges) -> Realization:
        return DONE

    def close(self) -> None:
        pass


class RecordingStore(HeapStateStore):
    """Remembers what was deleted; cannot load the jobs named ``unloadable``."""

    def __init__(self) -> None:
        super().__init__()
        self.deleted: list[JobKey] = []
        self.unloadable: set[JobKey] = set()

    def load(self, job_key: JobKey) -> JobState:
        if job_key in self.unloadable:
            raise StoreError(f"{job_key}: the database is gone")
        return super().load(job_key)

    def delete(self, job_key: JobKey) -> None:
        self.deleted.append(job_key)
        super().delete(job_key)


class RecordingEvents:
    def __init__(self) -> None:
        self.events: list[tuple[JobKey, str]] = []

    def handle_event(self, context: JobAutoScalerContext, event: Event) -> None:
        self.events.append((context.job_key, event.reason))

    def handle_scaling_report(self, context: JobAutoScalerContext, report: ScalingReport) -> None:
        raise AssertionError("no test has a report")

    def close(self) -> None:
        pass


class Bench:
    """A pass with the parts around it."""

    def __init__(self) -> None:
        self.store = RecordingStore()
        self.events = RecordingEvents()
        self.tried: list[JobKey] = []
        self.cleanup = ExitStack()

    def cluster_pass(
        self,
        *lists: JobList | Exception,
        realize: RealizeAction = lambda _: DONE,
        engine: EvaluationEngine | None = None,
        parallelism: int = 4,
        deadline: float = 10.0,
    ) -> ClusterPass:
        def noted(context: JobAutoScalerContext) -> Realization:
            self.tried.append(context.job_key)
            return realize(context)

        passes = ClusterPass(
            "c",
            fetcher=ScriptedFetcher(*lists),
            engine=engine or WantingEngine(),
            autoscaler=JobAutoScaler(store=self.store, realizer=ActingRealizer(noted), event_handler=self.events),
            parallelism=parallelism,
            deadline=deadline,
            dependencies=PassDependencies(now_ms=lambda: NOW_MS),
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

    def __call__(self, context: JobAutoScalerContext) -> Realization:
        if not self._job_keys or context.job_key in self._job_keys:
            self.is_open.wait(timeout=300)
        return DONE


def _raise(error: Exception) -> Realization:
    raise error


@pytest.mark.parametrize(
    "error", [pytest.param(RealizeError("no"), id="ours"), pytest.param(ZeroDivisionError("oops"), id="a plug-in's")]
)
def test_failing_jobs_are_all_tried_and_not_cleaned_up(bench: Bench, error: Exception) -> None:
    report = bench.cluster_pass(a_list("c/a", "c/b"), realize=lambda _: _raise(error), parallelism=1).run()

    assert sorted(bench.tried) == ["c/a", "c/b"]
    assert [len(each.errors) for each in report.reports.values()] == [1, 1]
    assert sorted(bench.events.events) == [("c/a", "AutoscalerError"), ("c/b", "AutoscalerError")]
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
    report = bench.cluster_pass(a_list("c/a"), engine=BrokenEngine(error)).run()

    assert isinstance(report.error, AutoscalerError)
    assert bench.tried == []


def test_as_many_jobs_as_the_pool_is_large_run_at_the_same_time(bench: Bench) -> None:
    together = threading.Barrier(10)

    def meet(_: JobAutoScalerContext) -> Realization:
        together.wait(timeout=300)
        return DONE

    report = bench.cluster_pass(a_list(*(f"c/{n}" for n in range(10))), realize=meet, parallelism=10).run()

    assert report.is_clean


def test_stuck_job_delays_the_others_by_one_pass_only(bench: Bench) -> None:
    others = [f"c/{n}" for n in range(9)]
    gate = Gate("c/stuck")
    passes = bench.cluster_pass(a_list("c/stuck", *others), realize=gate, parallelism=2, deadline=3.0)
    reports = [passes.run() for _ in range(20)]
    gate.is_open.set()

    assert all(set(report.reports) == set(others) for report in reports)
    assert all("still under way" in str(report.failures["c/stuck"]) for report in reports)
    assert all(report.stuck == 1 for report in reports)
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
    _run_until(passes, lambda report: bool(report.gone))
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

    assert [context.job_key for context in after.run().gone] == ["c/a"]
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
