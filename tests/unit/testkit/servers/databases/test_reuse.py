"""Databases that tests use one after another are as new for each of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import pytest
from sqlalchemy import insert, text

from flink_autoscaler.stores.sql.database.database import Database
from flink_autoscaler.stores.sql.tables import METADATA
from testkit.servers.databases import DatabaseServer, every_database, rows_of
from testkit.servers.databases.reuse import Reused

EVENTS = METADATA.tables["t_flink_autoscaler_event_handler"]


@pytest.fixture(params=["postgresql", "mariadb"])
def reused(request: pytest.FixtureRequest) -> Iterator[Reused]:
    server: DatabaseServer = request.getfixturevalue(f"{request.param}_server")
    reused = Reused(server)
    yield reused
    reused.close()


def add_event(database: Database) -> int:
    """Add a row and return the number that the database gave it."""
    texts = {column.name: "x" for column in EVENTS.columns if not column.nullable and column.type.python_type is str}
    with database.transaction() as connection:
        others = {"create_time": text("CURRENT_TIMESTAMP"), "update_time": text("CURRENT_TIMESTAMP"), "event_count": 1}
        connection.execute(insert(EVENTS).values(**{**texts, **others}))
    return int(rows_of(database, EVENTS)[0]["id"])


@every_database
def test_the_next_one_finds_no_rows_and_counts_from_one(reused: Reused) -> None:
    numbers = []
    urls = []
    for _ in range(2):
        with reused.lent() as settings, closing(Database(settings)) as database:
            urls.append(settings.url)
            assert rows_of(database, EVENTS) == []
            numbers.append(add_event(database))

    assert numbers == [1, 1]
    assert urls[0] == urls[1]


@every_database
def test_one_whose_tables_were_changed_is_not_lent_again(reused: Reused) -> None:
    with reused.lent() as first, closing(Database(first)) as database, database.transaction() as connection:
        connection.execute(text("ALTER TABLE fa_lease ADD COLUMN more INTEGER"))

    with reused.lent() as second:
        assert second.url != first.url
