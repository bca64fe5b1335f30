"""Whether the database works: found out regularly, said once, and errors at once while it does not."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from flink_autoscaler.core.errors import ConfigError, StoreError
from flink_autoscaler.core.model.events import Event, EventType
from flink_autoscaler.core.model.state import JobState
from flink_autoscaler.standalone.ha.store_health import FailFastStore, StoreHealthMonitor, fail_fast
from testkit.builders.core import RecordingEvents, RecordingStore, a_context
from testkit.clusters.flink.waiting import wait_until
from testkit.scenarios.runner import LogLines

AWAY = StoreError("PostgreSQL at host: cannot be reached; password=hunter2")
EVENT = Event(EventType.NORMAL, "Scaling", "text")


class FakeDatabase:
    """Fails with ``error``, or else works; counts what it was asked."""

    def __init__(self) -> None:
        self.error: Exception | None = None
        self.prepared = 0
        self.pinged = 0

    def prepare(self) -> None:
        self.prepared += 1
        self._fail()

    def ping(self) -> None:
        self.pinged += 1
        self._fail()

    def _fail(self) -> None:
        if self.error is not None:
            raise self.error


class Bench:
    def __init__(self) -> None:
        self.database = FakeDatabase()
        self.hopeless: list[ConfigError] = []
        self.watch = StoreHealthMonitor(
            self.database.prepare,
            self.database.ping,
            is_permanent=lambda error: "password" in str(error)[:12],
            interval=60.0,
            retry_interval=0.01,
        )


@pytest.fixture
def bench(lines: LogLines) -> Iterator[Bench]:
    bench = Bench()
    yield bench
    bench.watch.stop()


def test_a_database_that_works_is_up_and_nothing_is_said(bench: Bench, lines: LogLines) -> None:
    bench.watch.start(bench.hopeless.append)

    assert bench.watch.status().up
    assert not bench.watch.is_degraded()
    assert lines.all() == []


def test_an_outage_and_its_end_are_said_once(bench: Bench, lines: LogLines) -> None:
    bench.watch.start(bench.hopeless.append)
    bench.database.error = AWAY
    bench.watch.report_error()
    wait_until("several looks", lambda: bench.database.pinged >= 5, 300, interval=0.01)
    during = bench.watch.status()

    bench.database.error = None
    wait_until("it is back", lambda: bench.watch.status().up, 300, interval=0.01)

    assert not during.up
    assert "cannot be reached" in (during.error or "")
    assert "hunter2" not in (during.error or "")
    assert [line["event"] for line in lines.all()] == ["store_unavailable", "store_recovered"]


def test_an_outage_that_is_over_is_in_doubt_for_what_began_before_its_end(bench: Bench) -> None:
    bench.watch.start(bench.hopeless.append)
    began = time.monotonic()
    before = bench.watch.is_degraded(began)
    bench.database.error = AWAY
    bench.watch.report_error()
    wait_until("it is away", lambda: not bench.watch.status().up, 300, interval=0.01)
    bench.database.error = None
    wait_until("it is back", lambda: not bench.watch.is_degraded(), 300, interval=0.01)

    assert not before
    assert bench.watch.is_degraded(began)
    assert not bench.watch.is_degraded(time.monotonic())


def test_an_error_that_the_database_has_no_part_in_is_no_outage(bench: Bench, lines: LogLines) -> None:
    bench.watch.start(bench.hopeless.append)

    bench.watch.report_error()
    was_in_doubt = bench.watch.is_degraded() or bench.database.pinged > 0
    wait_until("it was looked into", lambda: not bench.watch.is_degraded(), 300, interval=0.01)

    assert was_in_doubt
    assert bench.watch.status().up
    assert lines.all() == []


def test_a_database_that_is_away_at_the_start_is_prepared_once_it_is_there(bench: Bench) -> None:
    bench.database.error = AWAY
    bench.watch.start(bench.hopeless.append)
    at_start = bench.watch.status().up

    bench.database.error = None
    wait_until("it is there", lambda: bench.watch.status().up, 300, interval=0.01)
    prepared = bench.database.prepared
    bench.watch.check()

    assert not at_start
    assert bench.database.prepared == prepared >= 2
    assert bench.database.pinged >= 1
    assert bench.hopeless == []


@pytest.mark.parametrize(
    "error",
    [
        pytest.param(StoreError("password is wrong"), id="only a person can end it"),
        pytest.param(ConfigError("the schema is newer"), id="wrong schema"),
    ],
)
def test_a_database_that_cannot_be_used_ends_the_start(bench: Bench, error: Exception) -> None:
    bench.database.error = error

    with pytest.raises(ConfigError, match=str(error)):
        bench.watch.start(bench.hopeless.append)


def test_a_database_that_turns_out_to_be_unusable_is_told_later(bench: Bench) -> None:
    bench.database.error = AWAY
    bench.watch.start(bench.hopeless.append)

    bench.database.error = StoreError("password is wrong")
    wait_until("it is told", lambda: bench.hopeless, 300, interval=0.01)

    assert [str(error) for error in bench.hopeless] == ["password is wrong"]


def test_a_password_that_becomes_wrong_is_an_outage_like_others(bench: Bench) -> None:
    bench.watch.start(bench.hopeless.append)
    bench.database.error = StoreError("password is wrong")

    bench.watch.check()

    assert bench.watch.status().error == "password is wrong"
    assert bench.hopeless == []


def test_a_driver_that_raises_anything_does_not_end_the_watch(bench: Bench) -> None:
    bench.watch.start(bench.hopeless.append)
    bench.database.error = RuntimeError("out of luck")
    bench.watch.report_error()
    wait_until("it is away", lambda: not bench.watch.status().up, 300, interval=0.01)

    bench.database.error = None
    wait_until("it is back", lambda: bench.watch.status().up, 300, interval=0.01)


def test_before_the_first_look_nothing_is_done(bench: Bench) -> None:
    store = RecordingStore()

    with pytest.raises(StoreError, match="not looked at yet"):
        FailFastStore(store, bench.watch).load("job")

    assert store.journal == []


def test_while_it_is_away_calls_fail_at_once_without_trying(bench: Bench) -> None:
    store, events = RecordingStore(states={"known": JobState("id")}), RecordingEvents()
    guarded, handler = FailFastStore(store, bench.watch), fail_fast(events, bench.watch)
    bench.watch.start(bench.hopeless.append)
    guarded.load("known")
    store.journal.clear()
    bench.database.error = AWAY
    bench.watch.check()

    for call in (
        lambda: guarded.load("unknown"),
        lambda: guarded.save("known", JobState()),
        lambda: guarded.delete("known"),
        guarded.job_keys,
        lambda: handler.handle_event(a_context({}), EVENT),
    ):
        with pytest.raises(StoreError, match="cannot be reached"):
            call()

    assert (store.journal, events.journal) == ([], [])


def test_while_it_is_away_what_is_in_memory_is_still_loaded(bench: Bench) -> None:
    watched = FailFastStore(RecordingStore(states={"known": JobState("id")}), bench.watch)
    bench.watch.start(bench.hopeless.append)
    watched.load("known")
    bench.database.error = AWAY
    bench.watch.check()

    assert watched.load("known") == JobState("id")


def test_an_error_of_the_store_is_looked_into(bench: Bench) -> None:
    store = RecordingStore(save_error=AWAY)
    watched = FailFastStore(store, bench.watch)
    bench.watch.start(bench.hopeless.append)
    bench.database.error = AWAY

    with pytest.raises(StoreError):
        watched.save("job", JobState())

    wait_until("it is away", lambda: not bench.watch.status().up, 300, interval=0.01)
