"""Sessions for analytics on a real Spark Connect server whose executors have nothing of ours installed."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest

from flink_autoscaler.pipeline.data_source import FlinkMetrics
from flink_autoscaler.pipeline.spark.session import open_session
from flink_autoscaler.pipeline.spark.settings import SparkSettings
from flink_autoscaler.pipeline.spark.supply import SparkLostError
from testkit.builders.pipeline import Fleet
from testkit.clusters.spark import ConnectServer, equipped_python, executor_python

pytest.importorskip("grpc", reason="needs the extra: pip install 'flink-autoscaler[connect]'")

from testkit.clusters.spark.version_server import VersionServer

pytestmark = pytest.mark.spark


@pytest.mark.suite(name="cluster")
def test_data_source_reads_over_connect(tmp_path: Path) -> None:
    with ConnectServer(equipped_python(tmp_path / "env")) as server, Fleet.serving() as fleet, ExitStack() as stack:
        request = fleet.add("orders")
        session = open_session(SparkSettings(master=server.url))
        stack.callback(session.close)
        session.spark.dataSource.register(FlinkMetrics)

        frame = session.spark.read.format("flink_metrics").options(url=fleet.flink.url).load()

        assert session.slots() == 2
        assert [row["job_id"] for row in frame.collect()] == [request.context.job_id]


@pytest.mark.suite(name="cluster")
@pytest.mark.parametrize(
    ("there", "lacks"),
    [pytest.param((), "pyarrow", id="bare"), pytest.param(("pyarrow",), r"\w+", id="pyarrow alone")],
)
def test_server_that_lacks_a_library_is_told_so(there: tuple[str, ...], lacks: str, tmp_path: Path) -> None:
    with (
        ConnectServer(executor_python(tmp_path / "env", *there)) as server,
        pytest.raises(SparkLostError, match=rf"executors lacks ({lacks}): install .*PYSPARK_PYTHON of the server"),
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
