"""Creating what is not there yet.

Revisions describe their tables themselves: what ``tables`` says changes with the versions.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection, Inspector, MetaData, Table, inspect
from sqlalchemy.schema import SchemaItem

from flink_autoscaler.core.errors import StoreError
from flink_autoscaler.stores.sql.columns import MYSQL_TABLE


def table(name: str, *items: SchemaItem, **options: Any) -> Table:
    """Describe a table on its own, with the options that MySQL needs."""
    return Table(name, MetaData(), *items, **MYSQL_TABLE, **options)


def create_missing(connection: Connection, *tables: Table) -> None:
    """Create the tables and indexes that are missing; what is there stays as it is.

    Raises:
        StoreError: A table is there without columns that are needed, so that it is not the one that was meant.
    """
    for wanted in tables:
        inspector = inspect(connection)
        if not inspector.has_table(wanted.name):
            wanted.create(connection)
            continue
        _require_columns(inspector, wanted)
        _create_missing_indexes(connection, inspector, wanted)


def missing_columns(inspector: Inspector, wanted: Table) -> list[str]:
    """Return the names of the columns that a table of the database lacks."""
    found = {column["name"].lower() for column in inspector.get_columns(wanted.name)}
    return [column.name for column in wanted.columns if column.name not in found]


def _require_columns(inspector: Inspector, wanted: Table) -> None:
    if missing := missing_columns(inspector, wanted):
        raise StoreError(
            f"the table {wanted.name} exists without the columns {', '.join(missing)}: it was made by something"
            " else; use another database, or rename that table"
        )


def _create_missing_indexes(connection: Connection, inspector: Inspector, wanted: Table) -> None:
    # Compared by their columns: somebody may have made them under other names.
    found = {tuple(index["column_names"]) for index in inspector.get_indexes(wanted.name)}
    for index in wanted.indexes:
        if tuple(column.name for column in index.columns) not in found:
            index.create(connection)
