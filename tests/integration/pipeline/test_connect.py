"""The engine on a real Spark Connect server whose executors have nothing of ours installed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from fake_flink import Fault
from pipeline_setup import Fleet
from spark_cluster import ConnectServer, Recorded, comparables, evaluate_while, executor_python

from flink_autoscaler.core.model.decision import PassPhase
from flink_autoscaler.pipeline.data_source import FlinkMetrics
from flink_autoscaler.pipeline.spark.session import open_session
from flink_autoscaler.pipeline.spark.settings import SparkSettings
from flink_autoscaler.pipeline.spark.supply import SparkLostError

pytest.importorskip("grpc", reason="needs the extra: pip install 'flink-autoscaler[connect]'")

from spark_cluster.version_server import VersionServer

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConnectServer]:
    with ConnectServer(executor_python(tmp_path_factory.mktemp("bare") / "env", "pyarrow")) as server:
        yield server


@pytest.fixture(scope="module")
def module_fleet() -> Iterator[Fleet]:
    with Fleet.serving() as fleet:
        yield fleet


@pytest.fixture(scope="module")
def module_spark(server: ConnectServer, module_fleet: Fleet) -> Iterator[Recorded]:
    with ExitStack() as stack:
        recorded = Recorded(SparkSettings(master=server.url), module_fleet)
        stack.callback(recorded.engine.close)
        recorded.wait_for_spark()
        yield recorded


@pytest.fixture
def fleet(module_fleet: Fleet) -> Fleet:
    module_fleet.flink.clear_faults()
    module_fleet.flink.jobs.clear()
    module_fleet.flink.requests.clear()
    return module_fleet


@pytest.fixture
def spark(module_spark: Recorded) -> Recorded:
    module_spark.fallbacks.clear()
    return module_spark


@pytest.mark.cluster
def test_pass_over_connect_gives_what_the_inline_engine_gives(fleet: Fleet, spark: Recorded) -> None:
    requests = fleet.add_mixed()

    outcomes = spark.engine.evaluate(requests)

    assert comparables(outcomes) == comparables(fleet.inline.evaluate(requests))
    assert (spark.fallbacks, spark.sessions[-1].slots()) == ([], 2)


@pytest.mark.cluster
def test_tasks_over_connect_send_the_requests_of_the_inline_engine(fleet: Fleet, spark: Recorded) -> None:
    requests = [fleet.add(f"job {number}") for number in range(40)]
    fleet.inline.evaluate(requests)
    inline = sorted(fleet.flink.paths())
    fleet.flink.requests.clear()

    spark.engine.evaluate(requests)

    assert sorted(fleet.flink.paths()) == inline


@pytest.mark.cluster
def test_data_source_reads_over_connect(fleet: Fleet, spark: Recorded) -> None:
    request = fleet.add("orders")
    session: Any = spark.sessions[-1]
    session.spark.dataSource.register(FlinkMetrics)

    frame = session.spark.read.format("flink_metrics").options(url=fleet.flink.url).load()

    assert [row["job_id"] for row in frame.collect()] == [request.context.job_id]


@pytest.mark.cluster
def test_server_killed_during_a_pass_costs_that_pass_and_those_until_it_is_back(
    server: ConnectServer, fleet: Fleet, spark: Recorded
) -> None:
    requests = [fleet.add("job"), fleet.add("hanging")]
    fleet.flink.fault(str(requests[1].context.job_id), Fault.HANG)

    during = evaluate_while(spark, fleet, requests, server.process.kill)
    reasons = list(spark.fallbacks)
    server.start()
    spark.wait_for_spark()
    after = spark.engine.evaluate(requests)

    assert [outcome.phase for outcome in during] == [PassPhase.COLLECTING, PassPhase.ERROR]
    assert comparables(after) == comparables(during)
    assert (len(reasons), spark.fallbacks) == (1, [])
    assert "StatusCode.UNAVAILABLE" in reasons[0] or "Connection refused" in reasons[0]


@pytest.mark.cluster
def test_server_without_pyarrow_is_told_so(tmp_path_factory: pytest.TempPathFactory) -> None:
    with (
        ConnectServer(executor_python(tmp_path_factory.mktemp("empty") / "env")) as server,
        pytest.raises(SparkLostError, match=r"has no pyarrow: install pyarrow>=18 .*PYSPARK_PYTHON of the server"),
    ):
        open_session(SparkSettings(master=server.url))


@pytest.mark.parametrize(
    "version", [pytest.param("3.5.7", id="older major version"), pytest.param("5.0.0", id="newer major version")]
)
def test_server_of_another_version_is_refused_with_what_to_install(version: str) -> None:
    minor = version[:3]
    with (
        VersionServer(version) as server,
        pytest.raises(SparkLostError, match=rf"runs Spark {version}.*install pyspark\[connect\]=={minor}\.\*"),
    ):
        open_session(SparkSettings(master=server.url))


def test_server_that_is_away_is_told_with_its_address_and_without_its_token() -> None:
    with pytest.raises(SparkLostError, match=r"sc://127\.0\.0\.1:1: .*failed to connect") as caught:
        open_session(SparkSettings(master="sc://127.0.0.1:1/;user_id=x;token=s3cret"))

    assert "s3cret" not in str(caught.value)
