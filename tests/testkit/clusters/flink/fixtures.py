"""Pytest fixtures for tests against a real Flink.

Make them known with ``pytest_plugins = ["testkit.clusters.flink.fixtures"]``.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from testkit.clusters.flink.cluster import FlinkCluster
from testkit.clusters.flink.distribution import RELEASES
from testkit.clusters.flink.recording import record


class SessionClusters:
    """The session cluster of each version, started on first use: two TaskManagers of eight slots."""

    def __init__(self) -> None:
        self._running: dict[str, FlinkCluster] = {}
        self._open = ExitStack()

    def of(self, version: str) -> FlinkCluster:
        """Return the cluster of a version."""
        if version not in self._running:
            self._running[version] = self._open.enter_context(FlinkCluster(version, taskmanagers=2, slots=8))
        return self._running[version]

    def close(self) -> None:
        """Stop all; the next use starts others."""
        self._running.clear()
        self._open.close()


_CLUSTERS = pytest.StashKey[SessionClusters]()


def pytest_configure(config: pytest.Config) -> None:
    """Keep the clusters where the fixture and the end of a test find them."""
    config.stash[_CLUSTERS] = SessionClusters()


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Make the archives of classes that clusters start with, before the first test on a real Flink of a version."""
    if item.get_closest_marker("e2e") is not None:
        parameters = getattr(item, "callspec", None)
        named = set(map(str, parameters.params.values())) if parameters is not None else set()
        for version in RELEASES.keys() & named or {"2.3"}:
            record(version)


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Stop the clusters, which take 5 % of a core when idle, before a file that needs no Flink."""
    if nextitem is not None and nextitem.path != item.path and nextitem.get_closest_marker("e2e") is None:
        item.config.stash[_CLUSTERS].close()


@pytest.fixture(scope="session")
def flink_session_cluster(request: pytest.FixtureRequest) -> Iterator[Callable[[str], FlinkCluster]]:
    """Give the session cluster of a version.

    Tests that follow each other share it: cancel what you run, restart what you end, or start a cluster of your own.
    """
    clusters = request.config.stash[_CLUSTERS]
    yield clusters.of
    clusters.close()
