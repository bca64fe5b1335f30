"""State store, event handler and orders of a database that is being watched: while it is away they fail at once."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TypeVar

from flink_autoscaler.core.errors import StoreError
from flink_autoscaler.core.model.events import Event, ScalingReport
from flink_autoscaler.core.model.job import JobAutoScalerContext, JobKey
from flink_autoscaler.core.model.orders import Orders
from flink_autoscaler.core.model.state import JobState
from flink_autoscaler.core.ports.deployment import AutoScalerEventHandler, AutoScalerStateStore, SharedStateStore
from flink_autoscaler.core.ports.order_book import Command, OrderBook, Ordered
from flink_autoscaler.standalone.ha.store_watch import StoreWatch

T = TypeVar("T")


class WatchedStore:
    """A state store whose errors are looked into (an ``AutoScalerStateStore``)."""

    def __init__(self, store: AutoScalerStateStore, watch: StoreWatch) -> None:
        self._store = store
        self._watch = watch
        self._in_memory: set[JobKey] = set()

    def load(self, job_key: JobKey) -> JobState:
        """Return what was saved last. While the database is away, that is in memory or not to be had."""
        if job_key not in self._in_memory:
            self._watch.require_up()
        state = _watched(self._watch, lambda: self._store.load(job_key))
        self._in_memory.add(job_key)
        return state

    def save(self, job_key: JobKey, state: JobState) -> None:
        """Replace the state of one job."""
        self._watch.require_up()
        _watched(self._watch, lambda: self._store.save(job_key, state))

    def delete(self, job_key: JobKey) -> None:
        """Forget one job."""
        self._watch.require_up()
        self._in_memory.discard(job_key)
        _watched(self._watch, lambda: self._store.delete(job_key))

    def job_keys(self) -> frozenset[JobKey]:
        """Return the keys of all jobs with a state."""
        self._watch.require_up()
        return _watched(self._watch, self._store.job_keys)

    def forget(self) -> None:
        """Drop what is kept in memory, where the store can."""
        self._in_memory.clear()
        if isinstance(self._store, SharedStateStore):
            self._store.forget()

    def close(self) -> None:
        """Release the store's resources."""
        self._store.close()


class WatchedEventHandler:
    """An event handler whose errors are looked into (an ``AutoScalerEventHandler``)."""

    def __init__(self, handler: AutoScalerEventHandler, watch: StoreWatch) -> None:
        self._handler = handler
        self._watch = watch

    def handle_event(self, context: JobAutoScalerContext, event: Event) -> None:
        """Take one event."""
        self._watch.require_up()
        _watched(self._watch, lambda: self._handler.handle_event(context, event))

    def handle_scaling_report(self, context: JobAutoScalerContext, report: ScalingReport) -> None:
        """Take one report."""
        self._watch.require_up()
        _watched(self._watch, lambda: self._handler.handle_scaling_report(context, report))

    def close(self) -> None:
        """Release the handler's resources."""
        self._handler.close()


class WatchedOrderBook:
    """A book of orders whose errors are looked into (an ``OrderBook``)."""

    def __init__(self, book: OrderBook, watch: StoreWatch) -> None:
        self._book = book
        self._watch = watch

    def orders(self, cluster: str) -> Mapping[JobKey, Orders]:
        """Return the orders for jobs of a cluster. While the database is away, they are not to be had."""
        self._watch.require_up()
        return _watched(self._watch, lambda: self._book.orders(cluster))

    def change(self, job_key: JobKey, command: Command) -> Ordered:
        """Apply a command to the orders of one job."""
        self._watch.require_up()
        return _watched(self._watch, lambda: self._book.change(job_key, command))

    def tidy(self, cluster: str, now_ms: int) -> None:
        """Remove what is over from the orders that were read last."""
        self._watch.require_up()
        _watched(self._watch, lambda: self._book.tidy(cluster, now_ms))

    def forget(self, job_keys: Collection[JobKey]) -> None:
        """Delete the orders for some jobs."""
        self._watch.require_up()
        _watched(self._watch, lambda: self._book.forget(job_keys))


def _watched(watch: StoreWatch, work: Callable[[], T]) -> T:
    try:
        return work()
    except StoreError:
        watch.suspect()
        raise
