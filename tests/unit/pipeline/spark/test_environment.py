"""A driver of ours needs a Java that is new enough, and on YARN to be told where that is."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from flink_autoscaler.core.errors import ConfigError
from flink_autoscaler.pipeline.spark.environment import (
    CONNECT_PACKAGES,
    VARIABLES,
    memory_limit,
    require_connect,
    require_environment,
    require_java,
    require_memory,
)
from flink_autoscaler.pipeline.spark.live import SparkEngine
from flink_autoscaler.pipeline.spark.session import open_session
from flink_autoscaler.pipeline.spark.settings import SparkSettings
from testkit.builders.pipeline import Fleet


@pytest.fixture(autouse=True)
def _nothing_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)


def test_session_without_a_configuration_of_yarn_names_the_variable() -> None:
    with pytest.raises(ConfigError, match="master is yarn, but neither HADOOP_CONF_DIR nor YARN_CONF_DIR is set"):
        open_session(SparkSettings(master="yarn"))


def test_daemon_does_not_begin_without_a_configuration_of_yarn() -> None:
    with Fleet.serving() as fleet, pytest.raises(ConfigError, match="set HADOOP_CONF_DIR"):
        SparkEngine(SparkSettings(master="yarn"), fleet.inline, job_deadline=1.0)


@pytest.mark.parametrize("variable", VARIABLES)
def test_folder_that_is_not_there_is_told_with_its_variable(variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(variable, "/no/such")

    with pytest.raises(ConfigError, match=f"environment variable {variable}: there is no directory '/no/such'"):
        require_environment(SparkSettings(master="yarn"))


def test_folder_without_the_file_of_yarn_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))

    with pytest.raises(ConfigError, match=rf"there is no yarn-site\.xml in HADOOP_CONF_DIR \({tmp_path}\)"):
        require_environment(SparkSettings(master="yarn"))


@pytest.mark.parametrize("variable", VARIABLES)
def test_folder_with_the_file_of_yarn_is_enough(variable: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "yarn-site.xml").write_text("<configuration/>")
    monkeypatch.setenv(variable, str(tmp_path))

    require_environment(SparkSettings(master="yarn"))


def test_address_of_yarn_may_be_a_setting_of_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    conf = {"spark.hadoop.yarn.resourcemanager.address": "127.0.0.1:8032"}

    require_environment(SparkSettings(master="yarn", conf=conf))


@pytest.mark.parametrize("master", ["local[*]", "spark://127.0.0.1:7077"])
def test_other_masters_need_no_configuration_of_yarn(master: str) -> None:
    require_environment(SparkSettings(master=master))


def test_spark_connect_is_refused_for_passes_with_what_to_set() -> None:
    with pytest.raises(ConfigError, match=r"evaluates no passes: set autoscaler\.engine\.spark-master to local\[\*\]"):
        require_environment(SparkSettings(master="sc://127.0.0.1:1"))


@pytest.fixture
def java_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    (tmp_path / "bin").mkdir()
    return tmp_path


def install(java_home: Path, version: str) -> None:
    java = java_home / "bin" / "java"
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025-04-15' >&2\n")
    java.chmod(0o755)


@pytest.mark.parametrize("version", ["17.0.15", "21", "25.0.1"])
def test_java_that_spark_runs_on_is_accepted(java_home: Path, version: str) -> None:
    install(java_home, version)

    require_java()


@pytest.mark.parametrize(("version", "name"), [("1.8.0_402", "Java 8"), ("11.0.2", "Java 11")])
def test_old_java_is_refused_with_advice(java_home: Path, version: str, name: str) -> None:
    install(java_home, version)

    with pytest.raises(ConfigError, match=rf"{name}\. .*Java 17 or later.*autoscaler\.engine\.kind: inline"):
        require_java()


def test_java_home_without_java_is_refused(java_home: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be run"):
        require_java()


def test_missing_java_is_refused_with_advice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(ConfigError, match=r"no java on the PATH.*inline"):
        require_java()


def test_packages_of_spark_connect_are_asked_for_before_it_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.machinery.PathFinder.find_spec", lambda *_: None)
    for name in CONNECT_PACKAGES:
        monkeypatch.delitem(sys.modules, name, raising=False)

    with pytest.raises(ConfigError, match=r"grpc.*flink-autoscaler\[connect\]"):
        require_connect()


MB = 1 << 20


def limited(folder: Path, files: dict[str, str], groups: str = "") -> dict[str, Path]:
    """Write control groups as the kernel shows them; return where they are."""
    for name, content in files.items():
        file = folder / "root" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content)
    (folder / "groups").write_text(groups)
    return {"groups": folder / "groups", "root": folder / "root"}


V1 = {"memory/memory.limit_in_bytes": "9223372036854771712\n"}


@pytest.mark.parametrize(
    ("files", "groups", "expected"),
    [
        pytest.param({}, "", None, id="no control groups"),
        pytest.param({"memory.max": f"{256 * MB}\n"}, "0::/\n", 256 * MB, id="container"),
        pytest.param({"memory.max": "max\n"}, "0::/\n", None, id="container without a limit"),
        pytest.param({"system.slice/x/memory.max": f"{MB}\n"}, "0::/system.slice/x\n", MB, id="unit"),
        pytest.param(
            {"memory/memory.limit_in_bytes": f"{MB}\n"}, "3:memory:/docker/1\n", MB, id="container, version 1"
        ),
        pytest.param({**V1, "memory/a/memory.limit_in_bytes": f"{MB}\n"}, "3:memory:/a\n", MB, id="unit, version 1"),
        pytest.param({"memory.max": "garbage"}, "garbage without colons", None, id="garbage"),
    ],
)
def test_limit_is_that_of_the_control_group(
    tmp_path: Path, files: dict[str, str], groups: str, expected: int | None
) -> None:
    assert memory_limit(**limited(tmp_path, files, groups)) == expected


@pytest.mark.parametrize("heap", ["480m", "491520k", "480MB"])
def test_driver_that_does_not_fit_is_refused_with_the_way_out(tmp_path: Path, heap: str) -> None:
    places = limited(tmp_path, {"memory.max": f"{256 * MB}"})

    with pytest.raises(ConfigError, match=r"may take 256 MB .* needs 608 MB .* autoscaler\.engine\.kind: inline"):
        require_memory(heap, **places)


@pytest.mark.parametrize(("heap", "limit"), [("480m", 608 * MB), ("what", 1)], ids=["just enough", "unknown"])
def test_driver_that_fits_or_is_of_unknown_size_is_let_through(tmp_path: Path, heap: str, limit: int) -> None:
    require_memory(heap, **limited(tmp_path, {"memory.max": str(limit)}))
