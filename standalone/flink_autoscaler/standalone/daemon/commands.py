"""What people ordered for the jobs of one cluster, as a pass takes it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import structlog

from flink_autoscaler.core.errors import StoreError
from flink_autoscaler.core.model.job import JobKey, name_key
from flink_autoscaler.core.model.orders import NO_ORDERS, Orders
from flink_autoscaler.core.options.context import JobAutoScalerContext
from flink_autoscaler.core.ports.deployment import JobList
from flink_autoscaler.core.ports.order_book import OrderBook
from flink_autoscaler.core.supervise.order_book import held, orders_for

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class PassCommands:
    """The orders that hold in one pass.

    Attributes:
        book: By job key or name, as they were read last.
        standing: For every job, such as a dry run of the whole daemon.
        is_known: Whether they could be read; else nothing is changed in this pass.
    """

    book: Mapping[JobKey, Orders]
    standing: Orders
    now_ms: int
    is_known: bool = True

    def of(self, context: JobAutoScalerContext) -> Orders:
        """Return the orders for a job."""
        book, dry_run = self.book, self.standing.dry_run
        orders = orders_for(context.job_key, context.other_keys, book, self.now_ms) if book else NO_ORDERS
        if dry_run is not None:
            # What is to be done once waits until it can be.
            orders = replace(orders, dry_run=orders.dry_run or dry_run, rollback=None, reset=None)
        return orders if self.is_known else held(orders, self.now_ms)

    def followed(self, job_list: JobList) -> frozenset[JobKey]:
        """Return keys with orders that no job has now but one that is there has had: they hold for it."""
        absent = self.book.keys() - job_list.present
        if not absent:
            return frozenset()
        return frozenset(absent.intersection(key for job in job_list.jobs for key in job.other_keys))


class ClusterCommands:
    """Reads the orders for the jobs of a cluster. Belongs to the thread of its passes.

    Args:
        cluster: Its name.
        book: Keeps the orders.
        standing: Orders for every job.
    """

    def __init__(self, cluster: str, book: OrderBook, standing: Orders) -> None:
        self._cluster = cluster
        self._book = book
        self._standing = standing
        self._last: Mapping[JobKey, Orders] = {}
        self._sharing: set[JobKey] = set()

    def read(self, now_ms: int) -> PassCommands:
        """Return the orders for a pass; where they cannot be read, those that were read last, with every job held."""
        try:
            self._last = self._book.orders(self._cluster)
        except StoreError as error:
            # Who watches the store says that it is away; metrics are collected meanwhile.
            log.debug("orders_unknown", error=str(error))
            return PassCommands(self._last, self._standing, now_ms, is_known=False)
        return PassCommands(self._last, self._standing, now_ms)

    def tidy(self, now_ms: int) -> None:
        """Remove what is over. May raise :class:`StoreError`."""
        self._book.tidy(self._cluster, now_ms)

    def note_shared_names(self, contexts: Iterable[JobAutoScalerContext]) -> None:
        """Log once of every job that another one has its name, and that orders for the name hold for both."""
        shared = {each.job_key for each in contexts if name_key(each.job_key) != each.job_key}
        for job_key in sorted(shared - self._sharing):
            name = name_key(job_key)
            log.warning("job_name_shared", job_key=job_key, name_key=name, has_orders=name in self._last)
        self._sharing = shared
