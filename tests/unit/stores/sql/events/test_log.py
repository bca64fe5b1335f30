"""Events as they are read from a database: filtered, in pages, and as they come."""

from __future__ import annotations

import threading
from datetime import datetime, timedelta
from functools import partial

import pytest
from sqlalchemy import Connection, delete, insert, text

from flink_autoscaler.core.model.events import Event, EventType
from flink_autoscaler.stores.sql.database.database import Database
from flink_autoscaler.stores.sql.database.failures import LeaseLostError
from flink_autoscaler.stores.sql.events import log as event_log
from flink_autoscaler.stores.sql.events.handler import BATCH, EventCleaner, SqlEventHandler
from flink_autoscaler.stores.sql.events.log import PAGE, EventFilter, EventFollower, newest_events
from flink_autoscaler.stores.sql.tables import EVENT_FIGURES, EVENTS, SCALINGS
from flink_autoscaler.stores.testing.event_handler_contract import a_context, a_report
from testkit.builders.sql import NOON, an_event, insert_events, write_events
from testkit.clusters.flink.waiting import wait_until
from testkit.scenarios.runner import LogLines
from testkit.servers.databases import counting, every_database, rows_of

EVERYTHING = EventFilter()


class Clock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def messages(database: Database, wanted: EventFilter = EVERYTHING, limit: int = 100) -> list[str]:
    return [event.message for event in newest_events(database, wanted, limit)]


def happen_again(database: Database, event_id: int, *, at: datetime = NOON) -> None:
    with database.transaction() as connection:
        again = EVENTS.update().where(EVENTS.c.id == event_id)
        connection.execute(again.values(event_count=EVENTS.c.event_count + 1, update_time=at))


@every_database
def test_events_come_oldest_first_with_all_columns(database: Database) -> None:
    later = NOON + timedelta(minutes=5)
    first, _ = write_events(
        database,
        an_event("main/orders", event_type="Warning", update_time=later, event_count=3, message="first\n%s"),
        an_event("main/payments", message="second"),
    )

    event, second = newest_events(database, EVERYTHING, 10)

    assert (event.id, event.job_key, event.event_type, event.reason) == (
        first,
        "main/orders",
        "Warning",
        "ScalingReport",
    )
    assert (event.created_at, event.updated_at, event.count) == (NOON, later, 3)
    assert (event.message, event.key) == ("first\n%s", "key")
    assert second.message == "second"


@every_database
@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        pytest.param(EventFilter(job="main/orders"), ["orders"], id="key"),
        pytest.param(EventFilter(job="orders"), ["orders"], id="name"),
        pytest.param(EventFilter(job="ord*"), ["orders"], id="start of the name"),
        pytest.param(EventFilter(job="*/o?ders"), ["orders"], id="any character"),
        pytest.param(EventFilter(job="Orders"), [], id="case counts"),
        pytest.param(EventFilter(job="10%*"), ["percent"], id="percent is a character"),
        pytest.param(EventFilter(job="a_b"), ["underscore"], id="underscore is a character"),
        pytest.param(EventFilter(job="[ab]_b"), ["underscore"], id="one of several characters"),
        pytest.param(EventFilter(job="'; DROP TABLE x; --"), ["injection"], id="statement in a name"),
        pytest.param(EventFilter(job="!\\"), ["escapes"], id="escape characters"),
        pytest.param(EventFilter(reason="AutoscalerError"), ["underscore"], id="reason"),
        pytest.param(EventFilter(reason="autoscalererror"), [], id="reason to the letter"),
        pytest.param(EventFilter(event_type=EventType.WARNING), ["percent", "underscore"], id="type"),
        pytest.param(EventFilter(since=NOON + timedelta(seconds=1)), ["injection"], id="happened again since"),
        pytest.param(EventFilter(job="*b", event_type=EventType.WARNING), ["underscore"], id="two at once"),
    ],
)
def test_filters_take_what_is_wanted(database: Database, wanted: EventFilter, expected: list[str]) -> None:
    write_events(
        database,
        an_event("main/orders", message="orders"),
        an_event("main/10% of it", message="percent", event_type="Warning"),
        an_event("main/a_b", message="underscore", event_type="Warning", reason="AutoscalerError"),
        an_event("main/axb", message="no underscore"),
        an_event("main/'; DROP TABLE x; --", message="injection", update_time=NOON + timedelta(hours=1)),
        an_event("main/!\\", message="escapes"),
    )

    assert messages(database, wanted) == expected


def test_limit_leaves_the_newest(database: Database) -> None:
    write_events(database, *(an_event(message=str(number)) for number in range(5)))

    assert messages(database, limit=2) == ["3", "4"]


@every_database
def test_many_events_are_read_in_pages(database: Database) -> None:
    count = 2 * PAGE + 1
    write_events(database, *(an_event(message=str(number)) for number in range(count)))

    with counting(database) as statements:
        found = messages(database, limit=10_000)

    assert found == [str(number) for number in range(count)]
    # One looks for the ids, three read pages.
    assert statements.count("SELECT", EVENTS) == 4


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def follower(database: Database, clock: Clock) -> EventFollower:
    write_events(database, an_event(message="before"))
    return EventFollower(database, EVERYTHING, clock=clock)


def polled(follower: EventFollower) -> list[str]:
    return [event.message for event in follower.poll()]


def test_follower_gives_new_events_once(database: Database, follower: EventFollower) -> None:
    write_events(database, an_event(message="new"), an_event(message="newer"))

    assert polled(follower) == ["new", "newer"]
    assert polled(follower) == []


def test_follower_gives_events_that_happened_again(database: Database, follower: EventFollower) -> None:
    [again, _] = write_events(database, an_event(message="again"), an_event(message="once"))
    polled(follower)

    happen_again(database, again)

    assert [(event.message, event.count) for event in follower.poll()] == [("again", 2)]
    assert polled(follower) == []


def test_follower_notices_repetitions_of_what_was_there_before(database: Database, follower: EventFollower) -> None:
    [event] = newest_events(database, EVERYTHING, 1)

    happen_again(database, event.id, at=NOON - timedelta(days=1))

    assert polled(follower) == ["before"]


def test_follower_leaves_out_what_was_shown(database: Database, follower: EventFollower) -> None:
    write_events(database, an_event(message="meanwhile"))
    for event in newest_events(database, EVERYTHING, 10):
        follower.mark_shown(event)

    assert polled(follower) == []


@every_database
def test_follower_finds_an_event_that_is_committed_after_a_later_one(
    database: Database, follower: EventFollower
) -> None:
    if database.dialect == "sqlite":
        pytest.skip("one writer at a time")
    with database.transaction() as slow:
        insert_events(slow, an_event(message="slow"))
        write_events(database, an_event(message="fast"))
        assert polled(follower) == ["fast"]

    assert polled(follower) == ["slow"]


def test_follower_gives_wanted_events_only(database: Database) -> None:
    follower = EventFollower(database, EventFilter(job="orders", since=NOON + timedelta(days=1)))

    write_events(database, an_event("main/orders", message="orders"), an_event("main/Orders", message="Orders"))

    assert polled(follower) == ["orders"]
    assert polled(follower) == []


def test_event_that_was_not_taken_comes_again(database: Database, follower: EventFollower) -> None:
    write_events(database, an_event(message="shown"), an_event(message="lost in a broken pipe"))
    events = follower.poll()
    next(events)
    next(events)
    events.close()

    assert polled(follower) == ["lost in a broken pipe"]


@every_database
def test_sweep_finds_repetitions_of_old_events(database: Database, clock: Clock) -> None:
    [old] = write_events(database, an_event(message="old"))
    with database.transaction() as connection:
        far = {**an_event(message="far"), "id": old + event_log.NEAR + 1}
        overriding = " OVERRIDING SYSTEM VALUE" if database.dialect == "postgresql" else ""
        columns = ", ".join(far)
        values = ", ".join(f":{name}" for name in far)
        insert = f"INSERT INTO {EVENTS.name} ({columns}){overriding} VALUES ({values})"
        connection.execute(text(insert), far)
        now = database.now(connection)
    follower = EventFollower(database, EVERYTHING, clock=clock)
    happen_again(database, old, at=now)
    assert polled(follower) == []

    clock.now += event_log.SWEEP_INTERVAL

    assert polled(follower) == ["old"]
    assert polled(follower) == []


def test_what_happened_during_an_outage_is_found_afterwards(database: Database, follower: EventFollower) -> None:
    write_events(database, *(an_event(message=str(number)) for number in range(3)))
    database.close()  # connections are made anew

    assert polled(follower) == ["0", "1", "2"]


@every_database
def test_reader_and_writers_run_side_by_side(database: Database, follower: EventFollower) -> None:
    def write() -> None:
        for number in range(20):
            write_events(database, an_event(message=str(number)))

    writers = [threading.Thread(target=write) for _ in range(3)]
    for writer in writers:
        writer.start()
    found: list[str] = []
    while any(writer.is_alive() for writer in writers):
        found += polled(follower)
    found += polled(follower)

    assert sorted(found, key=int) == sorted([str(number) for number in range(20)] * 3, key=int)


NOW = 1_704_283_200.0
TTL = 86_400.0


class Closed:
    """A fence that lets nobody through."""

    def check(self, connection: Connection) -> None:
        raise LeaseLostError("another daemon leads")


def fill(database: Database, *ages: float) -> None:
    """Write events of some ages in seconds, oldest id first."""
    times = [database.local_time(NOW) - timedelta(seconds=age) for age in ages]
    rows = [an_event(create_time=time, update_time=time) for time in times]
    with database.transaction() as connection:
        for start in range(0, len(rows), 2000):
            connection.execute(insert(EVENTS).inline(), rows[start : start + 2000])


def gap(database: Database, size: int) -> None:
    """Leave out ids, as rolled-back or removed rows do."""
    with database.transaction() as connection:
        if database.dialect == "postgresql":
            connection.execute(text(f"SELECT setval(pg_get_serial_sequence('{EVENTS.name}', 'id'), {size})"))
        elif database.dialect == "mysql":
            connection.execute(text(f"ALTER TABLE {EVENTS.name} AUTO_INCREMENT = {size + 1}"))
        else:
            connection.execute(text(f"UPDATE sqlite_sequence SET seq = {size} WHERE name = '{EVENTS.name}'"))


def cleaner(database: Database, *, pause: float = 0.0) -> EventCleaner:
    return EventCleaner(database, ttl=TTL, clock=lambda: NOW, pause=pause)


def test_events_of_a_clock_that_was_years_ahead_do_not_keep_those_after_them(database: Database) -> None:
    fill(database, -10 * 365 * 86_400.0, *[TTL + 60] * 3, 60.0)

    removed = cleaner(database).clean()

    assert removed == 4
    assert len(rows_of(database, EVENTS)) == 1


@every_database
def test_events_of_another_time_zone_stay(database: Database) -> None:
    fill(database, -26 * 3600.0)

    assert cleaner(database).clean() == 0


def test_events_that_expire_within_a_minute_are_cleaned_up_more_often_than_every_day(database: Database) -> None:
    background = EventCleaner(database, ttl=0.05, first_run=(0.0, 600.0), pause=0.0)
    background.start()
    try:
        for _ in range(3):
            fill(database, 3600.0)
            wait_until("it is removed", lambda: not rows_of(database, EVENTS), 300, interval=0.02)
    finally:
        background.stop()


@pytest.mark.parametrize("expired", [0, 1, 2000, 4096])
@pytest.mark.parametrize("fresh", [0, 128])
@pytest.mark.parametrize("is_gapped", [False, True], ids=["in a row", "with a gap"])
def test_only_expired_events_go(database: Database, expired: int, fresh: int, is_gapped: bool) -> None:
    fill(database, *[TTL + 60] * (expired // 2))
    if is_gapped:
        fill(database, TTL + 60)
        gap(database, 1_000_000)
    fill(database, *[TTL + 60] * (expired - expired // 2))
    fill(database, *[60.0] * fresh)

    removed = cleaner(database).clean()

    assert removed == expired + is_gapped
    assert len(rows_of(database, EVENTS)) == fresh


def test_nine_thousand_events_take_five_statements(database: Database) -> None:
    fill(database, *[TTL + 60] * 9216)

    with counting(database) as sent:
        assert cleaner(database).clean() == 9216

    assert sent.count("DELETE", EVENTS) == 5


def test_a_gap_is_jumped(database: Database) -> None:
    fill(database, TTL + 60)
    gap(database, 1_000_000)
    fill(database, TTL + 60)

    with counting(database) as sent:
        cleaner(database).clean()

    assert sent.count("DELETE", EVENTS) == 2


@every_database
def test_an_event_of_exactly_that_age_stays(database: Database) -> None:
    fill(database, TTL)

    assert cleaner(database).clean() == 0


def test_nothing_goes_behind_a_fresh_event(database: Database) -> None:
    fill(database, 60.0, TTL + 60)

    assert cleaner(database).clean() == 0


def test_a_run_says_what_it_removed(database: Database) -> None:
    fill(database, TTL + 60)

    with LogLines() as lines:
        cleaner(database).clean()

    assert lines.of("events_cleaned_up", rows="1")


def test_a_failure_ends_the_run_and_is_logged(database: Database) -> None:
    with database.transaction() as connection:
        connection.execute(text(f"DROP TABLE {EVENTS.name}"))

    with LogLines() as lines:
        cleaner(database).clean()

    (line,) = lines.of("event_cleanup_failed")
    assert "db upgrade" in line["error"]


def test_without_the_lease_nothing_is_removed(database: Database) -> None:
    fill(database, TTL + 60)

    EventCleaner(database, ttl=TTL, clock=lambda: NOW, fence=Closed(), pause=0.0).clean()

    assert len(rows_of(database, EVENTS)) == 1


class TestInTheBackground:
    def test_it_cleans_soon_after_the_start(self, database: Database) -> None:
        fill(database, TTL + 60)
        background = EventCleaner(database, ttl=TTL, clock=lambda: NOW, first_run=(0.0, 0.01), pause=0.0)

        background.start()

        wait_until("the event is gone", lambda: not rows_of(database, EVENTS), 300, interval=0.01)
        background.stop()

    def test_the_first_run_waits_a_while(self, database: Database) -> None:
        fill(database, TTL + 60)
        background = EventCleaner(database, ttl=TTL, clock=lambda: NOW)

        background.start()
        background.stop()

        assert len(rows_of(database, EVENTS)) == 1

    def test_it_stops_in_the_middle_of_a_pause(self, database: Database) -> None:
        fill(database, *[TTL + 60] * (BATCH + 1))
        background = EventCleaner(database, ttl=TTL, clock=lambda: NOW, first_run=(0.0, 0.0), pause=3600.0)
        background.start()
        wait_until("a step is done", lambda: len(rows_of(database, EVENTS)) == 1, 300, interval=0.01)

        background.stop()

        assert len(rows_of(database, EVENTS)) == 1
        assert "event-cleaner" not in {thread.name for thread in threading.enumerate()}


@every_database
def test_figures_go_with_their_events_whoever_removed_those(database: Database) -> None:
    old, new = (SqlEventHandler(database, clock=partial(float, now)) for now in (NOW - TTL - 60, NOW - 60))
    figures = Event(EventType.NORMAL, "Reason", "Text.", figures=(("saved", 1.0),))
    for handler in (old, old, new):
        handler.handle_scaling_report(a_context(), a_report(is_executed=True))
        handler.handle_event(a_context(), figures)
    with database.transaction() as connection:
        connection.execute(delete(EVENTS).where(EVENTS.c.id == 1))  # as the Java process does

    cleaner(database).clean()

    left = [row["id"] for row in rows_of(database, EVENTS)]
    assert [row["event_id"] for row in rows_of(database, SCALINGS)] == left[:1]
    assert [row["event_id"] for row in rows_of(database, EVENT_FIGURES)] == left[1:]
