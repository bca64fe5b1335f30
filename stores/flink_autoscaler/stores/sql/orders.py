"""The orders of people, in the database, where every daemon and every command sees them."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from datetime import datetime
from functools import lru_cache, partial
from typing import Any, Final, NamedTuple, cast

import structlog
from sqlalchemy import (
    ColumnElement,
    Connection,
    DateTime,
    Select,
    String,
    bindparam,
    delete,
    func,
    insert,
    literal,
    select,
    update,
)

from flink_autoscaler.core.model.codec import Codec
from flink_autoscaler.core.model.job import JobKey, cluster_of
from flink_autoscaler.core.model.orders import NO_ORDERS, AuditStamp, Orders, PauseOrder
from flink_autoscaler.core.ports.order_store import Command, CommandResult
from flink_autoscaler.core.rescale.operator_commands import without_expired
from flink_autoscaler.stores.sql.database.database import Database, Fence, same_key
from flink_autoscaler.stores.sql.database.failures import ConflictError
from flink_autoscaler.stores.sql.events.handler import insert_event
from flink_autoscaler.stores.sql.state.codec import read_json
from flink_autoscaler.stores.sql.tables import ORDERS, SET_ASIDE

log = structlog.get_logger(__name__)

KIND: Final = "orders"
"""What orders that were set aside are called there, where states have their kind."""

UNREADABLE: Final = "the orders for this job cannot be read; resume it and order anew"

NOWHERE: Final = cluster_of("")
"""The cluster of keys that name none."""

_COLUMNS: Final = (ORDERS.c.job_key, ORDERS.c.cluster, ORDERS.c.orders, ORDERS.c.version)
_ATTEMPTS: Final = 3
_PROBLEM_LENGTH: Final = 500
_HIGHEST_VERSION: Final = 1 << 53
_REMAINDER: Final = 1_000_003
"""Versions are added up by what is left of them: their sum itself may be too large for the database."""


class _OrdersPage(NamedTuple):
    """The orders of one cluster as they were read last.

    Attributes:
        mark: What tells whether anything has changed: how many rows, their versions, the latest of them. Versions only
            grow, and a new row begins with the time.
        damaged: Jobs whose rows are not as they should be, with the reason.
    """

    mark: tuple[object, ...]
    orders: Mapping[JobKey, Orders]
    damaged: Mapping[JobKey, str]


class _Entry(NamedTuple):
    """The row of one job.

    Attributes:
        version: 0 where it is no number that can be counted on.
        damage: What is wrong with the row; None when nothing is.
        is_stored: Whether there is a row.
    """

    orders: Orders = NO_ORDERS
    version: int = 0
    damage: str | None = None
    is_stored: bool = False


class SqlOrderStore:
    """Keeps orders in ``fa_order`` (``OrderStore``), one row per job.

    A book that has not changed since the last reading costs one statement that answers with three numbers, however
    many orders there are. A command locks the row of its job, so that of two people each builds on what the other one
    ordered. It needs no lease: a person acts, and whoever leads obeys.

    Orders that cannot be read count as a pause: not to know what was ordered is no reason to go on. A row that is not
    as it should be harms its own job alone. Whoever leads sets it aside, to the letter, and puts what it counts as in
    its place.

    Args:
        database: Where the tables are; not closed with the book.
        fence: Checked first where the daemon itself removes something.
        keeps_events: Whether to write the event about a command, in the same transaction, to the table of events.
    """

    def __init__(self, database: Database, *, fence: Fence | None = None, keeps_events: bool = False) -> None:
        self._database = database
        self._fence = fence
        self._keeps_events = keeps_events
        self._pages: dict[str, _OrdersPage] = {}
        self._set_aside_count = 0

    @property
    def quarantined_count(self) -> int:
        """Number of rows set aside since the start."""
        return self._set_aside_count

    def orders(self, cluster: str) -> Mapping[JobKey, Orders]:
        """Return the orders for jobs of a cluster, and for those whose keys do not name one."""
        page = self._database.run(partial(self._read, cluster), read_only=True)
        self._pages[cluster] = page
        return page.orders

    def change(self, job_key: JobKey, command: Command) -> CommandResult:
        """Apply a command to the orders of one job, and write the event about it."""
        for _ in range(_ATTEMPTS - 1):
            with suppress(ConflictError):  # somebody else made the row at the same time
                return self._database.run(partial(self._change, job_key, command))
        return self._database.run(partial(self._change, job_key, command))

    def tidy(self, cluster: str, now_ms: int) -> None:
        """Remove what is over from the orders that were read last; without anything no statement is sent."""
        page = self._pages.get(cluster)
        if page is None:
            return
        for job_key in page.damaged:
            self._repair(job_key)
        for job_key, orders in page.orders.items():
            if without_expired(orders, now_ms) != orders:
                self._database.run(partial(self._settle, job_key, now_ms), fence=self._fence)

    def forget(self, job_keys: Collection[JobKey]) -> None:
        """Delete the orders for some jobs."""
        if job_keys:
            self._database.run(partial(_forget, job_keys), fence=self._fence)

    def _read(self, cluster: str, connection: Connection) -> _OrdersPage:
        mark = tuple(connection.execute(_numbers(cluster)).one())
        page = self._pages.get(cluster)
        if page is not None and page.mark == mark:
            return page
        # The rows may be newer than the numbers, never older: then the next reading finds other numbers.
        found = _entries_where(connection, _is_here(cluster)) if mark[0] else ()
        entries = {job_key: entry for job_key, entry in found if cluster_of(job_key) in (cluster, NOWHERE)}
        damaged = {job_key: entry.damage for job_key, entry in entries.items() if entry.damage is not None}
        return _OrdersPage(mark, {job_key: entry.orders for job_key, entry in entries.items()}, damaged)

    def _repair(self, job_key: JobKey) -> None:
        """Set a damaged row aside, and tell about it once: from then on there is a sound one."""

        def write(connection: Connection) -> str | None:
            entry = _lock_entry(connection, job_key)
            if entry.damage is not None:
                now_ms = self._database.now_ms(connection)
                _write(self._database, connection, job_key, entry, entry.orders, now_ms)
            return entry.damage

        damage = self._database.run(write, fence=self._fence)
        if damage is not None:
            self._set_aside_count += 1
            log.warning("commands_quarantined", job_key=job_key, problem=damage)

    def _change(self, job_key: JobKey, command: Command, connection: Connection) -> CommandResult:
        entry = _lock_entry(connection, job_key)
        # The clock is read after the lock was granted, which may have taken a while.
        now_ms = self._database.now_ms(connection)
        ordered = command(entry.orders, now_ms)
        _write(self._database, connection, job_key, entry, ordered.orders, now_ms)
        if self._keeps_events and ordered.event is not None:
            insert_event(connection, job_key, ordered.event, self._database.local_time(now_ms / 1000))
        return ordered

    def _settle(self, job_key: JobKey, now_ms: int, connection: Connection) -> None:
        entry = _lock_entry(connection, job_key)
        now = self._database.now_ms(connection)
        _write(self._database, connection, job_key, entry, without_expired(entry.orders, now_ms), now)


def _is_here(cluster: str) -> ColumnElement[bool]:
    # By the key, too: whose cluster is damaged would else be lost without a word, and with them a pause.
    is_named = ORDERS.c.job_key.startswith(f"{cluster}/", autoescape=True)
    return (ORDERS.c.cluster == cluster) | (ORDERS.c.cluster == NOWHERE) | is_named


@lru_cache(maxsize=1000)  # every pass of a cluster asks
def _numbers(cluster: str) -> Select[int, Any, Any]:
    version = ORDERS.c.version
    return select(func.count(), func.sum(version % _REMAINDER), func.max(version)).where(_is_here(cluster))


def _forget(job_keys: Collection[JobKey], connection: Connection) -> None:
    is_key = same_key(connection, ORDERS.c.job_key, bindparam("key", type_=String()))
    connection.execute(delete(ORDERS).where(is_key), [{"key": job_key} for job_key in job_keys])


def _entries_where(connection: Connection, condition: ColumnElement[bool]) -> Iterator[tuple[JobKey, _Entry]]:
    rows = connection.execute(select(*_COLUMNS).where(condition))
    # In SQLite a key may be something else than text; then it is no job's.
    return ((row.job_key, _entry(*row)) for row in rows if isinstance(row.job_key, str))


def _lock_entry(connection: Connection, job_key: JobKey) -> _Entry:
    """Read the row of a job and keep others from changing it until the transaction ends."""
    row = select(*_COLUMNS).where(same_key(connection, ORDERS.c.job_key, job_key))
    found = connection.execute(row.with_for_update()).one_or_none()
    return _Entry() if found is None else _entry(*found)


def _entry(job_key: JobKey, cluster: object, text: object, stored_version: object) -> _Entry:
    is_sound = isinstance(stored_version, int) and 0 <= stored_version < _HIGHEST_VERSION
    version = cast("int", stored_version) if is_sound else 0
    damage = None if is_sound else f"its version is no instant: {stored_version!r:.40}"
    if cluster != cluster_of(job_key):
        damage = f"its cluster is not that of the job: {cluster!r:.40}"
    try:
        return _Entry(_decode(text), version, damage, is_stored=True)
    except ValueError as error:
        paused = Orders(pause=PauseOrder(AuditStamp("flink-autoscaler", UNREADABLE, version)))
        return _Entry(paused, version, str(error), is_stored=True)


def _write(
    database: Database, connection: Connection, job_key: JobKey, entry: _Entry, orders: Orders, now_ms: int
) -> None:
    """Replace the row of a job; orders that order nothing have none, and damaged ones are set aside before."""
    if orders == entry.orders and entry.damage is None:
        return
    is_key = same_key(connection, ORDERS.c.job_key, job_key)
    if entry.damage is not None:
        at = database.local_time(now_ms / 1000)
        _quarantine(connection, job_key, problem=entry.damage, at=at)
    if orders == NO_ORDERS:
        connection.execute(delete(ORDERS).where(is_key))
        return
    values = _values(job_key, _encode(orders), entry, now_ms)
    if entry.is_stored:
        connection.execute(update(ORDERS).where(is_key).values(values))
    else:
        connection.execute(insert(ORDERS).values(job_key=job_key, **values))


def _values(job_key: JobKey, text: str, entry: _Entry, now_ms: int) -> dict[str, object]:
    return {"orders": text, "cluster": cluster_of(job_key), "version": max(now_ms, entry.version + 1)}


def _quarantine(connection: Connection, job_key: JobKey, *, problem: str, at: datetime) -> None:
    """Copy the orders for a job to the letter before they are replaced. They do not pass through this process."""
    told, when = literal(problem[:_PROBLEM_LENGTH], String), literal(at, DateTime)
    original = select(ORDERS.c.job_key, literal(KIND, String), ORDERS.c.orders, told, when)
    columns = ["job_key", "state_type", "state_value", "problem", "set_aside_at"]
    kept = original.where(same_key(connection, ORDERS.c.job_key, job_key))
    connection.execute(insert(SET_ASIDE).from_select(columns, kept))


_ORDERS: Final = Codec(Orders, omits_defaults=True)


def _encode(orders: Orders) -> str:
    return json.dumps(_ORDERS.write(orders), separators=(",", ":"), ensure_ascii=False)


def _decode(text: object) -> Orders:
    """Read orders as they are stored.

    Raises:
        ValueError: They cannot be read; the message never holds the text itself.
    """
    if not isinstance(text, str):
        raise ValueError("not a text")
    document = read_json(text)
    try:
        json.dumps(document, ensure_ascii=False).encode()  # half a character, which no sink of events would take
    except UnicodeError:
        raise ValueError("not UTF-8") from None
    return _ORDERS.read(document)
