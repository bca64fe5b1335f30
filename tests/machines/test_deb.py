"""The Debian packages on a booted server: installed, configured, started, upgraded, removed."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.request import urlopen

import pytest
import yaml
from releasing.deb import KINDS, Kind, build

from testkit.clusters.flink.cache import cache_directory
from testkit.clusters.flink.configuration import free_ports
from testkit.clusters.machines import missing_tools
from testkit.clusters.machines.booted import Server, booted_server
from testkit.fakes.flink import FakeFlink, chain

CONFIGURATION = "/etc/flink-autoscaler/autoscaler.yaml"
UNIT = "flink-autoscaler"
STATE = "/var/lib/flink-autoscaler/autoscaler.db"

_PATIENCE = 900.0
"""Seconds for dpkg, which has a whole environment to write and to sync."""

pytestmark = pytest.mark.suite(name="docker")


@dataclass(frozen=True)
class Installed:
    """A server on which a package is installed.

    Attributes:
        package: Path of its file, the same on the server.
    """

    server: Server
    kind: Kind
    package: Path


@pytest.fixture(scope="module", params=KINDS)
def installed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installed]:
    """Return a server on which a package is installed, of each kind in turn."""
    if reason := missing_tools("systemd-nspawn", "dpkg-deb"):
        pytest.skip(reason)
    kind = KINDS[request.param]
    started = time.monotonic()
    package = build(kind, tmp_path_factory.mktemp("deb"))
    print(f"{package.name}: {package.stat().st_size / 1e6:.0f} MB, built in {time.monotonic() - started:.0f} s")
    scratch = cache_directory() / "machines" / "scratch-deb"
    with booted_server(scratch, hostname="deb", binds=[package.parent]) as booted:
        started = time.monotonic()
        booted.run("dpkg", "--install", package, timeout=_PATIENCE)
        print(f"installed in {time.monotonic() - started:.0f} s")
        yield Installed(booted, kind, package)


@pytest.fixture(scope="module")
def port() -> int:
    return free_ports(1)[0]


@pytest.fixture(scope="module")
def flink() -> Iterator[FakeFlink]:
    with FakeFlink() as flink:
        flink.add_job("orders", chain(vertices=2, parallelism=3))
        yield flink


def test_the_package_brings_command_unit_and_configuration(installed: Installed) -> None:
    server = installed.server

    assert server.run("flink-autoscaler", "--version").strip() == "flink-autoscaler 0.2.0"
    assert server.property("LoadState") == "loaded"
    assert server.property("UnitFileState") == "disabled"
    files = server.run("dpkg-query", "--show", "--showformat", "${Conffiles}", installed.kind.name)
    assert files.split()[0] == CONFIGURATION


def test_the_service_starts_with_a_configuration_on_the_engine_of_the_package(
    installed: Installed, flink: FakeFlink, port: int
) -> None:
    server, engine = installed.server, installed.kind.lock
    sections = {"clusters": [{"name": "main", "url": flink.url, "interval": "3 s"}], "http": {"port": port}}
    server.write(CONFIGURATION, yaml.safe_dump({"autoscaler": sections, "job.autoscaler.enabled": True}))

    server.run("systemctl", "enable", "--now", UNIT)
    server.wait_until("state", lambda: server.code("test", "-s", STATE) == 0)
    server.wait_until("a pass", lambda: f'cluster="main",engine="{engine}"' in metrics(port), timeout=400)

    assert server.property("ActiveState") == "active"


def metrics(port: int) -> str:
    with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=30) as answered:
        return str(answered.read().decode())


def test_an_upgrade_restarts_the_service_and_keeps_configuration_and_state(installed: Installed) -> None:
    server = installed.server
    before = server.property("MainPID")
    kept = (server.run("cat", CONFIGURATION), server.run("stat", "--format", "%i", STATE))

    server.run("dpkg", "--install", installed.package, timeout=_PATIENCE)

    server.wait_until("another process", lambda: server.property("MainPID") not in (before, "0"))
    server.wait_until("it is ready", lambda: server.property("ActiveState") == "active")
    assert (server.run("cat", CONFIGURATION), server.run("stat", "--format", "%i", STATE)) == kept


def test_what_is_removed_leaves_configuration_and_state(installed: Installed) -> None:
    server = installed.server

    server.run("dpkg", "--remove", installed.kind.name)

    assert server.property("ActiveState") == "inactive"
    assert not Path(server.folder, "opt/flink-autoscaler/bin").exists()
    assert server.code("test", "-s", STATE) == 0
    assert Path(server.folder, CONFIGURATION.lstrip("/")).exists()
