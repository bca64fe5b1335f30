"""Passes of a daemon that stands by, takes over, or loses the lead in the middle."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, nullcontext

import pytest

from flink_autoscaler.core.autoscaler import JobAutoScaler
from flink_autoscaler.core.errors import StoreError
from flink_autoscaler.core.model.decision import PassPhase
from flink_autoscaler.core.model.events import Event, EventType
from flink_autoscaler.core.model.job import JobKey
from flink_autoscaler.core.model.state import JobState
from flink_autoscaler.core.ports.deployment import JobList
from flink_autoscaler.core.ports.passes import RescaleTarget
from flink_autoscaler.standalone.daemon.cluster_pass import ClusterPass, PassDependencies
from flink_autoscaler.standalone.daemon.job_state_cleaner import JobStateCleaner
from flink_autoscaler.standalone.ha.leadership import Leadership
from flink_autoscaler.stores.heap import HeapTombstones
from testkit.builders.cluster_passes import ScriptedEngine, ScriptedFetcher, a_listed_job
from testkit.builders.core import RecordingEvents, RecordingRealizer, RecordingStore

VERTEX = "ab" * 16


class ScriptedLeadership(Leadership):
    """Is in the term that the test says."""

    def __init__(self, term: int | None) -> None:
        self.present = term
        self.bound: list[int] = []

    def term(self) -> int | None:
        return self.present

    def bound_to_term(self, term: int) -> AbstractContextManager[None]:
        self.bound.append(term)
        return nullcontext()

    def is_leader(self, seconds: float = 0.0) -> bool:
        return self.present is not None


class FailingTombstones(HeapTombstones):
    """Fails as long as ``error`` is set."""

    error: StoreError | None = None

    def marked_jobs(self, cluster: str) -> frozenset[JobKey]:
        if self.error is not None:
            raise self.error
        return super().marked_jobs(cluster)


def jobs(*names: str) -> JobList:
    return JobList(tuple(a_listed_job(f"c/{name}") for name in names))


class Bench:
    def __init__(self, parts: ExitStack, term: int | None) -> None:
        self.leadership = ScriptedLeadership(term)
        self.store = RecordingStore(states={"c/a": JobState("a"), "c/gone": JobState("gone")})
        self.realizer, self.events = RecordingRealizer(), RecordingEvents()
        self.fetcher, self.tombstones = ScriptedFetcher(jobs("a")), FailingTombstones()
        told = (Event(EventType.NORMAL, "Told", "text"),)
        self.engine = ScriptedEngine({"state": JobState("next"), "target": RescaleTarget({VERTEX: 2}), "events": told})
        autoscaler = JobAutoScaler(store=self.store, realizer=self.realizer, event_handler=self.events)
        vanished = JobStateCleaner("c", autoscaler=autoscaler, tombstones=self.tombstones, grace=3600.0)
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
    bench.fetcher.lists = [jobs("a", "gone")]
    bench.passes.run()
    bench.fetcher.lists = [jobs("a")]

    report = bench.passes.run()

    assert [context.job_key for context in report.removed_jobs] == ["c/gone"]
    assert bench.tombstones.marked_jobs("c") == frozenset()


def test_a_clean_up_that_fails_does_not_disturb_the_pass(make_bench: Callable[..., Bench]) -> None:
    bench = make_bench(1)
    bench.tombstones.error = StoreError("no database")

    report = bench.passes.run()

    assert report.is_clean
    assert bench.realizer.overrides == [{VERTEX: 2}]
