from __future__ import annotations

import dataclasses

from flink_autoscaler.core.model.state import EMPTY_STATE
from flink_autoscaler.core.ports.deployment import AutoScalerStateStore
from flink_autoscaler.stores import HeapStateStore
from flink_autoscaler.stores.testing.store_contract import AutoScalerStateStoreContract, full_state


class TestHeapStateStore(AutoScalerStateStoreContract):
    def make_store(self) -> AutoScalerStateStore:
        return HeapStateStore()


def test_load_hands_out_the_saved_state_itself() -> None:
    store, state = HeapStateStore(), full_state()

    store.save("job", state)

    assert store.load("job") is state


def test_two_stores_share_nothing() -> None:
    first, second = HeapStateStore(), HeapStateStore()

    first.save("job", full_state())

    assert second.job_keys() == frozenset()


def test_only_the_jobs_that_went_last_keep_their_metric_window() -> None:
    store, state = HeapStateStore(most_whole=2, most_gone=3), full_state()
    for job_key in ("here", "a", "b", "c", "d"):
        store.save(job_key, state)

    for job_key in ("a", "b", "c", "d"):
        store.release(job_key)

    assert store.job_keys() == {"here", "b", "c", "d"}
    assert store.load("a") == EMPTY_STATE
    assert store.load("b") == dataclasses.replace(state, samples=())
    assert (store.load("c"), store.load("here")) == (state, state)


def test_job_that_is_back_does_not_count_as_gone() -> None:
    store, state = HeapStateStore(most_whole=1, most_gone=1), full_state()
    for job_key in ("a", "b"):
        store.save(job_key, state)

    store.release("a")
    store.load("a")
    store.release("b")

    assert (store.load("a"), store.load("b")) == (state, state)


def test_job_without_a_state_leaves_nothing_when_it_goes() -> None:
    store = HeapStateStore()

    store.release("unknown")

    assert store.job_keys() == frozenset()
