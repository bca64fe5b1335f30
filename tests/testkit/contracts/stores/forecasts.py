"""The tests that every store of load profiles has to pass."""

from __future__ import annotations

from abc import ABC, abstractmethod
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from flink_autoscaler.core.model.load_profile import BUCKETS_PER_WEEK, LoadProfile, ProfileResult
from flink_autoscaler.core.ports.forecast_store import ForecastStore

ASOF = 1_793_577_600.0


def a_profile(asof: float = ASOF) -> LoadProfile:
    """Make a profile in which every field has a value of its own, and one quarter hour is unknown."""
    shares: tuple[float | None, ...] = tuple(1 / 3 + slot / BUCKETS_PER_WEEK for slot in range(BUCKETS_PER_WEEK - 1))
    return LoadProfile(
        q50=(None, *shares),
        q90=(None, *(share and 1.2 * share for share in shares)),
        weeks=5,
        level=123_456.7,
        growth=1.04,
        asof=asof,
        timezone="Europe/Berlin",
        missing=0.01,
        wape=0.07,
        exceed=0.11,
    )


def a_result(job_key: str = "main/orders", source_id: str = "source", asof: float = ASOF) -> ProfileResult:
    """Make a result with a profile."""
    return ProfileResult(job_key, source_id, asof, a_profile(asof))


def without_profile(result: ProfileResult, problem: str = "too little history") -> ProfileResult:
    """Make the result of a source for which no profile could be made."""
    return replace(result, profile=None, problem=problem)


class ForecastStoreContract(ABC):
    """What every :class:`ForecastStore` does."""

    @abstractmethod
    def make_store(self) -> ForecastStore:
        """Make a store without results. Called once per test."""

    @pytest.fixture
    def store(self) -> ForecastStore:
        return self.make_store()

    def test_a_job_without_results_has_none(self, store: ForecastStore) -> None:
        assert store.load("main/orders") == {}
        assert store.revisions() == {}

    def test_nothing_to_save_is_fine(self, store: ForecastStore) -> None:
        store.save([])

        assert store.revisions() == {}

    def test_what_was_saved_is_loaded_to_the_last_digit(self, store: ForecastStore) -> None:
        results = {"a": a_result(source_id="a"), "b": without_profile(a_result(source_id="b"), "\u00e9 \u4e16 100 %")}

        store.save(results.values())

        assert store.load("main/orders") == results

    def test_a_profile_that_was_not_tested_stays_so(self, store: ForecastStore) -> None:
        untested = replace(a_profile(), wape=None, exceed=None)

        store.save([replace(a_result(), profile=untested)])

        assert store.load("main/orders")["source"].profile == untested

    def test_results_may_come_one_after_the_other(self, store: ForecastStore) -> None:
        store.save(a_result(f"main/{number}") for number in range(5))

        assert set(store.revisions()) == {f"main/{number}" for number in range(5)}

    def test_a_newer_result_replaces_the_older_one_as_a_whole(self, store: ForecastStore) -> None:
        sparse = replace(a_profile(ASOF + 1), q50=(None,) * BUCKETS_PER_WEEK, q90=(None,) * BUCKETS_PER_WEEK)
        newer = ProfileResult("main/orders", "source", ASOF + 1, sparse)
        store.save([a_result()])

        store.save([newer])

        assert store.load("main/orders") == {"source": newer}

    def test_a_result_without_a_profile_removes_the_earlier_one(self, store: ForecastStore) -> None:
        newer = without_profile(a_result(asof=ASOF + 1))
        store.save([a_result()])

        store.save([newer])

        assert store.load("main/orders") == {"source": newer}

    def test_other_sources_and_jobs_stay(self, store: ForecastStore) -> None:
        others = [a_result(source_id="other"), a_result("main/payments")]
        store.save([a_result(), *others])

        store.save([a_result(asof=ASOF + 1)])

        assert store.load("main/orders")["other"] == others[0]
        assert store.load("main/payments") == {"source": others[1]}

    def test_a_job_has_another_revision_whenever_a_source_has_another_result(self, store: ForecastStore) -> None:
        other, same_asof = a_result(source_id="other"), replace(a_result(), profile=replace(a_profile(), wape=0.08))
        seen = []

        for results in ([a_result()], [other], [same_asof], [a_result(asof=ASOF + 900)], [without_profile(other)]):
            store.save(results)
            seen.append(store.revisions()["main/orders"])

        assert len(set(seen)) == len(seen)

    def test_the_same_results_have_the_same_revision(self, store: ForecastStore) -> None:
        store.save([a_result(source_id="a"), a_result(source_id="b"), a_result("main/payments")])
        before = store.revisions()

        store.save([a_result(source_id="b")])
        store.save([a_result(source_id="a")])

        assert store.revisions() == before

    def test_forgetting_forgets_only_that_job(self, store: ForecastStore) -> None:
        store.save([a_result(), a_result("main/payments")])

        store.forget(["main/orders", "main/unknown"])

        assert store.load("main/orders") == {}
        assert set(store.revisions()) == {"main/payments"}

    def test_keys_that_differ_in_case_are_different(self, store: ForecastStore) -> None:
        results = [a_result("job", "s"), a_result("JOB", "s"), a_result("job", "S", ASOF + 1)]

        store.save(results)

        assert store.load("job") == {"s": results[0], "S": results[2]}
        assert set(store.revisions()) == {"job", "JOB"}

    def test_threads_save_different_jobs_at_the_same_time(self, store: ForecastStore) -> None:
        jobs = [f"main/job-{number}" for number in range(4)]

        def save(job_key: str) -> None:
            for number in range(3):
                store.save([a_result(job_key, asof=ASOF + number)])

        with ThreadPoolExecutor(len(jobs)) as threads:
            list(threads.map(save, jobs))

        newest = {job: {"source": a_result(job, asof=ASOF + 2)} for job in jobs}
        assert {job: store.load(job) for job in store.revisions()} == newest
