"""The history with a real Spark: written, read and maintained through Hadoop's file systems."""

from __future__ import annotations

import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from structlog.testing import capture_logs

from flink_autoscaler.core.errors import ConfigError
from flink_autoscaler.pipeline.profiles.run import parquet_samples
from flink_autoscaler.pipeline.tables import Partition
from flink_autoscaler.pipeline.tables.compact import MaintenanceTask, run_maintenance
from flink_autoscaler.pipeline.tables.files import (
    Files,
    FileVanishedError,
    HistoryError,
    MissingHistoryError,
    open_files,
)
from flink_autoscaler.pipeline.tables.schema import RESCALES, SAMPLES, TABLES
from flink_autoscaler.pipeline.tables.spark_files import BLOCK_BYTES, HadoopFiles, read
from flink_autoscaler.pipeline.tables.store import HistoryFilter, append, describe, list_folders, read_rows
from testkit.builders.history import (
    DAY_MS,
    NOON_MS,
    CrashingFiles,
    a_batch,
    a_storage,
    files_of,
    part_files,
    rates,
    sample_rows,
    write,
)
from testkit.clusters.spark.fixtures import SharedSpark

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def spark(shared_spark: SharedSpark) -> SparkSession:
    # Interpreting expressions over a few rows takes a third of the time of compiling them.
    return shared_spark({"spark.sql.codegen.factoryMode": "NO_CODEGEN"})


def on_hadoop(spark: SparkSession, root: Path) -> Files:
    """Make a history that is reached through Hadoop's file system alone, as on HDFS."""
    return HadoopFiles(f"file://{root}", spark)


def rates_read(spark: SparkSession, storage: Files, selection: HistoryFilter = HistoryFilter()) -> list[float]:  # noqa: B008
    return sorted(row.arrival_rate for row in read(spark, storage, SAMPLES, selection).frame.collect())


def test_same_files_are_written_here_and_through_hadoop(spark: SparkSession, tmp_path: Path) -> None:
    rows = [*sample_rows(3, source="s2"), *sample_rows(3, source="s1"), *sample_rows(2, cluster="a cluster/%")]
    batch = a_batch(rows)

    append(on_hadoop(spark, tmp_path / "spark"), batch)
    append(a_storage(tmp_path / "arrow"), batch)

    assert files_of(tmp_path / "spark") == files_of(tmp_path / "arrow")
    for left, right in zip(part_files(tmp_path / "spark"), part_files(tmp_path / "arrow"), strict=True):
        assert left.read_bytes() == right.read_bytes()


def test_file_of_many_blocks_is_written_and_read_whole(spark: SparkSession, tmp_path: Path) -> None:
    content = os.urandom(2 * BLOCK_BYTES + 5)
    files = on_hadoop(spark, tmp_path)

    files.create("samples/a.parquet", content)

    assert (files.read("samples/a.parquet"), files.read("samples/a.parquet", 9)) == (content, content[-9:])


def test_rows_that_spark_wrote_in_an_earlier_version_are_read_and_compacted(
    spark: SparkSession, tmp_path: Path
) -> None:
    inputs = [{"vertex_id": "a", "ship_strategy": "HASH", "selectivity": 0.5}]
    row = {"cluster": "main", "job_key": "main/orders", "vertex_id": "b", "ts": NOON_MS * 1000, "inputs": inputs}
    expected = a_batch([("vertices", row)]).tables["vertices"]
    folder = "vertices/version=1/date=2026-01-31/cluster=main"
    written = spark.createDataFrame(expected).coalesce(1).write.option("compression", "zstd").mode("append")
    for _ in range(2):
        written.parquet(f"file://{tmp_path}/{folder}")

    done = run_maintenance(a_storage(tmp_path), MaintenanceTask(NOON_MS + DAY_MS))

    [file] = part_files(tmp_path)
    assert (done.before, done.duplicates, done.damaged) == (2, 1, [])
    assert read_rows(a_storage(tmp_path), f"{folder}/{file.name}", TABLES["vertices"]) == expected
    assert read(spark, a_storage(tmp_path), TABLES["vertices"]).frame.collect()[0].inputs[0].selectivity == 0.5


def test_every_table_is_written_through_hadoop(spark: SparkSession, tmp_path: Path) -> None:
    who = {"cluster": "main", "job_key": "main/orders", "ts": NOON_MS * 1000}
    rows = [(name, {**who, "reasons": [{"code": "A", "text": "b", "vertex_id": None}]}) for name in TABLES]
    storage = on_hadoop(spark, tmp_path)

    append(storage, a_batch(rows))

    found = {name: read(spark, storage, table).frame.collect() for name, table in TABLES.items()}
    assert {name: len(rows) for name, rows in found.items()} == dict.fromkeys(TABLES, 1)
    assert found["decisions"][0].reasons[0].code == "A"


def test_batch_that_was_interrupted_is_completed_on_hadoop_too(spark: SparkSession, tmp_path: Path) -> None:
    storage = on_hadoop(spark, tmp_path)
    batch = a_batch([*sample_rows(2), *sample_rows(2, cluster="other")])
    with pytest.raises(HistoryError, match="killed"):
        append(CrashingFiles(storage, 1), batch)

    append(storage, batch)

    assert rates_read(spark, storage) == [0.0, 0.0, 1.0, 1.0]
    assert storage.list("_staging") == []


def test_history_on_hadoop_is_compacted_and_expires(spark: SparkSession, tmp_path: Path) -> None:
    storage = on_hadoop(spark, tmp_path)
    for batch in (sample_rows(2), sample_rows(3), sample_rows(1, at_ms=NOON_MS - 9 * DAY_MS)):
        append(storage, a_batch(batch))

    done = run_maintenance(storage, MaintenanceTask(NOON_MS + DAY_MS, keep_seconds=5 * 86_400.0))

    assert (done.before, done.after, done.duplicates, done.expired, done.leftovers) == (2, 1, 2, 1, 0)
    assert rates_read(spark, storage) == [0.0, 1.0, 2.0]
    assert len(list_folders(storage, SAMPLES)[0].entries) == 1


def test_read_takes_days_clusters_and_instants(spark: SparkSession, tmp_path: Path) -> None:
    storage = a_storage(tmp_path)
    write(storage, sample_rows(3), sample_rows(3, cluster="other"), sample_rows(3, at_ms=NOON_MS + DAY_MS))

    wanted = HistoryFilter(NOON_MS + 60_000, NOON_MS + DAY_MS + 60_000, frozenset({"main"}))
    found = read(spark, storage, SAMPLES, wanted)

    assert sorted(row.arrival_rate for row in found.frame.collect()) == [0.0, 1.0, 2.0]
    assert found.files == 2


def test_read_finds_a_cluster_in_days_that_are_not_divided(spark: SparkSession, tmp_path: Path) -> None:
    storage = a_storage(tmp_path)
    append(storage, a_batch([*sample_rows(2), *sample_rows(2, cluster="007")]), Partition.DATE)
    append(storage, a_batch(sample_rows(1, cluster="007")), Partition.CLUSTER)

    found = read(spark, storage, SAMPLES, HistoryFilter(clusters=frozenset({"007"})))

    assert {row.cluster for row in found.frame.collect()} == {"007"}
    assert found.frame.count() == 3


def test_read_of_several_versions_has_the_columns_of_this_one(spark: SparkSession, tmp_path: Path) -> None:
    write(a_storage(tmp_path), sample_rows(2))
    [file] = part_files(tmp_path)
    rows = pq.ParquetFile(file).read()
    later = rows.append_column("colour", pa.array(["red"] * 2)).set_column(
        rows.schema.get_field_index("ts"), "ts", rows.column("ts").cast(pa.timestamp("ms", "UTC"))
    )
    for version, other in ((0, rows.drop_columns(["lag", "partitions"])), (9, later)):
        folder = tmp_path / f"samples/version={version}/date=2026-01-31/cluster=main"
        folder.mkdir(parents=True)
        pq.write_table(other, folder / "0000000000001-x.parquet")

    found = read(spark, a_storage(tmp_path), SAMPLES)

    assert found.frame.columns == SAMPLES.schema.names
    assert rates_read(spark, a_storage(tmp_path)) == [0.0, 0.0, 0.0, 1.0, 1.0, 1.0]
    assert found.frame.select("ts").distinct().count() == 2


@pytest.mark.parametrize("content", [b"", b"PAR1PAR1", b"junk" * 100], ids=["empty", "partial", "junk"])
def test_read_leaves_damaged_files_out_and_warns(spark: SparkSession, tmp_path: Path, content: bytes) -> None:
    write(a_storage(tmp_path), sample_rows(2), sample_rows(3))
    part_files(tmp_path)[0].write_bytes(content)

    with capture_logs() as logs:
        found = read(spark, a_storage(tmp_path), SAMPLES)

    assert found.frame.count() in {2, 3}
    assert len(found.damaged) == 1
    assert [(line["event"], line["files"]) for line in logs] == [("history_files_damaged", 1)]


def test_read_has_the_latest_of_rows_that_were_revised(spark: SparkSession, tmp_path: Path) -> None:
    row = {"cluster": "main", "job_key": "main/orders", "decided_at": NOON_MS * 1000}
    for days, reverted in ((0, False), (1, True)):
        revised = {**row, "ts": (NOON_MS + days * DAY_MS) * 1000, "reverted": reverted}
        append(a_storage(tmp_path), a_batch([("rescales", revised)]))

    assert [row.reverted for row in read(spark, a_storage(tmp_path), RESCALES).frame.collect()] == [True]


def test_read_of_an_empty_history_has_columns_and_no_rows(spark: SparkSession, tmp_path: Path) -> None:
    found = read(spark, a_storage(tmp_path), SAMPLES)

    assert (found.frame.columns, found.frame.count()) == (SAMPLES.schema.names, 0)


def test_missing_history_is_an_error_on_hadoop_too(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(MissingHistoryError, match="there is no such folder"):
        describe(on_hadoop(spark, tmp_path / "typo"))


def test_rows_that_arrow_compacted_are_what_spark_reads(spark: SparkSession, tmp_path: Path) -> None:
    write(a_storage(tmp_path), sample_rows(2), sample_rows(3))

    run_maintenance(a_storage(tmp_path), MaintenanceTask(NOON_MS + DAY_MS))

    assert rates_read(spark, on_hadoop(spark, tmp_path)) == rates(a_storage(tmp_path)) == [0.0, 1.0, 2.0]


@pytest.mark.parametrize(
    "path", ["hdfs://127.0.0.1:1/history", "hdfs://no-such-host.invalid/history", "nonsense://host/history"]
)
def test_file_system_that_does_not_answer_is_named(spark: SparkSession, path: str) -> None:
    spark._jsc.hadoopConfiguration().set("ipc.client.connect.max.retries", "0")

    with pytest.raises(HistoryError, match=path.split(":", maxsplit=1)[0]):
        HadoopFiles(path, spark).exists()


@pytest.mark.parametrize(
    ("scheme", "advice"),
    [
        pytest.param(
            "s3a", r"add the package org\.apache\.hadoop:hadoop-aws:3\.\d+\.\d+ to spark", id="module of Hadoop"
        ),
        pytest.param(
            "gs", "add the package com.google.cloud.bigdataoss:gcs-connector", id="package of another project"
        ),
        pytest.param("s3", "write s3a://", id="old name"),
        pytest.param("nonsense", "add the jar that brings one to spark.jars", id="unknown"),
    ],
)
def test_file_system_that_spark_lacks_is_told_with_what_to_add(spark: SparkSession, scheme: str, advice: str) -> None:
    with pytest.raises(HistoryError, match=f"^{scheme}://bucket/history: .*{advice}"):
        HadoopFiles(f"{scheme}://bucket/history", spark)


def test_samples_on_a_file_system_that_spark_lacks_are_told_with_what_to_add(spark: SparkSession) -> None:
    with pytest.raises(ConfigError, match=r"s3a://bucket/a\.parquet holds .*org\.apache\.hadoop:hadoop-aws:"):
        parquet_samples(spark, "s3a://bucket/a.parquet")


def test_name_service_that_is_not_known_is_told_with_the_variable(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HADOOP_CONF_DIR", raising=False)

    with pytest.raises(HistoryError, match=r"no-such-service\.invalid.*set HADOOP_CONF_DIR"):
        HadoopFiles("hdfs://no-such-service.invalid/history", spark).exists()


def test_file_that_went_away_on_hadoop_is_told_apart_from_a_damaged_one(spark: SparkSession, tmp_path: Path) -> None:
    storage = on_hadoop(spark, tmp_path)

    with pytest.raises(FileVanishedError):
        storage.read("samples/a.parquet")
    with pytest.raises(FileVanishedError):
        read_rows(storage, "samples/a.parquet", SAMPLES)


def test_file_on_hadoop_appears_whole_or_not_at_all(spark: SparkSession, tmp_path: Path) -> None:
    files = HadoopFiles(f"file://{tmp_path}", spark)

    made = [files.create("notes/a.json", content) for content in (b"first", b"second")]

    assert made == [True, False]
    assert files.read("notes/a.json") == b"first"
    assert files.list("_staging") == []


def test_only_local_paths_need_no_spark(tmp_path: Path) -> None:
    with pytest.raises(HistoryError, match="only Spark reaches"), open_files("hdfs://nameservice1/history"):
        pass
    with open_files(str(tmp_path / "a b")) as storage:
        append(storage, a_batch(sample_rows(2)))

    assert rates(a_storage(tmp_path / "a b")) == [0.0, 1.0]
