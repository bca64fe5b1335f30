"""Pytest fixtures for tests against real databases.

Make them known with ``pytest_plugins = ["databases.fixtures"]``.
"""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from databases.mariadb import MariadbServer
from databases.postgresql import PostgresqlServer
from databases.server import DatabaseServer, MissingServerError
from databases.tables import create_tables
from flink_autoscaler.stores.sql.database.database import Database, DatabaseSettings

KINDS = ("sqlite", "postgresql", "mariadb")


def started(kind: Callable[[], DatabaseServer]) -> Iterator[DatabaseServer]:
    """Give a running server; skip the test where it is not installed, except in CI."""
    try:
        with kind() as server:
            yield server
    except MissingServerError as error:
        if "CI" in os.environ:
            raise
        pytest.skip(f"{error}; apt-get install postgresql mariadb-server")


@pytest.fixture(scope="session")
def postgresql_server() -> Iterator[DatabaseServer]:
    """Give the PostgreSQL server that all tests share, started on first use."""
    yield from started(PostgresqlServer)


@pytest.fixture(scope="session")
def mariadb_server() -> Iterator[DatabaseServer]:
    """Give the MariaDB server that all tests share, started on first use."""
    yield from started(MariadbServer)


@pytest.fixture(params=KINDS)
def database_settings(request: pytest.FixtureRequest, tmp_path: Path) -> DatabaseSettings:
    """Give an empty database of each kind in turn."""
    if request.param == "sqlite":
        return DatabaseSettings(f"jdbc:sqlite:{tmp_path / 'autoscaler.db'}")
    server: DatabaseServer = request.getfixturevalue(f"{request.param}_server")
    return server.new_database()


@pytest.fixture
def database(database_settings: DatabaseSettings) -> Iterator[Database]:
    """Give an open database of each kind in turn, with all tables."""
    database = Database(database_settings)
    create_tables(database)
    yield database
    database.close()
