"""Fixtures for the tests against a real YARN."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from testkit.clusters.yarn import FlinkOnYarn, MavenUnreachableError, YarnCluster
from testkit.clusters.yarn.autoscaling import Autoscaling


@pytest.fixture(scope="module")
def yarn_cluster() -> Iterator[YarnCluster]:
    """Give a YARN with two ResourceManagers; skip the tests of the module where Hadoop cannot be had."""
    try:
        cluster = YarnCluster(highly_available=True).start()
    except MavenUnreachableError as error:
        pytest.skip(f"needs Hadoop's jars from Maven Central: {error}")
    yield cluster
    cluster.stop()


@pytest.fixture(scope="module")
def flink_on_yarn(yarn_cluster: YarnCluster) -> FlinkOnYarn:
    """Give Flink's client for the YARN of the module."""
    return FlinkOnYarn(yarn_cluster)


@pytest.fixture
def autoscaling(yarn_cluster: YarnCluster, tmp_path: Path) -> Iterator[Autoscaling]:
    """Give the daemon and its commands for the YARN of the module."""
    with Autoscaling(yarn_cluster, tmp_path) as autoscaling:
        yield autoscaling
