"""Whether a database works, and whether waiting for it makes sense."""

from __future__ import annotations

from typing import Final

from sqlalchemy import literal, select

from flink_autoscaler.core.errors import StoreError
from flink_autoscaler.stores.sql import failures
from flink_autoscaler.stores.sql.database import Database

_LASTING: Final = (
    failures._PASSWORD,
    failures._NO_DATABASE,
    failures._DENIED,
    failures._NO_TABLE,
    failures._DAMAGED,
)


def ping(database: Database) -> None:
    """Make sure that a database answers.

    Raises:
        StoreError: It does not.
    """
    database.run(lambda connection: connection.execute(select(literal(1))).scalar_one(), read_only=True)


def is_lasting(error: StoreError) -> bool:
    """Tell whether an error is about how the database is set up, so that only a person can end it."""
    return any(meaning.what_to_do in str(error) for meaning in _LASTING)
