"""The Debian package on a booted server: installed, configured, started, removed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from fake_flink import FakeFlink, chain
from machines import missing_tools
from machines.booted import Server, booted_server
from releasing.deb import KINDS, build

from flink_cluster.cache import cache_directory
from flink_cluster.configuration import free_ports

CONFIGURATION = "/etc/flink-autoscaler/autoscaler.yaml"
UNIT = "flink-autoscaler"

pytestmark = pytest.mark.systemd


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Return a server on which the package without Spark is installed."""
    if reason := missing_tools("systemd-nspawn", "dpkg-deb"):
        pytest.skip(reason)
    package = build(KINDS["inline"], tmp_path_factory.mktemp("deb"))
    print(f"{package.name}: {package.stat().st_size / 1e6:.0f} MB")
    with booted_server(
        cache_directory() / "machines" / "scratch-deb", hostname="deb", binds=[package.parent]
    ) as booted:
        booted.run("dpkg", "--install", package)
        yield booted


def test_the_package_brings_command_unit_and_configuration(server: Server) -> None:
    assert server.run("flink-autoscaler", "--version").strip() == "flink-autoscaler 0.2.0"
    assert server.property("LoadState") == "loaded"
    assert server.property("UnitFileState") == "disabled"
    assert (
        server.run("dpkg-query", "--show", "--showformat", "${Conffiles}", "flink-autoscaler-inline").split()[0]
        == CONFIGURATION
    )


def test_the_service_starts_with_a_configuration_and_keeps_its_state_when_it_is_removed(server: Server) -> None:
    port = free_ports(1)[0]
    with FakeFlink() as flink:
        flink.add_job("orders", chain(vertices=2, parallelism=3))
        sections = {"clusters": [{"name": "main", "url": flink.url}], "http": {"port": port}}
        server.write(CONFIGURATION, yaml.safe_dump({"autoscaler": sections, "job.autoscaler.enabled": True}))

        server.run("systemctl", "enable", "--now", UNIT)
        server.wait_until("a pass", lambda: server.code("test", "-s", "/var/lib/flink-autoscaler/autoscaler.db") == 0)

        assert server.property("ActiveState") == "active"
    server.run("dpkg", "--remove", "flink-autoscaler-inline")
    assert server.property("ActiveState") == "inactive"
    assert not Path(server.folder, "opt/flink-autoscaler/bin").exists()
    assert server.code("test", "-s", "/var/lib/flink-autoscaler/autoscaler.db") == 0
    assert Path(server.folder, CONFIGURATION.lstrip("/")).exists()
