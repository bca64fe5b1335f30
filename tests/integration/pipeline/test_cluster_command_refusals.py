"""``forecast build`` and ``backtest`` say why a cluster cannot do their work, and do not end as if they had done it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from flink_autoscaler.pipeline.spark.settings import SparkSettings
from testkit.builders.backtests import a_history, job_rows
from testkit.builders.profiles import write_samples
from testkit.clusters.spark import ConnectServer, SparkCluster, commands, equipped_python, executor_python

pytest.importorskip("grpc", reason="needs the extra: pip install 'flink-autoscaler[connect]'")

from testkit.clusters.spark.version_server import VersionServer

pytestmark = [pytest.mark.spark, pytest.mark.suite(name="cluster")]

ADVICE: Final = "the Python of Spark's executors lacks pyarrow: install what requirements/spark.txt lists on the nodes"


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> list[list[str | Path]]:
    """Give both commands with something to do."""
    folder = tmp_path_factory.mktemp("material")
    history = a_history(folder / "history", job_rows())
    return [
        ["backtest", "--history", history],
        ["forecast", "build", "--dry-run", "--history", write_samples(folder / "samples").file],
    ]


def said(asked: list[list[str | Path]], settings: SparkSettings) -> Iterator[commands.Ended]:
    """Run both commands with Spark as it is given."""
    for command in asked:
        master = ["--master", settings.master] if "backtest" in command else []
        yield commands.run(*command, *master, *commands.engine_options(settings))


@pytest.mark.parametrize(
    "version", [pytest.param("3.5.7", id="older major version"), pytest.param("5.0.0", id="newer major version")]
)
def test_server_of_another_version_is_refused_with_what_to_install(version: str, asked: list[list[str | Path]]) -> None:
    with VersionServer(version) as server:
        found = list(said(asked, SparkSettings(master=server.url)))

    for each in found:
        assert (each.returncode, each.stdout) == (1, "")
        assert f"error: the Spark Connect server runs Spark {version}, " in each.stderr
        assert f"install pyspark[connect]=={version[:3]}.* here" in each.stderr
        assert len(each.stderr.splitlines()) == 1


def test_server_that_is_away_is_named(asked: list[list[str | Path]]) -> None:
    for each in said(asked, SparkSettings(master="sc://127.0.0.1:1")):
        assert (each.returncode, each.stdout) == (1, "")
        assert "error: the Spark Connect server at sc://127.0.0.1:1: " in each.stderr


def test_executors_without_pyarrow_are_told_so(asked: list[list[str | Path]], tmp_path: Path) -> None:
    python = executor_python(tmp_path / "env")
    with SparkCluster(workers=1) as cluster:
        found = list(said(asked, cluster.settings(python)))

    for each in found:
        assert (each.returncode, each.stdout) == (1, "")
        assert ADVICE in each.stderr


def test_executors_of_a_server_without_pyarrow_are_told_so(asked: list[list[str | Path]], tmp_path: Path) -> None:
    with ConnectServer(executor_python(tmp_path / "env")) as server:
        found = list(said(asked, SparkSettings(master=server.url)))

    for each in found:
        assert (each.returncode, each.stdout) == (1, "")
        assert ADVICE in each.stderr
        assert "PYSPARK_PYTHON of the server" in each.stderr


def test_history_that_a_server_cannot_lend_is_told(asked: list[list[str | Path]], tmp_path: Path) -> None:
    python = equipped_python(tmp_path / "env")
    with ConnectServer(python) as server:
        url = f"file-like://{tmp_path}"
        found = list(said([["backtest", "--history", url]], SparkSettings(master=server.url)))

    assert [(each.returncode, each.stdout) for each in found] == [(2, "")]
    assert "a Spark Connect server lends no access to its file systems; use another master" in found[0].stderr
