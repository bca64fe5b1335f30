from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from flink_autoscaler.core.cycle.recording import RecordStore, StoredRecord
from flink_autoscaler.stores.sql.database.database import Database
from flink_autoscaler.stores.sql.records import BATCH, SqlRecordStore
from flink_autoscaler.stores.sql.tables import DECISIONS
from testkit.servers.databases import every_database, rows_of


def a_record(at_ms: int, job_key: str = "main/orders", text: str = "what happened") -> StoredRecord:
    return StoredRecord(job_key, at_ms, "executed", "hold", text)


@pytest.fixture
def store(database: Database) -> RecordStore:
    return SqlRecordStore(database, most_per_job=3)


def test_a_job_without_records_has_no_latest_one(store: RecordStore) -> None:
    assert store.latest("main/orders") is None
    assert store.job_keys() == frozenset()


@every_database
def test_what_was_added_is_found_to_the_letter(store: RecordStore) -> None:
    record = StoredRecord(
        "main/\u00e9\U0001f680 %_", 1_700_000_000_123, "window_filling", "rescale", "text \u4e16" * 9000
    )

    store.add([record])

    assert store.latest(record.job_key) == record
    assert store.job_keys() == {record.job_key}


@pytest.mark.parametrize(
    ("at_ms", "expected"),
    [
        pytest.param(None, 30, id="no instant: the newest"),
        pytest.param(1_000, 30, id="after all"),
        pytest.param(30, 30, id="at the very instant"),
        pytest.param(29, 20, id="between two"),
        pytest.param(9, None, id="before all"),
    ],
)
def test_the_latest_is_the_newest_at_or_before(store: RecordStore, at_ms: int | None, expected: int | None) -> None:
    store.add([a_record(10), a_record(20), a_record(30), a_record(25, "main/other")])

    found = store.latest("main/orders", at_ms)

    assert (None if found is None else found.at_ms) == expected


@every_database
def test_of_two_records_of_an_instant_the_later_added_is_the_latest(store: RecordStore) -> None:
    store.add([a_record(10, text="first")])
    store.add([a_record(10, text="second")])

    assert store.latest("main/orders") == a_record(10, text="second")


@every_database
def test_job_keys_that_differ_in_case_are_different_jobs(store: RecordStore) -> None:
    keys = ["job", "JOB"]
    store.add([a_record(number, key) for number, key in enumerate(keys)])

    assert store.job_keys() == set(keys)
    assert [found.at_ms for key in keys if (found := store.latest(key))] == [0, 1]


def test_only_the_newest_records_of_a_job_are_kept(store: RecordStore) -> None:
    for at_ms in range(10, 60, 10):
        store.add([a_record(at_ms)])
    store.add([a_record(5, "main/other")])

    assert [store.latest("main/orders", at_ms) for at_ms in (10, 29)] == [None, None]
    assert store.latest("main/orders", 30) == a_record(30)
    assert store.latest("main/other") == a_record(5, "main/other")


def test_old_records_expire(store: RecordStore) -> None:
    expired = [a_record(10), replace(a_record(10), job_key="main/gone")]
    store.add([*expired, a_record(20)])

    assert store.expire(20) == len(expired)
    assert store.latest("main/orders", 19) is None
    assert store.latest("main/orders") == a_record(20)
    assert store.job_keys() == {"main/orders"}


@every_database
def test_oldest_records_of_any_job_go_until_the_rest_fits(store: RecordStore) -> None:
    store.add([a_record(at_ms, f"main/job-{at_ms}", "x" * 1000) for at_ms in (30, 10, 20, 40)])

    kept = store.shrink(4000), len(store.job_keys())
    removed = store.shrink(2500)

    assert kept == (0, 4)
    assert removed == 2
    assert store.job_keys() == {"main/job-30", "main/job-40"}
    assert store.shrink(0) == 2


@every_database
def test_threads_add_records_of_different_jobs_at_the_same_time(store: RecordStore) -> None:
    jobs = [f"main/job-{number}" for number in range(8)]

    def add(job_key: str) -> None:
        for at_ms in range(5):
            store.add([a_record(at_ms, job_key)])

    with ThreadPoolExecutor(len(jobs)) as threads:
        list(threads.map(add, jobs))

    assert store.job_keys() == set(jobs)
    assert all(store.latest(job_key) == a_record(4, job_key) for job_key in jobs)


def test_records_survive_a_restart_and_name_their_writer_and_cluster(database: Database) -> None:
    SqlRecordStore(database, writer="our installation").add([a_record(10)])

    assert SqlRecordStore(database).latest("main/orders") == a_record(10)
    assert [(row["cluster"], row["writer"]) for row in rows_of(database, DECISIONS)] == [("main", "our installation")]


@every_database
def test_more_records_than_fit_into_a_statement_expire(database: Database) -> None:
    store = SqlRecordStore(database, most_per_job=10)
    store.add([a_record(number, f"main/{number % 50}") for number in range(2 * BATCH + 1)])

    assert store.expire(10_000) == 2 * BATCH + 1
    assert rows_of(database, DECISIONS) == []
