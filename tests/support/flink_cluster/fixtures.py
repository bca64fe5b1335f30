"""Pytest fixtures for tests against a real Flink.

Make them known with ``pytest_plugins = ["flink_cluster.fixtures"]``.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from flink_cluster.cluster import FlinkCluster


@pytest.fixture(scope="session")
def flink_session_cluster() -> Iterator[Callable[[str], FlinkCluster]]:
    """Give the session cluster of a version, started on first use: two TaskManagers of eight slots.

    All tests share it: cancel what you run, restart what you end, or start a cluster of your own.
    """
    running: dict[str, FlinkCluster] = {}
    with ExitStack() as clusters:

        def cluster_of(version: str) -> FlinkCluster:
            if version not in running:
                running[version] = clusters.enter_context(FlinkCluster(version, taskmanagers=2, slots=8))
            return running[version]

        yield cluster_of
