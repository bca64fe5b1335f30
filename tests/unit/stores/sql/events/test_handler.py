"""Events and reports as rows."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, text

from flink_autoscaler.core.errors import StoreError
from flink_autoscaler.core.model.events import Event, EventType
from flink_autoscaler.core.model.job import JobKey
from flink_autoscaler.core.model.notifications import notification_identity
from flink_autoscaler.core.model.syntax import parse_duration
from flink_autoscaler.core.ports.deployment import AutoScalerEventHandler
from flink_autoscaler.stores.sql.database.database import Database
from flink_autoscaler.stores.sql.database.failures import LeaseLostError
from flink_autoscaler.stores.sql.events.handler import SqlEventHandler
from flink_autoscaler.stores.sql.tables import EVENT_FIGURES, EVENTS, SCALINGS
from flink_autoscaler.stores.testing.event_handler_contract import (
    AutoScalerEventHandlerContract,
    RecordedEvent,
    a_context,
    a_report,
)
from testkit.builders.sql import write_events
from testkit.servers.databases import counting, every_database, rows_of

SAMPLES = Path(__file__).parents[4] / "fixtures" / "jdbc-java"
START = 1_704_283_200.0
HALF_HOUR = parse_duration("30 min")


@every_database
class TestSqlEventHandler(AutoScalerEventHandlerContract):
    @pytest.fixture(autouse=True)
    def _database(self, database: Database) -> None:
        self.database = database

    def make_handler(self) -> AutoScalerEventHandler:
        return SqlEventHandler(self.database)

    def recorded(self, handler: AutoScalerEventHandler, job_key: JobKey) -> Sequence[RecordedEvent]:
        rows = rows_of(self.database, EVENTS)
        return [RecordedEvent(row["reason"], row["message"]) for row in rows if row["job_key"] == job_key]


class Clock:
    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> float:
        return self.now


class Closed:
    """A fence that lets nobody through."""

    def check(self, connection: Connection) -> None:
        raise LeaseLostError("another daemon leads")


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def handler(database: Database, clock: Clock) -> SqlEventHandler:
    return SqlEventHandler(database, clock=clock)


def event(message: str = "Text.", key: str | None = "key", interval: str | None = "30 min") -> Event:
    return Event(EventType.WARNING, "Reason", message, key, None if interval is None else parse_duration(interval))


@every_database
def test_a_row_has_all_facts(database: Database, handler: SqlEventHandler) -> None:
    handler.handle_event(a_context("main/orders"), event())

    (row,) = rows_of(database, EVENTS)
    assert row == {
        "id": 1,
        "create_time": database.local_time(START),
        "update_time": database.local_time(START),
        "job_key": "main/orders",
        "reason": "Reason",
        "event_type": "Warning",
        "message": "Text.",
        "event_count": 1,
        "event_key": notification_identity("main/orders", event()),
    }


@every_database
def test_a_repetition_is_counted_and_refreshes_the_message(
    database: Database, handler: SqlEventHandler, clock: Clock
) -> None:
    for number in range(3):
        clock.now = START + number * 600
        handler.handle_event(a_context(), event(f"Text {number}."))

    (row,) = rows_of(database, EVENTS)
    assert (row["event_count"], row["message"]) == (3, "Text 2.")
    assert row["create_time"] == database.local_time(START)
    assert row["update_time"] == database.local_time(START) + timedelta(seconds=1200)


@pytest.mark.parametrize(
    ("seconds", "rows"),
    [
        pytest.param(1799, 1, id="a second less than the interval"),
        pytest.param(1800, 2, id="exactly the interval"),
        pytest.param(1801, 2, id="a second more"),
    ],
)
def test_the_interval_begins_with_the_row(
    database: Database, handler: SqlEventHandler, clock: Clock, seconds: int, rows: int
) -> None:
    handler.handle_event(a_context(), event())
    clock.now = START + 1000
    handler.handle_event(a_context(), event())
    clock.now = START + seconds

    handler.handle_event(a_context(), event())

    assert len(rows_of(database, EVENTS)) == rows


def test_a_new_row_is_the_one_that_counts_on(database: Database, handler: SqlEventHandler, clock: Clock) -> None:
    for seconds in (0, 1800, 1900):
        clock.now = START + seconds
        handler.handle_event(a_context(), event())

    assert [row["event_count"] for row in rows_of(database, EVENTS)] == [1, 2]


def test_an_interval_of_zero_never_merges(database: Database, handler: SqlEventHandler) -> None:
    for _ in range(2):
        handler.handle_event(a_context(), event(interval="0 s"))

    assert [row["event_count"] for row in rows_of(database, EVENTS)] == [1, 1]


def test_without_a_key_the_message_is_the_identity(database: Database, handler: SqlEventHandler) -> None:
    for message in ("one", "two", "one"):
        handler.handle_event(a_context(), event(message, key=None))

    assert [(row["message"], row["event_count"]) for row in rows_of(database, EVENTS)] == [("one", 2), ("two", 1)]


@pytest.mark.parametrize(
    ("interval", "expected"),
    [
        pytest.param(None, (0, 1, 0), id="without an interval"),
        pytest.param("30 min", (1, 1, 0), id="the first with an interval"),
    ],
)
def test_statement_counts(
    database: Database, handler: SqlEventHandler, interval: str | None, expected: tuple[int, int, int]
) -> None:
    with counting(database) as sent:
        handler.handle_event(a_context(), event(interval=interval))

    assert (sent.count("SELECT", EVENTS), sent.count("INSERT", EVENTS), sent.count("UPDATE", EVENTS)) == expected


def test_a_repetition_is_one_query_and_one_update(database: Database, handler: SqlEventHandler) -> None:
    handler.handle_event(a_context(), event())

    with counting(database) as sent:
        handler.handle_event(a_context(), event())

    assert [text.split()[0] for text in sent.texts] == ["SELECT", "UPDATE"]


def test_recommendations_are_merged_by_their_parallelisms(database: Database, handler: SqlEventHandler) -> None:
    for new in (4, 5, 4):
        handler.handle_scaling_report(a_context(), a_report(is_executed=False, new=new))

    assert [row["event_count"] for row in rows_of(database, EVENTS)] == [2, 1]


@pytest.mark.parametrize(
    ("job_key", "other"),
    [
        pytest.param("job2", event(), id="job"),
        pytest.param("JOB", event(), id="case of the job"),
        pytest.param("job", Event(EventType.NORMAL, "Reason", "Text.", "key", HALF_HOUR), id="type"),
        pytest.param("job", Event(EventType.WARNING, "Other", "Text.", "key", HALF_HOUR), id="reason"),
        pytest.param("job", event(key="key2"), id="key"),
    ],
)
def test_the_key_tells_events_apart(job_key: JobKey, other: Event) -> None:
    assert notification_identity("job", event()) != notification_identity(job_key, other)


def test_the_key_is_the_same_in_every_process() -> None:
    assert notification_identity("job", event()) == "0dc413ab5c44507e452113b83305fd7267965729"


def test_key_and_message_share_one_name_space() -> None:
    assert notification_identity("job", event("text", key=None)) == notification_identity(
        "job", event("other", key="text")
    )


@every_database
def test_rows_of_the_java_process_stay_as_they_are(database: Database, clock: Clock) -> None:
    """Its keys depend on the process that wrote them, so nothing is ever counted in its rows."""
    name = "mysql" if database.dialect == "mysql" else "postgres"
    java = json.loads((SAMPLES / f"event_handler_{name}.json").read_text())["rows"]
    now = database.local_time(START)
    write_events(database, *({**row, "create_time": now, "update_time": now} for row in map(without_id, java)))
    before = rows_of(database, EVENTS)
    seen = before[7]

    repeated = Event(EventType(seen["event_type"]), seen["reason"], seen["message"], None, HALF_HOUR)
    SqlEventHandler(database, clock=clock).handle_event(a_context(seen["job_key"]), repeated)

    assert rows_of(database, EVENTS)[:-1] == before
    assert len(before) == 21


def without_id(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name != "id"}


@every_database
@pytest.mark.parametrize(
    ("message", "expected"),
    [
        pytest.param("a\0b", "a\N{SYMBOL FOR NULL}b", id="NUL"),
        pytest.param("a\ud800b", "a?b", id="half a character"),
        pytest.param(
            "'; DROP TABLE fa_job; -- %s :x \U0001f680", "'; DROP TABLE fa_job; -- %s :x \U0001f680", id="SQL"
        ),
    ],
)
def test_any_message_is_written(database: Database, handler: SqlEventHandler, message: str, expected: str) -> None:
    handler.handle_event(a_context(), event(message))
    handler.handle_event(a_context(), event(message))

    (row,) = rows_of(database, EVENTS)
    assert (row["message"], row["event_count"]) == (expected, 2)


def test_without_the_lease_nothing_is_written(database: Database) -> None:
    handler = SqlEventHandler(database, fence=Closed())

    with pytest.raises(LeaseLostError):
        handler.handle_event(a_context(), event())

    assert rows_of(database, EVENTS) == []


def test_a_missing_table_says_what_to_do(database: Database, handler: SqlEventHandler) -> None:
    with database.transaction() as connection:
        connection.execute(text(f"DROP TABLE {EVENTS.name}"))

    with pytest.raises(StoreError, match="flink-autoscaler db upgrade"):
        handler.handle_event(a_context(), event())


@pytest.mark.parametrize("ttl", [0.0, 3600.0])
def test_closing_is_immediate(database: Database, ttl: float) -> None:
    handler = SqlEventHandler(database, event_ttl=ttl)

    handler.close()

    handler.handle_event(a_context(), event())


@every_database
def test_a_report_is_queried_per_vertex_without_parsing(
    database: Database, handler: SqlEventHandler, clock: Clock
) -> None:
    handler.handle_scaling_report(a_context("main/orders"), a_report(is_executed=False))
    clock.now = START + 60
    handler.handle_scaling_report(a_context("main/orders"), a_report(is_executed=False))
    handler.handle_scaling_report(a_context("main/orders"), a_report(is_executed=True))

    query = "SELECT vertex_name, new_parallelism, capacity FROM fa_scaling WHERE job_key = :job AND is_executed = 1"
    with database.transaction(read_only=True) as connection:
        found = connection.execute(text(query), {"job": "main/orders"}).all()
    assert [tuple(row) for row in found] == [("Source: orders", 4, 100.0)]
    recommended, executed = rows_of(database, SCALINGS)
    assert (recommended["event_id"], executed["event_id"]) == tuple(row["id"] for row in rows_of(database, EVENTS))
    assert (recommended["at_ms"], recommended["current_parallelism"]) == (round(clock.now * 1000), 2)
    # Neither an infinity nor a rate that is not known has a form in every database.
    assert (executed["expected_capacity"], executed["target_rate"]) == (None, None)


def test_figures_of_an_event_are_those_of_its_last_repetition(database: Database, handler: SqlEventHandler) -> None:
    for saved in (1.0, 2.5):
        handler.handle_event(a_context(), replace(event(), figures=(("saved", saved), ("late", math.inf))))

    assert [(row["name"], row["value"]) for row in rows_of(database, EVENT_FIGURES)] == [("late", None), ("saved", 2.5)]


def test_a_report_without_the_lease_leaves_no_figures(database: Database) -> None:
    handler = SqlEventHandler(database, fence=Closed())

    with pytest.raises(LeaseLostError):
        handler.handle_scaling_report(a_context(), a_report(is_executed=True))

    assert rows_of(database, SCALINGS) == []
