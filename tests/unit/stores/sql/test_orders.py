"""Books of orders: the contract, and what the one in the database does besides."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import insert, update

from flink_autoscaler.core.errors import StoreError
from flink_autoscaler.core.model.orders import PauseScope
from flink_autoscaler.core.ports.order_store import OrderStore
from flink_autoscaler.stores.heap import HeapOrderStore
from flink_autoscaler.stores.sql.database.database import Database, DatabaseSettings
from flink_autoscaler.stores.sql.database.failures import LeaseLostError
from flink_autoscaler.stores.sql.known_jobs import KnownJob, known_jobs
from flink_autoscaler.stores.sql.lease import Lease, LeaseFence
from flink_autoscaler.stores.sql.orders import SqlOrderStore
from flink_autoscaler.stores.sql.tables import EVENTS, JOBS, ORDERS, SET_ASIDE
from testkit.contracts.stores.orders import OrderStoreContract, pausing, pinning, resuming
from testkit.scenarios.runner import LogLines
from testkit.servers.databases import counting, create_tables, every_database, rows_of

_FOREVER = 10**15


class TestHeapOrderBook(OrderStoreContract):
    def make_book(self) -> OrderStore:
        return HeapOrderStore()


@every_database
class TestSqlOrderBook(OrderStoreContract):
    @pytest.fixture(autouse=True)
    def _database(self, database: Database) -> None:
        self.database = database

    def make_book(self) -> OrderStore:
        return SqlOrderStore(self.database)


@pytest.fixture
def book(database: Database) -> SqlOrderStore:
    return SqlOrderStore(database, keeps_events=True)


def test_an_order_of_another_process_is_seen(database: Database, book: SqlOrderStore) -> None:
    daemon = SqlOrderStore(database)
    daemon.orders("main")

    book.change("main/a", pausing())

    assert set(daemon.orders("main")) == {"main/a"}


def test_a_book_that_has_not_changed_is_one_small_query(database: Database, book: SqlOrderStore) -> None:
    for number in range(20):
        book.change(f"main/job-{number}", pausing())
    first = book.orders("main")

    with counting(database) as statements:
        second = book.orders("main")
        book.tidy("main", 0)

    assert second is first
    assert len(statements.texts) == 1
    assert "sum(" in statements.texts[0]


def test_a_changed_book_is_read_once(database: Database, book: SqlOrderStore) -> None:
    book.orders("main")
    book.change("main/a", pausing())

    with counting(database) as statements:
        book.orders("main")

    assert statements.count("SELECT", ORDERS) == 2


@every_database
def test_a_command_and_its_event_are_written_together(database: Database, book: SqlOrderStore) -> None:
    book.change("main/a", pausing("alice"))

    (event,) = rows_of(database, EVENTS)
    assert (event["job_key"], event["reason"], event["event_type"]) == ("main/a", "Paused", "Normal")
    assert event["message"] == "Scaling is paused until somebody resumes it, by alice: deployment"
    assert (event["event_count"], event["create_time"]) == (1, event["update_time"])


def test_every_command_is_an_event_of_its_own(database: Database, book: SqlOrderStore) -> None:
    book.change("main/a", pinning("x"))
    book.change("main/a", pinning("x"))
    book.change("main/a", resuming)

    assert [event["reason"] for event in rows_of(database, EVENTS)] == ["Pinned", "Pinned"]


def test_without_its_event_a_command_is_not_given(database: Database, book: SqlOrderStore) -> None:
    with database.transaction() as connection:
        EVENTS.drop(connection)

    with pytest.raises(StoreError):
        book.change("main/a", pausing())

    assert rows_of(database, ORDERS) == []


def test_events_stay_out_of_a_table_that_is_not_used(database: Database) -> None:
    SqlOrderStore(database).change("main/a", pausing())

    assert rows_of(database, EVENTS) == []


def test_versions_grow_whatever_the_clock_does(database: Database, book: SqlOrderStore) -> None:
    book.change("main/a", pinning("x"))
    with database.transaction() as connection:
        connection.execute(update(ORDERS).values(version=_FOREVER))
    before = book.orders("main")

    book.change("main/a", pinning("y"))

    assert book.orders("main") != before
    (row,) = rows_of(database, ORDERS)
    assert row["version"] == _FOREVER + 1


@pytest.mark.parametrize("text", ["", "nonsense", "[]", '{"pause":{}}', '{"pins":[{"pattern":"x"}]}', '{"reset":7}'])
def test_orders_that_cannot_be_read_count_as_a_pause(database: Database, book: SqlOrderStore, text: str) -> None:
    with database.transaction() as connection:
        row = {"job_key": "main/a", "cluster": "main", "orders": text, "version": 1}
        connection.execute(insert(ORDERS).values(row))
    book.change("main/b", pinning("x"))

    found = book.orders("main")

    pause = found["main/a"].pause_for(PauseScope.UP, _FOREVER)
    assert pause is not None
    assert "cannot be read" in pause.signed.reason
    assert len(found["main/b"].pins) == 1
    book.change("main/a", resuming)
    assert book.orders("main")["main/a"].pause is None


def _damage(database: Database, job_key: str, **values: Any) -> None:
    with database.transaction() as connection:
        connection.execute(update(ORDERS).where(ORDERS.c.job_key == job_key).values(values))


@every_database
@pytest.mark.parametrize(
    "text",
    [
        "nonsense",
        '{"resumed_ms":-1}',
        '{"pause":{"signed":{"who":"a","reason":"b","at_ms":1},"until_ms":9e17}}',
        r'{"dry_run":{"who":"\udfff","reason":"b","at_ms":1}}',
        "[" * 10_000,
    ],
    ids=["no JSON", "before 1970", "in the year 28 million", "half a character", "nested too deeply"],
)
def test_orders_that_cannot_be_read_are_set_aside_to_the_letter_once(
    database: Database, book: SqlOrderStore, text: str
) -> None:
    for name in "ab":
        book.change(f"main/{name}", pinning("x"))
    _damage(database, "main/a", orders=text)

    with LogLines() as lines:
        for _ in range(3):
            found = book.orders("main")
            book.tidy("main", 1)

    assert found["main/a"].pause_for(PauseScope.BOTH, 1) is not None
    assert [pin.pattern for pin in found["main/b"].pins] == ["x"]
    (kept,) = rows_of(database, SET_ASIDE)
    assert (kept["job_key"], kept["state_type"], kept["state_value"]) == ("main/a", "orders", text)
    assert [line["job_key"] for line in lines.of("commands_quarantined")] == ["main/a"]
    assert book.quarantined_count == 1


def test_orders_that_are_replaced_by_a_command_are_set_aside_before(database: Database, book: SqlOrderStore) -> None:
    book.change("main/a", pinning("x"))
    _damage(database, "main/a", orders="nonsense")

    book.change("main/a", resuming)

    assert [kept["state_value"] for kept in rows_of(database, SET_ASIDE)] == ["nonsense"]
    assert book.orders("main")["main/a"].pause is None


@pytest.fixture
def file(tmp_path: Path) -> Iterator[Database]:
    with closing(Database(DatabaseSettings(f"jdbc:sqlite:{tmp_path / 'a.db'}"))) as database:
        create_tables(database)
        yield database


@pytest.mark.parametrize("version", ["'junk'", "x'00ff'", "-1", "9223372036854775807", "1e300", "1.5"])
def test_version_that_is_no_instant_harms_nobody_and_is_mended_once(file: Database, version: str) -> None:
    book = SqlOrderStore(file)
    for name in "abc":
        book.change(f"main/{name}", pinning(name))
    with file.transaction() as connection:
        connection.exec_driver_sql(f"UPDATE fa_order SET version = {version} WHERE job_key != 'main/c'")

    with LogLines() as lines:
        for _ in range(3):
            found = book.orders("main")
            book.tidy("main", 1)
    book.change("main/a", pinning("z"))

    assert {key: [pin.pattern for pin in orders.pins] for key, orders in found.items()} == {
        "main/a": ["a"],
        "main/b": ["b"],
        "main/c": ["c"],
    }
    assert [line["job_key"] for line in lines.of("commands_quarantined")] == ["main/a", "main/b"]
    assert all(0 < row["version"] < _FOREVER for row in rows_of(file, ORDERS))
    assert [pin.pattern for pin in SqlOrderStore(file).orders("main")["main/a"].pins] == ["a", "z"]


@pytest.mark.parametrize("cluster", ["'junk'", "x'00ff'", "x'6d61696e'", "5", "''", "'other'", "'main '"])
def test_orders_whose_cluster_is_not_that_of_their_job_still_count_and_are_mended_once(
    file: Database, cluster: str
) -> None:
    book = SqlOrderStore(file)
    book.orders("main")
    book.change("main/a", pausing())
    book.change("MAIN/b", pausing())
    with file.transaction() as connection:
        connection.exec_driver_sql(f"UPDATE fa_order SET cluster = {cluster} WHERE job_key = 'main/a'")

    with LogLines() as lines:
        found = []
        for _ in range(3):
            found.append(book.orders("main"))
            book.orders("other")
            for each in ("main", "other"):
                book.tidy(each, 1)

    assert [set(each) for each in found] == [{"main/a"}] * 3
    assert all(each["main/a"].pause is not None for each in found)
    assert [(line["job_key"], "cluster" in line["problem"]) for line in lines.of("commands_quarantined")] == [
        ("main/a", True)
    ]
    assert {row["job_key"]: row["cluster"] for row in rows_of(file, ORDERS)} == {"main/a": "main", "MAIN/b": "MAIN"}
    assert set(SqlOrderStore(file).orders("other")) == set()


def test_key_that_is_no_text_is_no_job(file: Database) -> None:
    book = SqlOrderStore(file)
    for name in "ab":
        book.change(f"main/{name}", pausing(lasts_ms=1))
    with file.transaction() as connection:
        connection.exec_driver_sql("UPDATE fa_order SET job_key = x'00ff' WHERE job_key = 'main/a'")

    found = book.orders("main")
    book.tidy("main", _FOREVER)

    assert set(found) == {"main/b"}


def test_parts_that_a_later_version_adds_do_no_harm(database: Database, book: SqlOrderStore) -> None:
    with database.transaction() as connection:
        row = {"job_key": "main/a", "cluster": "main", "orders": '{"later":[1],"resumed_ms":5}', "version": 1}
        connection.execute(insert(ORDERS).values(row))

    orders = book.orders("main")["main/a"]

    assert (orders.pause, orders.resumed_ms) == (None, 5)


def test_a_book_without_its_table_fails(database: Database, book: SqlOrderStore) -> None:
    with database.transaction() as connection:
        ORDERS.drop(connection)

    with pytest.raises(StoreError, match="db upgrade"):
        book.orders("main")


@every_database
def test_keys_that_look_alike_are_different_jobs(book: SqlOrderStore) -> None:
    book.change("main/a", pinning("x"))
    book.change("main/A", pinning("y"))

    found = book.orders("main")

    assert {key: [pin.pattern for pin in orders.pins] for key, orders in found.items()} == {
        "main/a": ["x"],
        "main/A": ["y"],
    }


def test_a_daemon_without_the_lease_removes_nothing(database: Database) -> None:
    lease = Lease(database, name="group", owner="late", ttl=60.0)
    fenced = SqlOrderStore(database, fence=LeaseFence(lease, lambda: lease.token))
    fenced.change("main/a", pausing(lasts_ms=1))
    fenced.orders("main")

    with pytest.raises(LeaseLostError):
        fenced.tidy("main", _FOREVER)
    with pytest.raises(LeaseLostError):
        fenced.forget(["main/a"])

    assert len(rows_of(database, ORDERS)) == 1


def _pin_many(settings: DatabaseSettings, name: str, count: int) -> None:
    with closing(Database(settings)) as database:
        book = SqlOrderStore(database, keeps_events=True)
        for number in range(count):
            book.change("main/a", pinning(f"{name}-{number}"))


@every_database
def test_commands_over_several_connections_are_all_kept(
    database: Database, database_settings: DatabaseSettings
) -> None:
    # A pool of its own for each, as processes have: nothing in memory keeps one from getting in the other's way.
    with ThreadPoolExecutor(3) as people:
        list(people.map(lambda name: _pin_many(database_settings, name, 10), ["alice", "bob", "carol"]))

    orders = SqlOrderStore(database).orders("main")["main/a"]

    assert len(orders.pins) == 30
    assert len(rows_of(database, EVENTS)) == 30


def with_job(database: Database, job_key: str, **values: Any) -> None:
    """Make the row that a saved job has."""
    cluster, slash, _ = job_key.partition("/")
    now = database.local_time(1.0)
    row = {"job_key": job_key, "cluster": cluster if slash else "", "writer": "ours", "updated_at": now, **values}
    with database.transaction() as connection:
        connection.execute(insert(JOBS).values(row))


def test_known_jobs_have_a_state_of_ours_or_orders(database: Database, book: SqlOrderStore) -> None:
    with_job(database, "main/b", job_id="0" * 32)
    with_job(database, "main/theirs", writer="theirs")
    with_job(database, "elsewhere/c")
    with_job(database, "ab" * 16)
    book.change("main/a", pausing())
    book.change("main/b", pausing())

    found = known_jobs(database, writer="ours", clusters=["main"])

    assert found == (KnownJob("ab" * 16), KnownJob("main/a"), KnownJob("main/b", "0" * 32))
    assert [job.name for job in found] == ["ab" * 16, "a", "b"]
