from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import AnalysisException, PythonException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_type

from flink_autoscaler.core.errors import ConfigError
from flink_autoscaler.core.model.job import Endpoint, Kerberos, Tls
from flink_autoscaler.pipeline.data_source import FlinkMetrics, endpoint_options
from flink_autoscaler.pipeline.data_source.read_options import OPTIONS, parse_options
from flink_autoscaler.pipeline.data_source.tables import TABLES
from flink_autoscaler.standalone.history.notebook import metrics_options
from testkit.clusters.spark.fixtures import SharedSpark
from testkit.fakes.flink import FakeFlink, FakeJob, chain, flink_error

GUIDE = (Path(__file__).parents[3] / "docs" / "guide" / "notebooks.md").read_text()
SECRET = "s3cr3t-value"
PUSHDOWN = "spark.sql.python.filterPushdown.enabled"


@pytest.fixture(scope="module")
def spark(shared_spark: SharedSpark) -> SparkSession:
    session = shared_spark({PUSHDOWN: "true"})
    session.dataSource.register(FlinkMetrics)
    return session


@pytest.fixture
def orders(flink: FakeFlink) -> FakeJob:
    return flink.add_job("orders", chain(sources=1, vertices=2))


def read(spark: SparkSession, **options: str) -> DataFrame:
    return spark.read.format("flink_metrics").options(**options).load()


def column(frame: DataFrame, name: str) -> list[Any]:
    return sorted(row[name] for row in frame.collect())


@pytest.mark.spark
def test_jobs_have_a_row_each_ended_ones_too(spark: SparkSession, flink: FakeFlink) -> None:
    flink.add_job("orders", start_ms=1_800_000_000_500)
    flink.add_job("ended", state="FINISHED")

    frame = read(spark, url=f"main={flink.url}").orderBy("job_name")
    rows = frame.selectExpr("cluster", "job_name", "state", "unix_millis(started_at)", "ended_at is null").collect()

    assert [tuple(row[:3]) for row in rows] == [("main", "ended", "FINISHED"), ("main", "orders", "RUNNING")]
    assert tuple(rows[1][3:]) == (1_800_000_000_500, True)


@pytest.mark.spark
def test_vertices_tell_parallelism_and_inputs_and_counters_that_are_complete(
    spark: SparkSession, flink: FakeFlink, orders: FakeJob
) -> None:
    source, sink = orders.vertices
    source.parallelism, source.is_complete, source.busy_ms = 3, False, None

    rows = {row["vertex_id"]: row for row in read(spark, url=flink.url, table="vertices").collect()}

    found = rows[source.vertex_id]
    assert (found["cluster"], found["parallelism"], found["inputs"]) == (flink.url, 3, [])
    assert (found["records_in"], found["records_out"], found["busy_ms"]) == (None, None, None)
    assert [tuple(edge) for edge in rows[sink.vertex_id]["inputs"]] == [(source.vertex_id, "HASH")]


@pytest.mark.spark
def test_metrics_without_a_value_leave_out_no_other(spark: SparkSession, flink: FakeFlink, orders: FakeJob) -> None:
    orders.vertices[1].metrics = {f"metric{number}": float(number) for number in range(9)}
    orders.vertices[1].names_without_value = ["metric3x", "metric7x"]

    frame = read(spark, url=flink.url, table="metrics").where("vertex_name = 'vertex 1'")

    assert column(frame, "average") == [float(number) for number in range(9)]


@pytest.mark.spark
def test_chosen_job_and_metric_are_all_that_is_asked_for(
    spark: SparkSession, flink: FakeFlink, orders: FakeJob
) -> None:
    flink.add_job("other")

    frame = read(spark, url=flink.url, table="metrics", job="orders", metric="busyTimeMsPerSecond")

    assert column(frame, "metric") == ["busyTimeMsPerSecond"] * 2
    assert all(orders.job_id in path for path in flink.paths() if path != "/jobs/overview")


@pytest.mark.spark
def test_conditions_that_are_pushed_down_save_requests(spark: SparkSession, flink: FakeFlink, orders: FakeJob) -> None:
    flink.add_job("other")

    frame = read(spark, url=flink.url, table="metrics", pushdown="true").where(
        "job_name = 'orders' and metric in ('busyTimeMsPerSecond') and average > 1"
    )

    assert column(frame, "metric") == ["busyTimeMsPerSecond"] * 2
    assert all(orders.job_id in path for path in flink.paths() if path != "/jobs/overview")


@pytest.mark.spark
def test_condition_on_the_cluster_asks_no_other(spark: SparkSession, flink: FakeFlink, orders: FakeJob) -> None:
    frame = read(spark, url=f"main={flink.url}, away=http://127.0.0.1:1", pushdown="true").where("cluster = 'main'")

    assert column(frame, "job_name") == ["orders"]


@pytest.mark.spark
def test_shares_of_a_cluster_have_every_job_once(spark: SparkSession, flink: FakeFlink) -> None:
    for number in range(10):
        flink.add_job(f"job {number}")

    frame = read(spark, url=flink.url, partitions="3")

    assert column(frame, "job_name") == [f"job {number}" for number in range(10)]
    assert flink.paths() == ["/jobs/overview"] * 3


@pytest.mark.spark
def test_cluster_that_is_away_is_named_or_skipped(spark: SparkSession, flink: FakeFlink, orders: FakeJob) -> None:
    urls = f"main={flink.url},away=http://127.0.0.1:1"

    with pytest.raises(PythonException, match=r"cluster away: GET http://127\.0\.0\.1:1/jobs/overview"):
        read(spark, url=urls).collect()

    assert column(read(spark, url=urls, unreachable="skip"), "job_name") == ["orders"]


@pytest.mark.spark
def test_job_that_goes_meanwhile_has_no_rows(spark: SparkSession, flink: FakeFlink, orders: FakeJob) -> None:
    gone = flink.add_job("gone")
    flink.fault(
        f"/jobs/{gone.job_id}", flink_error(404, "org.apache.flink.runtime.rest.NotFoundException: Job not found")
    )

    assert set(column(read(spark, url=flink.url, table="vertices"), "job_name")) == {"orders"}


@pytest.mark.spark
def test_secrets_are_sent_and_in_no_plan(
    spark: SparkSession, flink: FakeFlink, orders: FakeJob, capsys: pytest.CaptureFixture[str]
) -> None:
    described = endpoint_options({"main": flink.endpoint(headers=(("X-Secret", SECRET),))})

    for options, mode in (({"url": flink.url, "token": SECRET}, "extended"), (described, "formatted")):
        frame = read(spark, table="metrics", pushdown="true", **options).where("job_name = 'orders'")
        frame.collect()
        frame.explain(mode)

    plans = capsys.readouterr().out
    assert "flink_metrics" in plans
    assert SECRET not in plans
    sent = {value for request in flink.requests for value in request.headers.values()}
    assert {f"Bearer {SECRET}", SECRET} <= sent


@pytest.mark.spark
def test_wrong_option_is_told_when_the_frame_is_made(spark: SparkSession) -> None:
    with pytest.raises(AnalysisException, match="unknown option 'tabel', did you mean 'table'"):
        read(spark, tabel="jobs")


@pytest.mark.spark
@pytest.mark.suite(name="long")
def test_example_of_the_guide_runs_where_python3_is_another_interpreter(
    flink: FakeFlink, orders: FakeJob, tmp_path: Path
) -> None:
    config = tmp_path / "autoscaler.yaml"
    config.write_text(f"autoscaler: {{clusters: [{{name: main, url: '{flink.url}'}}]}}\n")
    [example] = re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL)
    notebook = example.replace("/etc/flink-autoscaler/autoscaler.yaml", str(config))

    ran = subprocess.run(
        [sys.executable, "-c", notebook],
        env=_with_another_python3(tmp_path),
        capture_output=True,
        text=True,
        check=False,
    )

    assert ran.returncode == 0, ran.stderr
    assert "vertex 1" in ran.stdout


def _with_another_python3(folder: Path) -> dict[str, str]:
    """Return variables with which ``python3`` is an interpreter that has none of our packages."""
    other = folder / "bin" / "python3"
    other.parent.mkdir()
    other.write_text(f'#!/bin/sh\nexec "{sys.executable}" -I -S "$@"\n')
    other.chmod(0o755)
    kept = {key: value for key, value in os.environ.items() if not key.startswith("PYSPARK_")}
    return {**kept, "PATH": f"{other.parent}{os.pathsep}{os.environ['PATH']}", "SPARK_LOCAL_IP": "127.0.0.1"}


def test_options_from_the_configuration_carry_its_credentials(
    flink: FakeFlink, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLINK_SECRET", SECRET)
    config = tmp_path / "autoscaler.yaml"
    config.write_text(
        f"autoscaler: {{clusters: [{{name: main, url: '{flink.url}', headers-env: {{X-Secret: FLINK_SECRET}}}}]}}\n"
    )

    options = metrics_options(config)

    assert parse_options(options).clusters["main"].headers == (("X-Secret", SECRET),)
    assert all("secret" in name for name, value in options.items() if SECRET in value)


def test_endpoints_travel_whole() -> None:
    endpoint = Endpoint(
        "https://flink:8081",
        headers=(("X-Secret", SECRET),),
        tls=Tls(ca_file="/ca.pem", key_password=SECRET),
        kerberos=Kerberos(principal="me"),
        user_name="me",
    )

    assert parse_options(endpoint_options({"main": endpoint})).clusters == {"main": endpoint}


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        pytest.param({}, "the option 'url' is missing", id="no cluster"),
        pytest.param({"url": "jobmanager:8081"}, "'jobmanager:8081' is no URL", id="no scheme"),
        pytest.param({"url": f"http://me:{SECRET}@host"}, "must not contain user name", id="password in the URL"),
        pytest.param({"url": f"x://me:{SECRET}@host"}, "'host' is no URL", id="password in a broken URL"),
        pytest.param({"secret_clusters": SECRET}, "is not what metrics_options makes", id="broken secret"),
        pytest.param({"url": "http://h", "timeout": "soon"}, "'timeout' has to be a number", id="no number"),
        pytest.param({"url": "http://h", "partitions": "0"}, "'partitions' has to be a number", id="no partitions"),
        pytest.param({"url": "http://h", "table": "job"}, "is one of jobs, vertices, metrics", id="unknown table"),
        pytest.param({"url": "a=http://h", "cluster": "b"}, "there is no cluster 'b'", id="unknown cluster"),
    ],
)
def test_options_that_cannot_be_used_are_told_without_secrets(options: dict[str, str], problem: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(problem)) as caught:
        parse_options(options)

    assert SECRET not in str(caught.value)
    assert SECRET not in repr(caught.value.__cause__)


def test_option_names_may_be_written_in_any_case() -> None:
    assert parse_options({"URL": "http://h/", "Table": "Metrics"}).table == "metrics"


def test_guide_names_every_option_and_column() -> None:
    for name, meaning in OPTIONS.items():
        assert f"| `{name}` | {meaning} |" in GUIDE
    for table in TABLES.values():
        for each in table.columns:
            assert f"| `{each.name}` | {from_arrow_type(each.type).simpleString()} | {each.description} |" in GUIDE
