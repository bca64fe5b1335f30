"""What the revisions have in common: column types, and creating what is not there yet.

Revisions describe their tables themselves, with these types: what ``tables`` says changes with the versions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from sqlalchemy import BigInteger, Connection, Dialect, Inspector, Integer, MetaData, String, Table, Text, inspect
from sqlalchemy.dialects.mysql import LONGTEXT, VARCHAR
from sqlalchemy.schema import SchemaItem
from sqlalchemy.types import TypeEngine

from flink_autoscaler.core.errors import StoreError

ID: Final = BigInteger().with_variant(Integer(), "sqlite")
LONG_TEXT: Final = Text().with_variant(LONGTEXT(), "mysql")
MYSQL_TABLE: Final[Mapping[str, Any]] = {
    "mysql_engine": "InnoDB",
    "mysql_charset": "utf8mb4",
    "mysql_collate": "utf8mb4_general_ci",
}


def text_or(mysql: TypeEngine[str]) -> TypeEngine[str]:
    """Make the type of a text that only MySQL wants to know the length of."""
    return Text().with_variant(mysql, "mysql")


def exact_text(length: int) -> VARCHAR:
    """Make MySQL's type of a text that is compared byte by byte."""
    return VARCHAR(length, collation="utf8mb4_bin")


def exact_key(length: int) -> TypeEngine[str]:
    """Make the type of a key that is compared byte by byte in every database."""
    return String(length).with_variant(exact_text(length), "mysql")


def is_not_postgresql(*_: object, dialect: Dialect, **__: object) -> bool:
    """Tell whether the key of the state table has a name, in the form that ``ddl_if`` asks for it."""
    return dialect.name != "postgresql"


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
