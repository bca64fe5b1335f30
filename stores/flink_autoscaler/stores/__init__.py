"""Where job state is kept and events go.

``flink_autoscaler.stores.testing`` has the tests that every implementation has to pass; they need pytest and are
therefore not imported here.
"""

from flink_autoscaler.stores.heap import HeapStateStore
from flink_autoscaler.stores.logging_handler import LoggingEventHandler

__all__ = ["HeapStateStore", "LoggingEventHandler"]
