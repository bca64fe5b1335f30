"""What people ordered, as every pass over a cluster reads it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import structlog

from flink_autoscaler.core.errors import StoreError
from flink_autoscaler.core.model.job import JobKey
from flink_autoscaler.core.model.orders import NO_ORDERS, Orders
from flink_autoscaler.core.ports.order_book import OrderBook
from flink_autoscaler.core.supervise.order_book import held

log = structlog.get_logger(__name__)


class PassOrders:
    """Reads the orders for the jobs of a cluster. Belongs to one thread at a time.

    Args:
        cluster: Name of the cluster.
        order_book: Keeps what people ordered for single jobs.
        standing: Orders for every job, such as a dry run of the whole daemon.
    """

    def __init__(self, cluster: str, order_book: OrderBook, standing: Orders) -> None:
        self._cluster = cluster
        self._order_book = order_book
        self._standing = standing
        self._last: Mapping[JobKey, Orders] = {}

    def read(self, now_ms: int) -> Callable[[JobKey], Orders]:
        """Return what gives the orders for a job; where they cannot be read, nothing is changed in this pass."""
        is_known = True
        try:
            self._last = self._order_book.orders(self._cluster)
        except StoreError as error:
            # Who watches the store says that it is away; metrics are collected meanwhile.
            log.debug("orders_unknown", error=str(error))
            is_known = False
        return lambda job_key: self._given(job_key) if is_known else held(self._given(job_key), now_ms)

    def tidy(self, now_ms: int) -> None:
        """Drop orders that have ended.

        Raises:
            StoreError: The store is away.
        """
        self._order_book.tidy(self._cluster, now_ms)

    def _given(self, job_key: JobKey) -> Orders:
        given = self._last.get(job_key, NO_ORDERS)
        if self._standing.dry_run is None:
            return given
        # What is to be done once waits until it can be.
        return replace(given, dry_run=given.dry_run or self._standing.dry_run, rollback=None, reset=None)
