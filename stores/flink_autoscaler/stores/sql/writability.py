"""Test whether job state can be written at present, without changing a row."""

from __future__ import annotations

from typing import Final

from sqlalchemy import Connection, Table, false, update

from flink_autoscaler.stores.sql.database.database import Database
from flink_autoscaler.stores.sql.tables import JOBS, ORDERS, SET_ASIDE, STATE, TOMBSTONES

NEEDED: Final[tuple[Table, ...]] = (STATE, JOBS, SET_ASIDE, ORDERS, TOMBSTONES)
"""Without one of these nothing can be decided, since it could not be recorded or obeyed."""

_TRIALS: Final = tuple(update(table).where(false()).values({table.c.job_key.name: table.c.job_key}) for table in NEEDED)


def require_writable(database: Database) -> None:
    """Make sure that the database answers, can be locked, and takes changes to the tables that are needed.

    A full disk is not found out like this, for nothing is written: the state store knows which writes failed.

    Raises:
        StoreError: It does not.
    """
    database.run(_try_all)


def _try_all(connection: Connection) -> None:
    for trial in _TRIALS:
        connection.execute(trial)
