"""A pass and a backtest with Spark on a real YARN, whose containers have nothing of ours installed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from flink_autoscaler.pipeline.spark.session import open_session
from flink_autoscaler.pipeline.spark.settings import SparkSettings
from flink_autoscaler.pipeline.spark.supply import SparkLostError
from testkit.builders.backtests import a_history, job_rows
from testkit.builders.pipeline import Fleet
from testkit.clusters.flink.java import tool
from testkit.clusters.spark import Recorded, commands, comparables, equipped_python, make_pyfiles, spark_home
from testkit.clusters.yarn import MavenUnreachableError, YarnCluster
from testkit.clusters.yarn.configuration import LOOPBACK
from testkit.clusters.yarn.processes import processes_of

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.suite(name="yarn")]

ENDED = {"FINISHED", "FAILED", "KILLED"}
EXECUTORS = 2


@pytest.fixture(scope="module")
def yarn_cluster() -> Iterator[YarnCluster]:
    """Give a YARN with one ResourceManager, whose place this process knows as users tell it."""
    with ExitStack() as stack:
        try:
            cluster = stack.enter_context(YarnCluster())
        except MavenUnreachableError as error:
            pytest.skip(f"needs Hadoop's jars from Maven Central: {error}")
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        patch.setenv("HADOOP_CONF_DIR", str(cluster.conf))
        yield cluster


@pytest.fixture(scope="module")
def settings(yarn_cluster: YarnCluster, tmp_path_factory: pytest.TempPathFactory) -> SparkSettings:
    """Give settings for small containers: 640 MB for the ApplicationMaster, and 864 MB for each executor."""
    python = equipped_python(tmp_path_factory.mktemp("bare") / "env")
    archive = make_pyfiles(tmp_path_factory.mktemp("build"))
    java_home = str(tool("java").resolve().parent.parent)
    conf = {
        "spark.driver.host": LOOPBACK,
        "spark.executor.instances": str(EXECUTORS),
        "spark.executor.memory": "480m",
        "spark.yarn.am.memory": "256m",
        "spark.pyspark.python": str(python),
        "spark.executorEnv.JAVA_HOME": java_home,
        "spark.yarn.appMasterEnv.JAVA_HOME": java_home,
        # Spark's own jars are on this machine; without this each application uploads 460 MB of them.
        "spark.yarn.jars": f"local:{spark_home() / 'jars'}/*",
        "spark.yarn.stagingDir": (yarn_cluster.directory / "staging").as_uri(),
    }
    return SparkSettings(master="yarn", app_name="a test", python_files=(str(archive),), conf=conf)


def states(cluster: YarnCluster) -> list[str]:
    """Return the states of all applications."""
    applications = cluster.get("/apps")["apps"] or {"app": []}
    return [str(application["state"]) for application in applications["app"]]


def wait_for_the_end(cluster: YarnCluster) -> None:
    """Wait until no application is left that takes containers."""
    cluster.wait_until("no application runs", lambda: set(states(cluster)) <= ENDED)


def executors(cluster: YarnCluster) -> int:
    """Return how many containers are executors of Spark."""
    commands_of = [" ".join(command) for command in processes_of(cluster.directory).values() if "java" in command[0]]
    return sum("YarnCoarseGrainedExecutorBackend" in command for command in commands_of)


def test_pass_on_yarn_gives_what_the_inline_engine_gives(yarn_cluster: YarnCluster, settings: SparkSettings) -> None:
    with Fleet.serving() as fleet, ExitStack() as stack:
        spark = Recorded(settings, fleet)
        stack.callback(spark.engine.close)
        spark.wait_for_spark()
        requests = fleet.add_mixed()

        outcomes = spark.engine.evaluate(requests)

        assert comparables(outcomes) == comparables(fleet.inline.evaluate(requests))
        assert (spark.fallbacks, spark.sessions[-1].slots(), executors(yarn_cluster)) == ([], EXECUTORS, EXECUTORS)
    wait_for_the_end(yarn_cluster)


@pytest.mark.parametrize("variable", ["HADOOP_CONF_DIR", "YARN_CONF_DIR"])
def test_backtest_on_yarn_comes_to_what_one_process_comes_to(
    variable: str, yarn_cluster: YarnCluster, settings: SparkSettings, tmp_path: Path
) -> None:
    before = len(states(yarn_cluster))
    history = a_history(tmp_path, job_rows(), job_rows("main/clicks"))
    asked = ("backtest", "--json", "--history", str(history))
    options = commands.engine_options(settings)

    found = commands.run(*asked, "--master", "yarn", *options, variables={variable: str(yarn_cluster.conf)})

    assert commands.document(found) == commands.document(commands.run(*asked, "--master", "none"))
    assert len(states(yarn_cluster)) == before + 1
    wait_for_the_end(yarn_cluster)


@pytest.mark.parametrize(
    ("command", "options"),
    [
        pytest.param(("backtest", "--workload", "step", "--days", "0.05", "--master", "yarn"), (), id="backtest"),
        pytest.param(
            ("forecast", "build", "--dry-run", "--history", "nowhere"),
            ("--set", "autoscaler.engine.spark-master=yarn"),
            id="forecast build",
        ),
    ],
)
def test_commands_name_the_variable_that_is_missing(command: tuple[str, ...], options: tuple[str, ...]) -> None:
    said = commands.run(*command, *options)

    assert (said.returncode, said.stdout) == (2, "")
    assert "neither HADOOP_CONF_DIR nor YARN_CONF_DIR is set: set HADOOP_CONF_DIR" in said.stderr


def test_queue_without_room_is_told(yarn_cluster: YarnCluster, settings: SparkSettings) -> None:
    greedy = {**settings.conf, "spark.yarn.am.memory": "4g"}  # of a queue that gives 3 GB

    with pytest.raises(
        SparkLostError, match=r"did not start the application a test within 20 s: see whether its queue"
    ):
        open_session(replace(settings, executors_timeout=20.0, conf=greedy))
