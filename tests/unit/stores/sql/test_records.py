from __future__ import annotations

import pytest
from databases import rows_of

from flink_autoscaler.core.cycle.recording import RecordStore
from flink_autoscaler.stores.heap.records import HeapRecordStore
from flink_autoscaler.stores.sql.database.database import Database
from flink_autoscaler.stores.sql.records import BATCH, SqlRecordStore
from flink_autoscaler.stores.sql.tables import DECISIONS
from flink_autoscaler.stores.testing.record_store_contract import MOST_PER_JOB, RecordStoreContract, a_record


class TestHeapRecordStore(RecordStoreContract):
    def make_store(self) -> RecordStore:
        return HeapRecordStore(most_per_job=MOST_PER_JOB)


class TestSqlRecordStore(RecordStoreContract):
    @pytest.fixture(autouse=True)
    def _database(self, database: Database) -> None:
        self.database = database

    def make_store(self) -> RecordStore:
        return SqlRecordStore(self.database, most_per_job=MOST_PER_JOB)


def test_the_heap_forgets_the_oldest_of_all_jobs_when_it_is_full() -> None:
    store = HeapRecordStore(most_bytes=30)

    store.add([a_record(10, "a", "x" * 10), a_record(5, "b", "x" * 10), a_record(20, "a", "x" * 20)])

    assert store.job_keys() == {"a"}
    assert store.latest("a", 19) == a_record(10, "a", "x" * 10)


def test_a_record_that_is_larger_than_the_heap_may_be_is_not_kept() -> None:
    store = HeapRecordStore(most_bytes=30)

    store.add([a_record(10, text="x" * 31)])

    assert store.job_keys() == frozenset()


def test_records_survive_a_restart_and_name_their_writer_and_cluster(database: Database) -> None:
    SqlRecordStore(database, writer="our installation").add([a_record(10)])

    assert SqlRecordStore(database).latest("main/orders") == a_record(10)
    assert [(row["cluster"], row["writer"]) for row in rows_of(database, DECISIONS)] == [("main", "our installation")]


def test_more_records_than_fit_into_a_statement_expire(database: Database) -> None:
    store = SqlRecordStore(database, most_per_job=10)
    store.add([a_record(number, f"main/{number % 50}") for number in range(2 * BATCH + 1)])

    assert store.expire(10_000) == 2 * BATCH + 1
    assert rows_of(database, DECISIONS) == []
