from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from flink_autoscaler.pipeline.spark.settings import MAX_SLOTS, SparkSettings, source_path, spark_conf

SCRATCH = Path("/scratch")


def test_embedded_session_binds_to_loopback_only() -> None:
    conf = spark_conf(SparkSettings(), SCRATCH)

    assert conf["spark.driver.host"] == "127.0.0.1"
    assert conf["spark.driver.bindAddress"] == "127.0.0.1"
    assert conf["spark.ui.enabled"] == "false"


def test_embedded_session_writes_to_its_scratch_folder_only() -> None:
    conf = spark_conf(SparkSettings(), SCRATCH)

    assert conf["spark.local.dir"] == "/scratch"
    assert conf["spark.sql.warehouse.dir"].startswith("/scratch/")
    assert "-Djava.io.tmpdir=/scratch" in conf["spark.driver.extraJavaOptions"]
    assert conf["spark.sql.catalogImplementation"] == "in-memory"


def test_a_jvm_for_long_plans_has_its_better_compiler() -> None:
    quick, long = (
        spark_conf(SparkSettings(is_long=each), SCRATCH)["spark.driver.extraJavaOptions"] for each in (False, True)
    )

    assert "-XX:TieredStopAtLevel=1 -Djava" in quick
    assert quick.replace(" -XX:TieredStopAtLevel=1", "") == long


def test_embedded_workers_run_this_python_with_our_packages() -> None:
    conf = spark_conf(SparkSettings(), SCRATCH)

    assert conf["spark.pyspark.python"] == sys.executable
    assert conf["spark.executorEnv.PYTHONPATH"] == source_path()
    assert all((Path(root) / "flink_autoscaler").is_dir() for root in source_path().split(os.pathsep))


def _slots(clusters: int) -> int:
    cores = os.cpu_count() or 1
    return max(cores, min(clusters * cores, MAX_SLOTS))


@pytest.mark.parametrize(
    ("master", "passes", "expected"),
    [
        pytest.param("local[*]", 1, "local[*]", id="one cluster: all cores"),
        pytest.param("local[*]", 2, f"local[{_slots(2)}]", id="two clusters: all cores for each, within bounds"),
        pytest.param("local[*]", 200, f"local[{_slots(200)}]", id="many clusters: not a Python worker for each"),
        pytest.param("local[2]", 3, "local[2]", id="as the operator said"),
        pytest.param("spark://host:7077", 3, "spark://host:7077", id="a real cluster"),
    ],
)
def test_master_has_slots_for_every_cluster(master: str, passes: int, expected: str) -> None:
    conf = spark_conf(SparkSettings(master=master, concurrent_passes=passes), SCRATCH)

    assert conf["spark.master"] == expected


def test_real_cluster_gets_our_archive_and_keeps_its_own_python() -> None:
    conf = spark_conf(SparkSettings(master="spark://host:7077", python_files=("a.zip", "b.zip")), SCRATCH)

    assert conf["spark.submit.pyFiles"] == "a.zip,b.zip"
    assert "spark.pyspark.python" not in conf
    assert "spark.driver.host" not in conf


def test_configuration_of_the_operator_wins() -> None:
    conf = spark_conf(SparkSettings(conf={"spark.scheduler.mode": "FIFO"}), SCRATCH)

    assert conf["spark.scheduler.mode"] == "FIFO"
