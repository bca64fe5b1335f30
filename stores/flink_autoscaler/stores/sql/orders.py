"""The orders of people, in the database, where every daemon and every command sees them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from contextlib import suppress
from functools import cache, partial
from typing import Final, NamedTuple

from pydantic import TypeAdapter, ValidationError
from sqlalchemy import ColumnElement, Connection, String, bindparam, delete, func, insert, select, update

from flink_autoscaler.core.model.job import JobKey, cluster_of
from flink_autoscaler.core.model.orders import NO_ORDERS, Orders, PauseOrder, Signed
from flink_autoscaler.core.ports.order_book import Command, Ordered
from flink_autoscaler.core.supervise.order_book import settled
from flink_autoscaler.stores.sql.database.database import Database, Fence, same_key
from flink_autoscaler.stores.sql.database.failures import ConflictError
from flink_autoscaler.stores.sql.events.handler import insert_event
from flink_autoscaler.stores.sql.tables import ORDERS

_ATTEMPTS: Final = 3


class _Mark(NamedTuple):
    """What tells whether anything has changed: versions only grow, and a new row begins with the time."""

    rows: int
    total: int
    latest: int


class _Page(NamedTuple):
    """The orders of one cluster as they were read last."""

    mark: _Mark
    orders: Mapping[JobKey, Orders]


class _Entry(NamedTuple):
    """The row of one job; without a version there is none."""

    orders: Orders = NO_ORDERS
    version: int | None = None


class SqlOrderBook:
    """Keeps orders in ``fa_order`` (``OrderBook``), one row per job.

    A book that has not changed since the last reading costs one statement that answers with three numbers, however
    many orders there are. A command locks the row of its job, so that of two people each builds on what the other one
    ordered. It needs no lease: a person acts, and whoever leads obeys.

    Orders that cannot be read count as a pause: not to know what was ordered is no reason to go on.

    Args:
        database: Where the tables are; not closed with the book.
        fence: Checked first where the daemon itself removes something.
        keeps_events: Whether to write the event about a command, in the same transaction, to the table of events.
    """

    def __init__(self, database: Database, *, fence: Fence | None = None, keeps_events: bool = False) -> None:
        self._database = database
        self._fence = fence
        self._keeps_events = keeps_events
        self._pages: dict[str, _Page] = {}

    def orders(self, cluster: str) -> Mapping[JobKey, Orders]:
        """Return the orders for jobs of a cluster, and for those whose keys do not name one."""
        page = self._database.run(partial(self._read, cluster), read_only=True)
        self._pages[cluster] = page
        return page.orders

    def change(self, job_key: JobKey, command: Command) -> Ordered:
        """Apply a command to the orders of one job, and write the event about it."""
        for _ in range(_ATTEMPTS - 1):
            with suppress(ConflictError):  # somebody else made the row at the same time
                return self._database.run(partial(self._change, job_key, command))
        return self._database.run(partial(self._change, job_key, command))

    def tidy(self, cluster: str, now_ms: int) -> None:
        """Remove what is over from the orders that were read last; without anything no statement is sent."""
        page = self._pages.get(cluster)
        for job_key, orders in page.orders.items() if page is not None else ():
            if settled(orders, now_ms) != orders:
                self._database.run(partial(self._settle, job_key, now_ms), fence=self._fence)

    def forget(self, job_keys: Collection[JobKey]) -> None:
        """Delete the orders for some jobs."""
        if job_keys:
            self._database.run(partial(_forget, job_keys), fence=self._fence)

    def _read(self, cluster: str, connection: Connection) -> _Page:
        version = ORDERS.c.version
        is_here = ORDERS.c.cluster.in_({cluster, cluster_of("")})
        numbers = select(func.count(), func.coalesce(func.sum(version), 0), func.coalesce(func.max(version), 0))
        mark = _Mark(*map(int, connection.execute(numbers.where(is_here)).one()))
        page = self._pages.get(cluster)
        if page is not None and page.mark == mark:
            return page
        # The rows may be newer than the numbers, never older: then the next reading finds other numbers.
        return _Page(mark, _orders_where(connection, is_here) if mark.rows else {})

    def _change(self, job_key: JobKey, command: Command, connection: Connection) -> Ordered:
        entry = _locked(connection, job_key)
        # The clock is read after the lock was granted, which may have taken a while.
        now_ms = self._database.now_ms(connection)
        ordered = command(entry.orders, now_ms)
        _write(connection, job_key, entry, ordered.orders, now_ms)
        if self._keeps_events and ordered.event is not None:
            insert_event(connection, job_key, ordered.event, self._database.local_time(now_ms / 1000))
        return ordered

    def _settle(self, job_key: JobKey, now_ms: int, connection: Connection) -> None:
        entry = _locked(connection, job_key)
        _write(connection, job_key, entry, settled(entry.orders, now_ms), self._database.now_ms(connection))


def _forget(job_keys: Collection[JobKey], connection: Connection) -> None:
    is_key = same_key(connection, ORDERS.c.job_key, bindparam("key", type_=String()))
    connection.execute(delete(ORDERS).where(is_key), [{"key": job_key} for job_key in job_keys])


def _orders_where(connection: Connection, condition: ColumnElement[bool]) -> dict[JobKey, Orders]:
    rows = connection.execute(select(ORDERS.c.job_key, ORDERS.c.orders, ORDERS.c.version).where(condition))
    return {row.job_key: _decode(row.orders, row.version) for row in rows}


def _locked(connection: Connection, job_key: JobKey) -> _Entry:
    """Read the row of a job and keep others from changing it until the transaction ends."""
    row = select(ORDERS.c.orders, ORDERS.c.version).where(same_key(connection, ORDERS.c.job_key, job_key))
    found = connection.execute(row.with_for_update()).one_or_none()
    return _Entry() if found is None else _Entry(_decode(found.orders, found.version), found.version)


def _write(connection: Connection, job_key: JobKey, entry: _Entry, orders: Orders, now_ms: int) -> None:
    """Replace the row of a job; orders that order nothing have none."""
    if orders == entry.orders:
        return
    is_key = same_key(connection, ORDERS.c.job_key, job_key)
    if orders == NO_ORDERS:
        connection.execute(delete(ORDERS).where(is_key))
        return
    values = {"orders": _encode(orders), "version": max(now_ms, (entry.version or 0) + 1)}
    if entry.version is None:
        row = {"job_key": job_key, "cluster": cluster_of(job_key), **values}
        connection.execute(insert(ORDERS).values(row))
    else:
        connection.execute(update(ORDERS).where(is_key).values(values))


def _encode(orders: Orders) -> str:
    return _adapter().dump_json(orders, exclude_defaults=True).decode()


def _decode(text: str, version: int) -> Orders:
    try:
        return _adapter().validate_json(text)
    except (ValidationError, UnicodeError):
        reason = "the orders for this job cannot be read; resume it and order anew"
        return Orders(pause=PauseOrder(Signed("flink-autoscaler", reason, version)))


@cache
def _adapter() -> TypeAdapter[Orders]:
    return TypeAdapter(Orders)
