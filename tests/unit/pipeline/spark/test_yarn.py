"""Spark on YARN needs to be told where YARN is."""

from __future__ import annotations

from pathlib import Path

import pytest
from pipeline_setup import Fleet

from flink_autoscaler.core.errors import ConfigError
from flink_autoscaler.pipeline.spark.live import SparkEngine
from flink_autoscaler.pipeline.spark.session import SparkSettings, open_session, require_environment
from flink_autoscaler.pipeline.spark.yarn import VARIABLES


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


@pytest.mark.parametrize("master", ["local[*]", "spark://127.0.0.1:7077", "sc://127.0.0.1"])
def test_other_masters_need_no_configuration_of_yarn(master: str) -> None:
    require_environment(SparkSettings(master=master))
