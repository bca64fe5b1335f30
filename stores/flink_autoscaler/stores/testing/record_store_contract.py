"""The tests that every store of recorded passes has to pass."""

# ruff: noqa: S101, D102 - these are tests: they assert, and their names are their documentation

from __future__ import annotations

from abc import ABC, abstractmethod
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from flink_autoscaler.core.cycle.recording import RecordStore, StoredRecord

MOST_PER_JOB = 3
"""Records of one job that the store under test keeps."""


def a_record(at_ms: int, job_key: str = "main/orders", text: str = "what happened") -> StoredRecord:
    """Make a record."""
    return StoredRecord(job_key, at_ms, "executed", "hold", text)


class RecordStoreContract(ABC):
    """What every :class:`RecordStore` does."""

    @abstractmethod
    def make_store(self) -> RecordStore:
        """Make a store without records that keeps three per job. Called once per test."""

    @pytest.fixture
    def store(self) -> RecordStore:
        return self.make_store()

    def test_a_job_without_records_has_no_latest_one(self, store: RecordStore) -> None:
        assert store.latest("main/orders") is None
        assert store.job_keys() == frozenset()

    def test_nothing_to_add_is_fine(self, store: RecordStore) -> None:
        store.add([])

        assert store.job_keys() == frozenset()

    def test_what_was_added_is_found_to_the_letter(self, store: RecordStore) -> None:
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
    def test_the_latest_is_the_newest_at_or_before(
        self, store: RecordStore, at_ms: int | None, expected: int | None
    ) -> None:
        store.add([a_record(10), a_record(20), a_record(30), a_record(25, "main/other")])

        found = store.latest("main/orders", at_ms)

        assert (None if found is None else found.at_ms) == expected

    def test_of_two_records_of_an_instant_the_later_added_is_the_latest(self, store: RecordStore) -> None:
        store.add([a_record(10, text="first")])
        store.add([a_record(10, text="second")])

        assert store.latest("main/orders") == a_record(10, text="second")

    def test_job_keys_that_differ_in_case_are_different_jobs(self, store: RecordStore) -> None:
        keys = ["job", "JOB"]
        store.add([a_record(number, key) for number, key in enumerate(keys)])

        assert store.job_keys() == set(keys)
        assert [found.at_ms for key in keys if (found := store.latest(key))] == [0, 1]

    def test_only_the_newest_records_of_a_job_are_kept(self, store: RecordStore) -> None:
        for at_ms in range(10, 60, 10):
            store.add([a_record(at_ms)])
        store.add([a_record(5, "main/other")])

        assert [store.latest("main/orders", at_ms) for at_ms in (10, 29)] == [None, None]
        assert store.latest("main/orders", 30) == a_record(30)
        assert store.latest("main/other") == a_record(5, "main/other")

    def test_old_records_expire(self, store: RecordStore) -> None:
        expired = [a_record(10), replace(a_record(10), job_key="main/gone")]
        store.add([*expired, a_record(20)])

        assert store.expire(20) == len(expired)
        assert store.latest("main/orders", 19) is None
        assert store.latest("main/orders") == a_record(20)
        assert store.job_keys() == {"main/orders"}

    def test_threads_add_records_of_different_jobs_at_the_same_time(self, store: RecordStore) -> None:
        jobs = [f"main/job-{number}" for number in range(8)]

        def add(job_key: str) -> None:
            for at_ms in range(5):
                store.add([a_record(at_ms, job_key)])

        with ThreadPoolExecutor(len(jobs)) as threads:
            list(threads.map(add, jobs))

        assert store.job_keys() == set(jobs)
        assert all(store.latest(job_key) == a_record(4, job_key) for job_key in jobs)
