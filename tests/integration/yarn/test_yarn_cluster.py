"""The harness itself: a YARN comes up, and leaves nothing behind."""

from __future__ import annotations

import pytest

from testkit.clusters.yarn import FlinkOnYarn, MavenUnreachableError, YarnCluster
from testkit.clusters.yarn.processes import processes_of

pytestmark = [pytest.mark.e2e, pytest.mark.suite(name="yarn")]


def test_a_stopped_cluster_leaves_no_container_and_no_file() -> None:
    cluster = YarnCluster()
    try:
        cluster.start()
    except MavenUnreachableError as error:
        pytest.skip(f"needs Hadoop's jars from Maven Central: {error}")
    session = FlinkOnYarn(cluster).session("Left running")
    master = session.application_master_pid()

    during = processes_of(cluster.directory)
    cluster.stop()

    assert {master, cluster.node_manager.pid, cluster.resource_managers["rm1"].pid} <= set(during)
    assert processes_of(cluster.directory) == {}
    assert not cluster.directory.exists()
