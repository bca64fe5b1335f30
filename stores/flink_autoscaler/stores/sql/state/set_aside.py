"""Values that could not be read and were set aside: which there are, and how one goes back to its place."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Final

from sqlalchemy import Connection, Row, delete, insert, select, update

from flink_autoscaler.core.errors import ConfigError
from flink_autoscaler.core.model.job import JobKey
from flink_autoscaler.stores.sql.database.database import Database, same_key
from flink_autoscaler.stores.sql.orders import KIND as ORDERS_KIND
from flink_autoscaler.stores.sql.orders import put_orders_back, read_orders, set_orders_aside
from flink_autoscaler.stores.sql.state.codec import StateType, decode
from flink_autoscaler.stores.sql.state.documents import DocumentError
from flink_autoscaler.stores.sql.state.own_state import damage
from flink_autoscaler.stores.sql.state.rows import OWN_STATE, put_own_state_back, set_own_state_aside
from flink_autoscaler.stores.sql.tables import SET_ASIDE, STATE

REPLACED: Final = "replaced when an older value was restored"
"""What is noted as the problem of a value that made way for a restored one."""


@dataclass(frozen=True, slots=True)
class SetAside:
    """A value that is kept aside.

    Attributes:
        id: Its number in the table.
        problem: Why it was set aside.
        at: When, in the time zone of the tables.
        size: Its length in characters.
        unreadable: What this version cannot read of it; None where it reads all of it, so that it can be restored.
    """

    id: int
    job_key: JobKey
    state_type: str
    problem: str
    at: datetime
    size: int
    unreadable: str | None


def values_set_aside(database: Database, job_key: JobKey | None = None) -> tuple[SetAside, ...]:
    """Return the values of one job or of all, the oldest first.

    Raises:
        StoreError: The database could not be read.
    """

    def read(connection: Connection) -> tuple[SetAside, ...]:
        rows = select(SET_ASIDE).order_by(SET_ASIDE.c.id)
        if job_key is not None:
            rows = rows.where(same_key(connection, SET_ASIDE.c.job_key, job_key))
        return tuple(map(_value, connection.execute(rows)))

    return database.run(read, read_only=True)


def restore(database: Database, number: int, *, is_dry_run: bool = False) -> SetAside:
    """Put a value back to its place, in one transaction. What is there now is set aside instead.

    Args:
        database: The database, with which no daemon works meanwhile.
        number: Which value.
        is_dry_run: Only make sure that it could be done.

    Raises:
        ConfigError: There is no such value, or this version cannot read it either.
        StoreError: The database failed; nothing was changed.
    """
    return database.run(partial(_restore, database, number, is_dry_run), read_only=is_dry_run)


def _restore(database: Database, number: int, is_dry_run: bool, connection: Connection) -> SetAside:
    row = connection.execute(select(SET_ASIDE).where(SET_ASIDE.c.id == number)).first()
    if row is None:
        raise ConfigError(f"no value with the number {number} is set aside")
    value = _value(row)
    if value.unreadable is not None:
        raise ConfigError(f"value {number} cannot be read by this version either: {value.unreadable}")
    if not is_dry_run:
        _exchange(database, connection, value, row.state_value)
    return value


def _exchange(database: Database, connection: Connection, value: SetAside, text: str) -> None:
    now = database.now(connection)
    if value.state_type == ORDERS_KIND:
        set_orders_aside(connection, value.job_key, problem=REPLACED, at=now)
        put_orders_back(connection, value.job_key, text, database.now_ms(connection))
    elif value.state_type == OWN_STATE:
        set_own_state_aside(connection, value.job_key, problem=REPLACED, now=now)
        put_own_state_back(connection, value.job_key, text)
    else:
        _exchange_state(connection, value, text, now)
    connection.execute(delete(SET_ASIDE).where(SET_ASIDE.c.id == value.id))


def _exchange_state(connection: Connection, value: SetAside, text: str, now: datetime) -> None:
    place = (same_key(connection, STATE.c.job_key, value.job_key), STATE.c.state_type == value.state_type)
    present = connection.scalar(select(STATE.c.state_value).where(*place))
    key = {"job_key": value.job_key, "state_type": value.state_type}
    if present is None:
        connection.execute(insert(STATE).inline().values(**key, state_value=text, update_time=now))
    else:
        kept = {**key, "state_value": present, "problem": REPLACED, "set_aside_at": now}
        connection.execute(insert(SET_ASIDE).values(kept))
        connection.execute(update(STATE).where(*place).values(state_value=text, update_time=now))


def _value(row: Row[tuple[object, ...]]) -> SetAside:
    text = row.state_value
    unreadable = _unreadable(row.state_type, text)
    size = len(text if isinstance(text, str | bytes) else str(text))
    return SetAside(row.id, row.job_key, row.state_type, row.problem, row.set_aside_at, size, unreadable)


def _unreadable(state_type: str, text: object) -> str | None:
    if not isinstance(text, str):  # which SQLite takes in any column
        return "not a text"
    if state_type == ORDERS_KIND:
        return _unreadable_orders(text)
    if state_type == OWN_STATE:
        return damage(text)
    try:
        return decode(StateType(state_type), text).problem
    except ValueError as error:
        return str(error) if isinstance(error, DocumentError) else f"{state_type} is no kind of state"


def _unreadable_orders(text: str) -> str | None:
    try:
        read_orders(text)
    except ValueError as error:
        return str(error)
    return None
