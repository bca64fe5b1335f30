"""Tests that every state store and every event handler has to pass.

Needs pytest. Subclass a class in a test module and say how an instance is made::

    class TestHeapStateStore(AutoScalerStateStoreContract):
        def make_store(self) -> AutoScalerStateStore:
            return HeapStateStore()
"""

from flink_autoscaler.stores.testing.event_handler_contract import (
    AutoScalerEventHandlerContract,
    RecordedEvent,
    a_context,
    a_report,
)
from flink_autoscaler.stores.testing.store_contract import AutoScalerStateStoreContract, full_state, same_state

__all__ = [
    "AutoScalerEventHandlerContract",
    "AutoScalerStateStoreContract",
    "RecordedEvent",
    "a_context",
    "a_report",
    "full_state",
    "same_state",
]
