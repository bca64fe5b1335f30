"""The metric history on a real HDFS: written, kept in order, shown and read, through kills and outages."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, nullcontext
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from flink_autoscaler.pipeline.spark.settings import SparkSettings
from flink_autoscaler.pipeline.tables.files import files_at, own_session
from flink_autoscaler.pipeline.tables.schema import DECISIONS, SAMPLES
from flink_autoscaler.pipeline.tables.spark_files import read
from flink_autoscaler.pipeline.tables.store import append
from flink_autoscaler.standalone.history.sink import HistorySink
from flink_autoscaler.standalone.settings.schema.settings import HistorySettings
from flink_autoscaler.stores.sql.database.database import DatabaseSettings
from testkit.builders.backtests import a_history, job_rows
from testkit.builders.history import DAY_MS, NOON_MS, a_batch, sample_rows
from testkit.builders.profiles import ASOF, write_samples
from testkit.clusters.spark import commands
from testkit.clusters.yarn import HdfsCluster, MavenUnreachableError
from testkit.clusters.yarn.configuration import TIMEOUT
from testkit.fakes.flink import FakeFlink, chain
from testkit.scenarios.runner.process import DaemonProcess

pytestmark = [pytest.mark.e2e, pytest.mark.spark, pytest.mark.suite(name="yarn")]

WRITER: Final = Path(__file__).parents[2] / "testkit" / "builders" / "history" / "endless.py"
SMALL: Final = ("--set", "autoscaler.engine.spark-master=local[1]")
COMMANDS: Final = (
    ("history", "info", "--path"),
    ("backtest", "--master", "local[1]", "--history"),
    ("forecast", "build", "--dry-run", "--history"),
)


@pytest.fixture(scope="module")
def hdfs() -> Iterator[HdfsCluster]:
    """Give an HDFS; skip where Hadoop cannot be had."""
    with ExitStack() as stack:
        try:
            hdfs = stack.enter_context(HdfsCluster())
        except MavenUnreachableError as error:
            pytest.skip(f"needs Hadoop's jars from Maven Central: {error}")
        yield hdfs


@pytest.fixture(scope="module")
def spark(hdfs: HdfsCluster) -> Iterator[SparkSession]:
    """Give a session that knows nothing of the HDFS."""
    with own_session(SparkSettings(master="local[1]")) as session:
        yield session


@pytest.fixture
def root(hdfs: HdfsCluster, request: pytest.FixtureRequest) -> str:
    """Return the URL of a history of this test."""
    return f"{hdfs.url}/histories/{request.node.name.partition('[')[0]}"


def copy_to(spark: SparkSession, folder: Path, url: str) -> None:
    """Copy a folder of this machine to HDFS."""
    java: Any = spark._jvm
    source, target = (java.org.apache.hadoop.fs.Path(path) for path in (folder.as_uri(), url))
    target.getFileSystem(spark._jsc.hadoopConfiguration()).copyFromLocalFile(source, target)


def rates_of(spark: SparkSession, root: str) -> list[float]:
    return sorted(row.arrival_rate for row in read(spark, files_at(root, spark), SAMPLES).frame.collect())


def test_history_is_written_compacted_shown_exported_and_read_back(
    spark: SparkSession, root: str, tmp_path: Path
) -> None:
    for batch in (sample_rows(2), sample_rows(3), sample_rows(1, at_ms=NOON_MS - 900 * DAY_MS)):
        append(files_at(root, spark), a_batch(batch))
    keep = ("--retention", "500 d")
    output = tmp_path / "samples.parquet"

    compacted = commands.run("history", "compact", "--path", root, *keep, *SMALL)
    shown = commands.document(commands.run("history", "info", "--path", root, "--json", *SMALL))
    exported = commands.run("history", "export", "samples", "--path", root, "--output", output, *SMALL)

    assert (compacted.returncode, exported.returncode) == (0, 0), f"{compacted.stderr}{exported.stderr}"
    [samples] = [table for table in shown["tables"] if table["name"] == "samples"]
    assert (samples["files"], samples["rows"]) == (1, 3)
    assert pq.read_table(output).column("arrival_rate").to_pylist() == [0.0, 1.0, 2.0]
    assert rates_of(spark, root) == [0.0, 1.0, 2.0]


def test_file_that_two_processes_make_is_made_once_and_never_seen_in_part(spark: SparkSession, root: str) -> None:
    files = files_at(root, spark)
    names = [f"notes/{number}.json" for number in range(10)]

    def make(name: str, content: bytes) -> tuple[bool, bytes]:
        return files.create(name, content), files.read(name)

    with ThreadPoolExecutor(2) as threads:
        done = [[threads.submit(make, name, content) for content in (b"[1]", b"[2]")] for name in names]
    found = [[future.result() for future in pair] for pair in done]

    assert [sorted(is_made for is_made, _ in pair) for pair in found] == [[False, True]] * len(names)
    assert {content for pair in found for _, content in pair} <= {b"[1]", b"[2]"}
    assert files.list("_staging") == []


def run_until_killed(root: str, number: int, passes: int, spill: Path) -> None:
    """Run a process that writes all the time, and kill it while it writes the last of so many passes."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, str(WRITER), root, str(number), str(spill)]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        for _ in range(passes):
            assert process.stdout.readline(), "it ended by itself"
        process.send_signal(signal.SIGKILL)


def instants_of(spark: SparkSession, root: str) -> list[datetime]:
    return sorted(row.ts for row in read(spark, files_at(root, spark), DECISIONS).frame.collect())


def test_writer_that_is_killed_while_it_writes_loses_and_doubles_no_row(
    spark: SparkSession, root: str, tmp_path: Path
) -> None:
    for number, passes in enumerate((2, 3)):
        run_until_killed(root, number, passes, tmp_path)
    settings = HistorySettings(enabled=True, path=root, compaction_interval=0.0, spill_directory=str(tmp_path))

    HistorySink(settings, sessions=lambda: nullcontext(spark)).close(timeout=TIMEOUT)

    minutes = [round((at.timestamp() * 1000 - NOON_MS) / 60_000) for at in instants_of(spark, root)]
    for number, passes in enumerate((2, 3)):
        written = [minute - number * 1000 for minute in minutes if minute // 1000 == number]
        assert written == list(range(len(written))), "no gap, nothing twice"
        assert len(written) >= passes - 1
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def away(hdfs: HdfsCluster) -> Iterator[HdfsCluster]:
    """Give the HDFS without its NameNode, which is back afterwards."""
    hdfs.name_node.kill()
    yield hdfs
    if not hdfs.name_node.is_running:
        hdfs.start_name_node()


@pytest.mark.usefixtures("away")
def test_commands_say_that_the_name_node_is_away(root: str) -> None:
    processes = [commands.start(*command, root, *SMALL) for command in COMMANDS]

    for said in map(commands.await_command, processes):
        assert (said.returncode, said.stdout) == (1, "")
        assert f"error: {root}: java.net.ConnectException: Connection refused" in said.stderr
        assert "Traceback" not in said.stderr


def test_daemon_goes_on_while_the_name_node_is_away_and_writes_later(
    away: HdfsCluster, spark: SparkSession, root: str, tmp_path: Path
) -> None:
    spill = tmp_path / "spill"
    history = {"enabled": "true", "path": root, "spill-directory": str(spill), "flush-interval": "1 s", "interval": "0"}
    options = {
        "autoscaler.standalone.state-store.type": "HEAP",
        "autoscaler.standalone.event-handler.type": "LOGGING",
        "autoscaler.engine.spark-master": "local[1]",
        **{f"autoscaler.history.{key}": value for key, value in history.items()},
    }
    database = DatabaseSettings(f"jdbc:sqlite:{tmp_path / 'autoscaler.db'}")
    with FakeFlink() as flink:
        flink.add_job("orders", chain(sources=1, vertices=3))
        daemon = DaemonProcess(tmp_path, database=database, cluster_url=flink.url, options=options)
        with daemon:
            daemon.start()
            daemon.wait_for("a warning", lambda: daemon.lines("history_unavailable"), timeout=TIMEOUT)
            flink.requests.clear()
            daemon.wait_for("further passes", lambda: len(flink.paths()) > 20)
            [warning] = daemon.lines("history_unavailable")
            code = daemon.stop()
            spilled = list(spill.rglob("*.jsonl"))
            away.start_name_node()

            daemon.start()
            daemon.wait_for("rows", lambda: daemon.lines("history_rows_recovered"), timeout=TIMEOUT)
            [recovered] = daemon.lines("history_rows_recovered")
            daemon.wait_for("written rows", lambda: not any(path.exists() for path in spilled), timeout=TIMEOUT)

    instants = instants_of(spark, root)
    assert "Connection refused" in warning["error"]
    assert code == 0
    assert len(instants) == len(set(instants))
    assert recovered["rows"] > 0
    assert len(instants) > 0


def test_profiles_are_made_of_a_history_on_hdfs_and_of_files_here_all_the_same(
    hdfs: HdfsCluster, spark: SparkSession, root: str, tmp_path: Path
) -> None:
    samples = write_samples(tmp_path)
    copy_to(spark, samples.history, root)
    few = (*SMALL, "--set", "autoscaler.engine.spark-config.spark.sql.shuffle.partitions=2")
    asked = ("forecast", "build", "--asof", ASOF, "--dry-run", "--json", *few)
    # With this configuration Spark takes a path without a scheme for one on HDFS.
    variables = {"HADOOP_CONF_DIR": str(hdfs.conf)}

    there, here = (
        commands.document(commands.run(*asked, "--history", path, variables=variables)) for path in (root, samples.file)
    )

    assert len(there["forecasts"]) == 3
    assert there == here


def test_backtest_of_a_history_on_hdfs_comes_to_that_of_one_here(
    spark: SparkSession, root: str, tmp_path: Path
) -> None:
    history = a_history(tmp_path / "history", job_rows(), job_rows("main/clicks"))
    copy_to(spark, history, root)

    there = commands.run("backtest", "--history", root, "--master", "local[1]", "--json", *SMALL)
    here = commands.run("backtest", "--history", history, "--master", "none", "--json")

    assert commands.document(there) == commands.document(here)
    assert len(json.loads(there.stdout)["jobs"]) == 2
