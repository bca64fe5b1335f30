from __future__ import annotations

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
