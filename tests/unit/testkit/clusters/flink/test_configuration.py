"""What a test cluster is configured with."""

import socket
from pathlib import Path

import pytest
import yaml

from testkit.clusters.flink.configuration import (
    LOOPBACK,
    cluster_configuration,
    free_ports,
    megabytes,
    taskmanager_jvm_options,
    write_configuration,
)


def a_configuration(directory: Path, version: str = "2.3", **extra: str) -> dict[str, str]:
    given = {name.replace("_", "."): value for name, value in extra.items()}
    return cluster_configuration(version, directory, rest_port=1, rpc_port=2, slots=8, extra=given)


@pytest.mark.parametrize("version", ["1.20", "2.3"])
def test_cluster_configuration_binds_to_the_loopback_only(tmp_path: Path, version: str) -> None:
    configuration = a_configuration(tmp_path, version)

    addresses = {
        value
        for key, value in configuration.items()
        if key.endswith(("bind-host", "bind-address", ".host", ".address"))
    }
    assert addresses == {LOOPBACK}


def test_cluster_configuration_lets_the_caller_win(tmp_path: Path) -> None:
    assert a_configuration(tmp_path, heartbeat_timeout="7")["heartbeat.timeout"] == "7"


def test_write_configuration_keeps_values_as_they_are(tmp_path: Path) -> None:
    tricky = {"a.b": "0: x # y", "c": "true", "d": 'quote " and \\'}

    path = write_configuration(tmp_path / "conf", tricky)

    assert yaml.safe_load(path.read_text()) == tricky


def test_taskmanager_jvm_options_add_up_the_memory(tmp_path: Path) -> None:
    options = taskmanager_jvm_options(a_configuration(tmp_path))

    assert "-Xmx256m" in options  # 96 framework + 160 task
    assert "-XX:MaxDirectMemorySize=144m" in options  # 64 framework + 16 task + 64 network


@pytest.mark.parametrize(
    ("size", "expected"),
    [("512m", 512), ("1g", 1024), ("64mb", 64), ("2048k", 2), ("1048576", 1), ("0", 0)],
)
def test_megabytes_reads_units(size: str, expected: int) -> None:
    assert megabytes(size) == expected


def test_free_ports_are_different_and_can_be_bound() -> None:
    ports = free_ports(3)

    assert len(set(ports)) == 3
    for port in ports:
        with socket.socket() as free:
            free.bind((LOOPBACK, port))
