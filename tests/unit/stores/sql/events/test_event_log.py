"""Events as they are read from a database: filtered, in pages, and as they come."""

from __future__ import annotations

import threading
from datetime import datetime, timedelta

import pytest
from sqlalchemy import text

from flink_autoscaler.core.model.events import EventType
from flink_autoscaler.stores.sql.database.database import Database
from flink_autoscaler.stores.sql.events import log as event_log
from flink_autoscaler.stores.sql.events.log import PAGE, EventFilter, EventFollower, newest_events
from flink_autoscaler.stores.sql.tables import EVENTS
from testkit.builders.sql import NOON, an_event, insert_events, write_events
from testkit.servers.databases import counting

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


def test_table_without_events_gives_none(database: Database) -> None:
    assert messages(database) == []


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


def test_limit_counts_what_is_wanted(database: Database) -> None:
    keys = ("main/orders", "main/orders", "main/Orders", "main/Orders")
    write_events(database, *(an_event(key, message=key) for key in keys))

    assert messages(database, EventFilter(job="orders"), limit=2) == ["main/orders", "main/orders"]


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


def test_follower_gives_many_events(database: Database, follower: EventFollower) -> None:
    write_events(database, *(an_event(message=str(number)) for number in range(2 * PAGE + 1)))

    assert polled(follower) == [str(number) for number in range(2 * PAGE + 1)]


def test_event_that_was_not_taken_comes_again(database: Database, follower: EventFollower) -> None:
    write_events(database, an_event(message="shown"), an_event(message="lost in a broken pipe"))
    events = follower.poll()
    next(events)
    next(events)
    events.close()

    assert polled(follower) == ["lost in a broken pipe"]


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
