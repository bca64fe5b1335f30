"""The orders of people, in the memory of the process."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping

from flink_autoscaler.core.model.job import JobKey
from flink_autoscaler.core.model.orders import NO_ORDERS, Orders
from flink_autoscaler.core.ports.order_book import Command, Ordered
from flink_autoscaler.core.supervise.order_book import settled


class HeapOrderBook:
    """Keeps orders until the process ends (``OrderBook``), for programs that give them in the process itself.

    Args:
        now_ms: Epoch milliseconds.
    """

    def __init__(self, *, now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000) -> None:
        self._now_ms = now_ms
        self._lock = threading.Lock()
        self._orders: dict[JobKey, Orders] = {}

    def orders(self, cluster: str) -> Mapping[JobKey, Orders]:
        """Return the orders for jobs of a cluster, and for those whose keys do not name one."""
        with self._lock:
            return {key: orders for key, orders in self._orders.items() if _place(key) in ("", cluster)}

    def change(self, job_key: JobKey, command: Command) -> Ordered:
        """Apply a command to the orders of one job."""
        with self._lock:
            ordered = command(self._orders.get(job_key, NO_ORDERS), self._now_ms())
            self._replace(job_key, ordered.orders)
        return ordered

    def tidy(self, cluster: str, now_ms: int) -> None:
        """Remove what is over from the orders for jobs of a cluster."""
        for job_key in self.orders(cluster):
            with self._lock:
                self._replace(job_key, settled(self._orders.get(job_key, NO_ORDERS), now_ms))

    def forget(self, job_keys: Collection[JobKey]) -> None:
        """Delete the orders for some jobs."""
        with self._lock:
            for job_key in job_keys:
                self._orders.pop(job_key, None)

    def _replace(self, job_key: JobKey, orders: Orders) -> None:
        if orders == NO_ORDERS:
            self._orders.pop(job_key, None)
        else:
            self._orders[job_key] = orders


def _place(job_key: JobKey) -> str:
    cluster, slash, _ = job_key.partition("/")
    return cluster if slash else ""
