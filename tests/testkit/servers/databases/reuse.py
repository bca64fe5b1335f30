"""Databases with all tables that tests use one after another, since making one takes 0.1 s of a core."""

from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import Connection, Table, func, select, text
from sqlalchemy.exc import SQLAlchemyError

from flink_autoscaler.core.errors import AutoscalerError
from flink_autoscaler.stores.sql.database.database import Database, DatabaseSettings
from flink_autoscaler.stores.sql.tables import METADATA
from testkit.servers.databases.server import DatabaseServer
from testkit.servers.databases.tables import create_tables

_COLUMNS = text(
    "SELECT table_name, column_name, ordinal_position, data_type, is_nullable, column_default"
    " FROM information_schema.columns WHERE table_schema = :name ORDER BY table_name, ordinal_position"
)


class Reused:
    """The databases of one server that nobody uses now."""

    def __init__(self, server: DatabaseServer) -> None:
        self._server = server
        self._free: list[_Known] = []

    @contextmanager
    def lent(self) -> Iterator[DatabaseSettings]:
        """Lend a database that has all tables and no row; one whose tables were changed is not lent again."""
        known = self._free.pop() if self._free else _Known(self._server.new_database())
        yield known.settings
        if known.emptied():
            self._free.append(known)
        else:
            known.close()

    def close(self) -> None:
        """Leave them to the server."""
        while self._free:
            self._free.pop().close()


class _Known:
    """One of them, and a connection of our own to it."""

    def __init__(self, settings: DatabaseSettings) -> None:
        self.settings = settings
        self._database = Database(settings)
        create_tables(self._database)
        with self._database.transaction(read_only=True) as connection:
            self._shape = _shape(connection)

    def emptied(self) -> bool:
        """Delete all rows; tell whether everything is as it was."""
        try:
            with self._database.transaction() as connection:
                if _shape(connection) != self._shape:
                    return False
                for table in reversed(METADATA.sorted_tables):
                    connection.execute(table.delete())
                    _count_anew(connection, table)
        except (SQLAlchemyError, AutoscalerError):
            return False
        return True

    def close(self) -> None:
        self._database.close()


def _count_anew(connection: Connection, table: Table) -> None:
    """Let the numbers that the database itself gives to rows begin with 1."""
    column = table.autoincrement_column
    if column is None:
        return
    if connection.dialect.name == "postgresql":
        sequence = func.pg_get_serial_sequence(table.name, column.name)
        connection.execute(select(func.setval(sequence, 1, False)))
    else:
        connection.execute(text(f"ALTER TABLE {table.name} AUTO_INCREMENT = 1"))


def _shape(connection: Connection) -> list[tuple[object, ...]]:
    name = "public" if connection.dialect.name == "postgresql" else connection.engine.url.database
    return [tuple(row) for row in connection.execute(_COLUMNS, {"name": name})]
