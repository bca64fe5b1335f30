"""Passes of a daemon that stands by, takes over, or loses the lead in the middle."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext

import pytest

from flink_autoscaler.core.autoscaler import JobAutoScaler
from flink_autoscaler.core.errors import StoreError
from flink_autoscaler.core.model.decision import Hold, PassPhase
from flink_autoscaler.core.model.events import Event, EventType
from flink_autoscaler.core.model.job import Endpoint, JobKey, JobStatus
from flink_autoscaler.core.model.state import JobState
from flink_autoscaler.core.options.context import JobAutoScalerContext
from flink_autoscaler.core.ports.deployment import JobList
from flink_autoscaler.core.ports.passes import PassOutcome, PassRequest
from flink_autoscaler.standalone.daemon.cluster_pass import ClusterPass, PassDependencies
from flink_autoscaler.standalone.daemon.vanished import VanishedJobs
from flink_autoscaler.standalone.ha.leadership import Leadership
from flink_autoscaler.stores.heap import HeapTombstones
from testkit.builders.core import RecordingEvents, RecordingRealizer, RecordingStore

VERTEX = "ab" * 16


class ScriptedLeadership(Leadership):
    """Is in the term that the test says."""

    def __init__(self, term: int | None) -> None:
        self.present = term
        self.bound: list[int] = []

    def term(self) -> int | None:
        return self.present

    def acting(self, term: int) -> AbstractContextManager[None]:
        self.bound.append(term)
        return nullcontext()

    def may_act(self, seconds: float = 0.0) -> bool:
        return self.present is not None


class Lists:
    """A fetcher of jobs by name."""

    def __init__(self, *names: str) -> None:
        self.names = names

    def fetch(self) -> JobList:
        return JobList(tuple(a_job(name) for name in self.names))

    def close(self) -> None:
        pass


class Engine:
    """Wants every job rescaled and tells so; calls ``during`` in the middle of each pass."""

    def __init__(self) -> None:
        self.during: Callable[[], None] = lambda: None
        self.given: list[Mapping[JobKey, JobState]] = []

    def start(self) -> None:
        pass

    def evaluate(self, requests: Sequence[PassRequest]) -> Sequence[PassOutcome]:
        self.given.append({request.context.job_key: request.state for request in requests})
        self.during()
        return [
            PassOutcome(
                request.context.job_key,
                PassPhase.EXECUTED,
                Hold.because("TEST", "nothing to change"),
                state=JobState("next"),
                wanted={VERTEX: 2},
                events=(Event(EventType.NORMAL, "Told", "text"),),
            )
            for request in requests
        ]

    def close(self) -> None:
        pass


def a_job(name: str) -> JobAutoScalerContext:
    endpoint = Endpoint("http://127.0.0.1:1")
    return JobAutoScalerContext(f"c/{name}", "cd" * 16, JobStatus.RUNNING, {}, endpoint, name, "c")


class FailingTombstones(HeapTombstones):
    """Fails as long as ``error`` is set."""

    error: StoreError | None = None

    def marked(self, cluster: str) -> frozenset[JobKey]:
        if self.error is not None:
            raise self.error
        return super().marked(cluster)


class Bench:
    def __init__(self, parts: ExitStack, term: int | None) -> None:
        self.leadership = ScriptedLeadership(term)
        self.store = RecordingStore(states={"c/a": JobState("a"), "c/gone": JobState("gone")})
        self.realizer, self.events = RecordingRealizer(), RecordingEvents()
        self.fetcher, self.engine, self.tombstones = Lists("a"), Engine(), FailingTombstones()
        autoscaler = JobAutoScaler(store=self.store, realizer=self.realizer, event_handler=self.events)
        vanished = VanishedJobs("c", autoscaler=autoscaler, tombstones=self.tombstones, grace=3600.0)
        self.passes = ClusterPass(
            "c",
            fetcher=self.fetcher,
            engine=self.engine,
            autoscaler=autoscaler,
            parallelism=2,
            deadline=10.0,
            dependencies=PassDependencies(self.leadership, vanished, lambda: 1_000),
        )
        parts.callback(self.passes.close)

    @property
    def has_acted(self) -> bool:
        return bool(self.realizer.overrides or self.events.events or "save" in self.store.journal)


@pytest.fixture
def make_bench() -> Iterator[Callable[[int | None], Bench]]:
    with ExitStack() as parts:
        yield lambda term: Bench(parts, term)


def test_a_daemon_that_stands_by_evaluates_and_does_nothing_else(make_bench: Callable[..., Bench]) -> None:
    bench = make_bench(None)

    report = bench.passes.run()

    assert not report.is_acting
    assert bench.engine.given == [{"c/a": JobState("a")}]
    assert report.reports["c/a"].outcome.phase is PassPhase.EXECUTED
    assert not bench.has_acted


def test_a_daemon_that_stands_by_sees_what_the_leader_wrote(make_bench: Callable[..., Bench]) -> None:
    bench = make_bench(None)
    bench.passes.run()

    bench.store.states["c/a"] = JobState("written by the leader")
    bench.passes.run()

    assert bench.engine.given[-1] == {"c/a": JobState("written by the leader")}


def test_the_pass_after_the_take_over_acts(make_bench: Callable[..., Bench]) -> None:
    bench = make_bench(None)
    bench.passes.run()
    bench.leadership.present = 5

    report = bench.passes.run()

    assert report.is_acting
    assert bench.realizer.overrides == [{VERTEX: 2}]
    assert set(bench.leadership.bound) == {5}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param(5, None, id="lost"),
        pytest.param(5, 7, id="lost and won again: somebody else acted in between"),
        pytest.param(None, 5, id="won: the state may be out of date"),
    ],
)
def test_a_pass_during_which_the_lead_changes_does_not_act(
    make_bench: Callable[..., Bench], before: int | None, after: int | None
) -> None:
    bench = make_bench(before)
    bench.engine.during = lambda: setattr(bench.leadership, "present", after)

    report = bench.passes.run()

    assert not report.is_acting
    assert not bench.has_acted


def test_a_daemon_that_stands_by_marks_no_gone_job(make_bench: Callable[..., Bench]) -> None:
    bench = make_bench(None)
    bench.fetcher.names = ("a", "gone")
    bench.passes.run()
    bench.fetcher.names = ("a",)

    report = bench.passes.run()

    assert [context.job_key for context in report.gone] == ["c/gone"]
    assert bench.tombstones.marked("c") == frozenset()


def test_a_clean_up_that_fails_does_not_disturb_the_pass(make_bench: Callable[..., Bench]) -> None:
    bench = make_bench(1)
    bench.tombstones.error = StoreError("no database")

    report = bench.passes.run()

    assert report.is_clean
    assert bench.realizer.overrides == [{VERTEX: 2}]
