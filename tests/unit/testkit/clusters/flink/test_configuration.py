"""What a test cluster is configured with."""

from pathlib import Path

import pytest

from testkit.clusters.flink.configuration import (
    LOOPBACK,
    cluster_configuration,
    taskmanager_jvm_options,
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


def test_taskmanager_jvm_options_add_up_the_memory(tmp_path: Path) -> None:
    options = taskmanager_jvm_options(a_configuration(tmp_path))

    assert "-Xmx256m" in options  # 96 framework + 160 task
    assert "-XX:MaxDirectMemorySize=144m" in options  # 64 framework + 16 task + 64 network
