"""The state of gone jobs: kept for the grace period, then deleted."""

from __future__ import annotations

from concurrent.futures import Future

import pytest

from flink_autoscaler.core.autoscaler import JobAutoScaler
from flink_autoscaler.core.errors import AutoscalerError, ConnectError, StoreError
from flink_autoscaler.core.model.job import JobKey
from flink_autoscaler.core.model.state import JobState
from flink_autoscaler.core.ports.deployment import JobList
from flink_autoscaler.standalone.daemon.job_state_cleaner import FIRST_SWEEP, JobStateCleaner, JobTracker
from flink_autoscaler.stores.heap import HeapTombstones
from testkit.builders.cluster_passes import a_listed_job
from testkit.builders.core import RecordingEvents, RecordingRealizer, RecordingStore

HOUR = 3600.0


class BrokenTombstones(HeapTombstones):
    """Fails as long as ``error`` is set."""

    error: StoreError | None = None

    def mark(self, cluster: str, job_keys: object) -> None:
        if self.error is not None:
            raise self.error
        super().mark(cluster, job_keys)  # type: ignore[arg-type]


class LongAbsent(HeapTombstones):
    """Says that a job has not been seen for a month."""

    def unseen_jobs(self, cluster: str, present: object, seconds: float) -> frozenset[str]:
        return frozenset({"c/old"})


class Bench:
    """A cluster's gone jobs on a clock that the test sets."""

    def __init__(
        self, *, grace: float = HOUR, retention: float = 0.0, tombstones: HeapTombstones | None = None
    ) -> None:
        self.now = 0.0
        self.is_ready = True
        self.store = RecordingStore(states={"c/a": JobState("a"), "c/b": JobState("b"), "c/old": JobState("o")})
        autoscaler = JobAutoScaler(store=self.store, realizer=RecordingRealizer(), event_handler=RecordingEvents())
        self.tombstones = tombstones or HeapTombstones(clock=lambda: self.now)
        self.vanished = JobStateCleaner(
            "c",
            autoscaler=autoscaler,
            tombstones=self.tombstones,
            grace=grace,
            retention=retention,
            is_ready=lambda: self.is_ready,
            clock=lambda: self.now,
        )

    def run(self, seconds: float, present: list[str], *, every: float = 30.0) -> list[str]:
        """Do passes for so long; return what was deleted."""
        deleted: list[str] = []
        end = self.now + seconds
        while self.now < end:
            self.now += every
            deleted += self.vanished.update(present, [])
        return deleted


def test_the_state_is_deleted_once_soon_after_the_grace_period() -> None:
    bench = Bench()
    at_once = bench.vanished.update(["c/b"], ["c/a"])

    within = bench.run(HOUR - 60.0, ["c/b"])
    deleted = bench.run(180.0, ["c/b"])

    assert (at_once, within, deleted) == ((), [], ["c/a"])
    assert set(bench.store.states) == {"c/b", "c/old"}
    assert bench.tombstones.marked_jobs("c") == frozenset()


def test_a_job_that_leaves_again_has_the_whole_time_again() -> None:
    bench = Bench()
    bench.vanished.update(["c/b"], ["c/a"])
    bench.run(HOUR - 60.0, ["c/b"])
    bench.vanished.update(["c/a", "c/b"], [])

    bench.vanished.update(["c/b"], ["c/a"])

    assert bench.run(HOUR - 60.0, ["c/b"]) == []


def test_without_grace_the_state_is_deleted_at_once() -> None:
    bench = Bench(grace=0.0)

    assert bench.vanished.update(["c/b"], ["c/a"]) == ("c/a",)
    assert bench.vanished.update(["c/b"], []) == ()


def test_marks_of_an_earlier_daemon_go_on_counting() -> None:
    bench = Bench()
    bench.tombstones.mark("c", ["c/a"])
    bench.now = 2 * HOUR

    assert bench.vanished.update(["c/b"], []) == ("c/a",)


def test_marks_are_read_again_after_another_daemon_led() -> None:
    bench = Bench()
    bench.vanished.update(["c/a", "c/b"], [])
    bench.tombstones.mark("c", ["c/a"])
    bench.now = 2 * HOUR

    before = bench.vanished.update(["c/b"], [])
    bench.vanished.reload_marks()

    assert (before, bench.vanished.update(["c/b"], [])) == ((), ("c/a",))


def test_a_mark_that_could_not_be_made_is_made_later() -> None:
    tombstones = BrokenTombstones()
    bench = Bench(tombstones=tombstones)
    tombstones.error = StoreError("no database")
    with pytest.raises(StoreError, match="no database"):
        bench.vanished.update(["c/b"], ["c/a"])

    tombstones.error = None
    bench.vanished.update(["c/b"], [])

    assert tombstones.marked_jobs("c") == {"c/a"}


def test_a_job_that_returns_before_its_mark_was_made_is_not_marked() -> None:
    bench = Bench()
    bench.is_ready = False
    bench.vanished.update(["c/b"], ["c/a"])

    bench.is_ready = True
    bench.vanished.update(["c/a", "c/b"], [])

    assert bench.tombstones.marked_jobs("c") == frozenset()


def test_a_state_that_cannot_be_deleted_stays_marked_and_is_deleted_later() -> None:
    bench = Bench(grace=0.0)
    bench.store.delete_error = StoreError("read-only")
    with pytest.raises(StoreError, match="state of c/a could not be deleted: read-only"):
        bench.vanished.update(["c/b"], ["c/a"])

    bench.store.delete_error = None

    assert bench.vanished.update(["c/b"], []) == ("c/a",)


def test_what_is_left_of_long_absent_jobs_is_deleted_after_a_while() -> None:
    bench = Bench(retention=30 * 24 * HOUR, tombstones=LongAbsent())

    at_once = bench.vanished.update(["c/a"], [])
    bench.now = FIRST_SWEEP

    assert (at_once, bench.vanished.update(["c/a"], [])) == ((), ("c/old",))


def test_without_retention_nothing_is_searched_for() -> None:
    bench = Bench(tombstones=LongAbsent())
    bench.now = FIRST_SWEEP

    assert bench.vanished.update(["c/a"], []) == ()


PROBLEM: dict[str, AutoscalerError] = {"application_1_1": ConnectError("no answer")}


def a_list(*jobs: str, gap: bool = False) -> JobList:
    return JobList(tuple(a_listed_job(job) for job in jobs), problems=PROBLEM if gap else {})


def gone(roster: JobTracker, job_list: JobList) -> list[JobKey]:
    return [context.job_key for context in roster.update(job_list)]


def working(roster: JobTracker, job_key: JobKey) -> Future[object]:
    work: Future[object] = Future()
    roster.track_work(job_key, work)
    return work


def test_what_is_still_not_there_when_the_gap_is_closed_is_gone_once() -> None:
    roster = JobTracker()
    roster.update(a_list("a", "b", "c"))
    roster.update(a_list("a", gap=True))

    assert gone(roster, a_list("a", "b")) == ["c"]
    assert gone(roster, a_list("a", "b")) == []


def test_job_that_was_first_seen_beside_a_gap_can_be_gone_later() -> None:
    roster = JobTracker()
    roster.update(a_list("a", gap=True))

    assert gone(roster, a_list("b")) == ["a"]


def test_gone_job_under_way_that_is_back_beside_a_gap_is_not_gone() -> None:
    roster = JobTracker()
    roster.update(a_list("a", "b"))
    work = working(roster, "a")
    roster.update(a_list("b"))

    roster.update(a_list("a", gap=True))
    work.set_result(None)

    assert gone(roster, a_list("a", "b")) == []


def test_gone_job_under_way_waits_for_the_gap_to_be_closed() -> None:
    roster = JobTracker()
    roster.update(a_list("a", "b"))
    work = working(roster, "a")
    roster.update(a_list("b"))

    work.set_result(None)

    assert gone(roster, a_list("b", gap=True)) == []
    assert gone(roster, a_list("b")) == ["a"]


def test_every_known_job_has_its_key() -> None:
    roster = JobTracker()
    roster.update(a_list("a", "b"))
    working(roster, "a")
    roster.update(a_list("b"))

    assert roster.job_keys() == {"a", "b"}
