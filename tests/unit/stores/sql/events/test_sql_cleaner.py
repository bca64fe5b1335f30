"""Old events go, others stay."""

from __future__ import annotations

import threading
from datetime import timedelta
from functools import partial

import pytest
from sqlalchemy import Connection, delete, insert, text

from flink_autoscaler.core.model.events import Event, EventType
from flink_autoscaler.stores.sql.database.database import Database
from flink_autoscaler.stores.sql.database.failures import LeaseLostError
from flink_autoscaler.stores.sql.events.handler import BATCH, EventCleaner, SqlEventHandler
from flink_autoscaler.stores.sql.tables import EVENT_FIGURES, EVENTS, SCALINGS
from flink_autoscaler.stores.testing.event_handler_contract import a_context, a_report
from testkit.builders.sql import an_event
from testkit.clusters.flink.waiting import wait_until
from testkit.scenarios.runner import LogLines
from testkit.servers.databases import counting, rows_of

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

    (line,) = lines.of("event_clean_up_failed")
    assert "db upgrade" in line["error"]


def test_without_the_lease_nothing_is_removed(database: Database) -> None:
    fill(database, TTL + 60)

    EventCleaner(database, ttl=TTL, clock=lambda: NOW, fence=Closed(), pause=0.0).clean()

    assert len(rows_of(database, EVENTS)) == 1


@pytest.mark.parametrize("database_settings", ["sqlite"], indirect=True)
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
