"""Where job state is kept and events go.

``flink_autoscaler.stores.testing.contract`` has the tests that every implementation has to pass; it needs pytest
and is therefore not imported here.
"""

from flink_autoscaler.stores.heap.state import HeapStateStore
from flink_autoscaler.stores.logging_handler import LoggingEventHandler

__all__ = ["HeapStateStore", "LoggingEventHandler"]
