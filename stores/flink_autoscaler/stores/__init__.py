"""Stores of job state, and sinks of events.

``flink_autoscaler.stores.testing`` has the tests that every implementation has to pass; they need pytest and are
therefore not imported here.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from flink_autoscaler.stores.heap import HeapStateStore
    from flink_autoscaler.stores.logging_handler import LoggingEventHandler

__all__ = ["HeapStateStore", "LoggingEventHandler"]


def __getattr__(name: str) -> Any:
    """Import a class when it is asked for: whoever reads a database alone pays for neither of them."""
    if name == "HeapStateStore":
        from flink_autoscaler.stores.heap import HeapStateStore  # noqa: PLC0415

        return HeapStateStore
    if name == "LoggingEventHandler":
        from flink_autoscaler.stores.logging_handler import LoggingEventHandler  # noqa: PLC0415

        return LoggingEventHandler
    raise AttributeError(name)
