"""Whether a database works, and whether waiting for it makes sense."""

from __future__ import annotations

from sqlalchemy import literal, select

from flink_autoscaler.core.errors import StoreError
from flink_autoscaler.stores.sql.database.database import Database
from flink_autoscaler.stores.sql.database.failures import LastingError


def ping(database: Database) -> None:
    """Make sure that a database answers.

    Raises:
        StoreError: It does not.
    """
    database.run(lambda connection: connection.execute(select(literal(1))).scalar_one(), read_only=True)


def is_lasting(error: StoreError) -> bool:
    """Tell whether an error is about how the database is set up, so that only a person can end it."""
    return isinstance(error, LastingError)
