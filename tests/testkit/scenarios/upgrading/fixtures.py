"""Pytest fixtures for tests of upgrades.

Make them known with ``from testkit.scenarios.upgrading.fixtures import *`` in a ``conftest.py``.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from releasing.last import NoHistoryError

from flink_autoscaler.stores.sql.database.database import DatabaseSettings
from testkit.scenarios.faults import BusyCluster
from testkit.scenarios.upgrading.site import JOBS, Site
from testkit.scenarios.upgrading.version import Version, install_last, present
from testkit.servers.databases import DatabaseServer

__all__ = ["new", "old", "settings", "site"]


@pytest.fixture(scope="session")
def old(tmp_path_factory: pytest.TempPathFactory) -> Version:
    """Give the last release; skip where the clone is too shallow to have it."""
    try:
        return install_last(tmp_path_factory.mktemp("old"))
    except NoHistoryError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def new() -> Version:
    """Give what is checked out."""
    return present()


@pytest.fixture(params=["sqlite", "postgresql", "mariadb"])
def settings(request: pytest.FixtureRequest, tmp_path: Path) -> DatabaseSettings:
    """Give an empty database of each kind in turn."""
    if request.param == "sqlite":
        return DatabaseSettings(f"jdbc:sqlite:{tmp_path / 'autoscaler.db'}")
    server: DatabaseServer = request.getfixturevalue(f"{request.param}_server")
    return server.new_database()


@pytest.fixture
def site(tmp_path: Path, settings: DatabaseSettings) -> Iterator[Site]:
    """Give a cluster, and a database of each kind in turn."""
    with BusyCluster(tmp_path, jobs=JOBS) as cluster:
        yield Site(tmp_path, cluster, settings)
