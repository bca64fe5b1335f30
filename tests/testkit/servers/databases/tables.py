"""Tables, rows and statements, as tests look at them."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Table, event, select

from flink_autoscaler.stores.sql.database.database import Database
from flink_autoscaler.stores.sql.tables import METADATA


def create_tables(database: Database) -> None:
    """Make all tables as they are declared."""
    with database.transaction() as connection:
        METADATA.create_all(connection)


def rows_of(database: Database, table: Table) -> list[dict[str, Any]]:
    """Return the rows of a table in the order of its key."""
    with database.transaction(read_only=True) as connection:
        found = connection.execute(select(table).order_by(*table.primary_key)).mappings()
        return [dict(row) for row in found]


class Statements:
    """Statements sent, by their first word; a batch counts once."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def count(self, word: str, table: Table) -> int:
        """Return how many statements of a kind were about a table."""
        return sum(text.split()[0].upper() == word and table.name in text for text in self.texts)

    def clear(self) -> None:
        """Count from here."""
        self.texts.clear()


@contextmanager
def counting(database: Database) -> Iterator[Statements]:
    """Collect the statements sent to a database."""
    statements = Statements()

    def sent(connection: object, cursor: object, statement: str, *_: object) -> None:
        if not statement.startswith("BEGIN"):
            statements.texts.append(statement)

    event.listen(database.engine, "before_cursor_execute", sent)
    try:
        yield statements
    finally:
        event.remove(database.engine, "before_cursor_execute", sent)
