"""Pytest fixtures for tests against real databases.

Make them known with ``pytest_plugins = ["testkit.servers.databases.fixtures"]``.
"""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from flink_autoscaler.stores.sql.database.database import Database, DatabaseSettings
from testkit.servers.databases.mariadb import MariadbServer
from testkit.servers.databases.postgresql import PostgresqlServer
from testkit.servers.databases.reuse import Reused
from testkit.servers.databases.server import DatabaseServer, MissingServerError
from testkit.servers.databases.tables import create_tables

KINDS = (
    "sqlite",
    pytest.param("postgresql", marks=pytest.mark.database),
    pytest.param("mariadb", marks=pytest.mark.database),
)


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


@pytest.fixture(scope="session")
def reused_databases(request: pytest.FixtureRequest) -> Iterator[Callable[[str], Reused]]:
    """Give the databases of a kind of server that tests use one after another."""
    known: dict[str, Reused] = {}

    def of(kind: str) -> Reused:
        if kind not in known:
            known[kind] = Reused(request.getfixturevalue(f"{kind}_server"))
        return known[kind]

    yield of
    for each in known.values():
        each.close()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Give a test SQLite, or each kind of database in turn."""
    if "database_settings" in metafunc.fixturenames:
        is_for_every = metafunc.definition.get_closest_marker("every_database") is not None
        metafunc.parametrize("database_settings", KINDS if is_for_every else KINDS[:1], indirect=True)


@pytest.fixture
def database_settings(
    request: pytest.FixtureRequest, tmp_path: Path, reused_databases: Callable[[str], Reused]
) -> Iterator[DatabaseSettings]:
    """Give an empty database; one of a server with all tables, where the test has a ``database`` as well."""
    if request.param == "sqlite":
        yield DatabaseSettings(f"jdbc:sqlite:{tmp_path / 'autoscaler.db'}")
        return
    if "database" in request.fixturenames:
        with reused_databases(request.param).lent() as settings:
            yield settings
    else:
        yield request.getfixturevalue(f"{request.param}_server").new_database()


@pytest.fixture
def database(database_settings: DatabaseSettings) -> Iterator[Database]:
    """Give an open database with all tables."""
    database = Database(database_settings)
    if database_settings.url.startswith("jdbc:sqlite"):
        create_tables(database)
    yield database
    database.close()
