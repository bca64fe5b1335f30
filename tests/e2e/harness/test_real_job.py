"""The scaling job on a real cluster does what the arguments say."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from testkit.clusters.flink import FlinkCluster, job
from testkit.clusters.flink.curve import Curve
from testkit.clusters.flink.job import SINK_VERTEX, SOURCE_VERTEX, WORK_VERTEX, ScalingJob

pytestmark = [pytest.mark.e2e, pytest.mark.suite(name="long")]
pytest_plugins = ["testkit.clusters.flink.fixtures"]

PENDING = "Source__orders.pendingRecords"


@pytest.fixture(params=["1.20", "2.3"])
def cluster(request: pytest.FixtureRequest, flink_session_cluster: Callable[[str], FlinkCluster]) -> FlinkCluster:
    return flink_session_cluster(request.param)


@contextmanager
def running(cluster: FlinkCluster, scaling_job: ScalingJob) -> Iterator[str]:
    job_id = job.submit(cluster, scaling_job)
    try:
        yield job_id
    finally:
        cluster.cancel(job_id)


def metrics(cluster: FlinkCluster, job_id: str, vertex: str, *names: str, aggregate: str = "sum") -> dict[str, float]:
    """Return some metrics of all subtasks once they are there."""
    vertex_id = cluster.rest.vertices(job_id)[vertex]["id"]
    rows = cluster.wait_until(f"{names} of {vertex}", lambda: cluster.rest.vertex_metrics(job_id, vertex_id, names))
    return {name: float(row[aggregate]) for name, row in rows.items()}


def pending(cluster: FlinkCluster, job_id: str) -> float:
    return metrics(cluster, job_id, SOURCE_VERTEX, PENDING)[PENDING]


def test_every_vertex_reports_how_busy_it_is(cluster: FlinkCluster) -> None:
    with running(cluster, ScalingJob()) as job_id:
        vertices = cluster.rest.vertices(job_id)

        assert set(vertices) == {SOURCE_VERTEX, WORK_VERTEX, SINK_VERTEX}
        for vertex in vertices:
            busy = metrics(cluster, job_id, vertex, "busyTimeMsPerSecond")["busyTimeMsPerSecond"]
            assert 0 <= busy <= 1000


def test_lag_grows_beyond_capacity_and_drains_after_a_rescale(cluster: FlinkCluster) -> None:
    # One subtask sustains 1000 records/s, four sustain 4000.
    with running(cluster, ScalingJob(curve="0:2000")) as job_id:
        cluster.wait_until("lag", lambda: pending(cluster, job_id) > 3000)
        busy = metrics(cluster, job_id, WORK_VERTEX, "busyTimeMsPerSecond")["busyTimeMsPerSecond"]
        assert busy > 900

        cluster.rest.require(job_id, {WORK_VERTEX: 4, SOURCE_VERTEX: 2})

        wanted = {SOURCE_VERTEX: 2, WORK_VERTEX: 4, SINK_VERTEX: 1}
        cluster.wait_until("parallelism", lambda: cluster.rest.parallelism(job_id) == wanted)
        cluster.wait_until("lag drained", lambda: pending(cluster, job_id) < 500)


def test_rescale_continues_where_the_checkpoint_was(cluster: FlinkCluster) -> None:
    curve = Curve.parse("0:1000,3:1000,3.001:0")
    finite = ScalingJob(curve=str(curve), cost_micros=100, partition_metrics=True, splits=6)
    offsets = [f"Source__orders.KafkaSourceReader.topic.orders.partition.{split}.currentOffset" for split in range(6)]

    def emitted() -> float:
        # Not the sum: Flink keeps the last offset of a partition that a subtask no longer has.
        found = metrics(cluster, job_id, SOURCE_VERTEX, *offsets, aggregate="max")
        return sum(offset + 1 for offset in found.values())

    def records_out() -> float:
        return metrics(cluster, job_id, SOURCE_VERTEX, "numRecordsOut")["numRecordsOut"]

    with running(cluster, finite) as job_id:
        cluster.wait_until("everything emitted", lambda: emitted() == int(curve.arrived(60)))
        everything_emitted_at = time.time() * 1000
        cluster.wait_until("checkpoint", lambda: _last_checkpoint(cluster, job_id) > everything_emitted_at)

        cluster.rest.require(job_id, {SOURCE_VERTEX: 4})

        cluster.wait_until("parallelism", lambda: cluster.rest.parallelism(job_id)[SOURCE_VERTEX] == 4)
        # Metrics of the execution before may still show. A source that had lost its place would emit all again.
        cluster.wait_until("nothing emitted again", lambda: records_out() == 0)
        assert emitted() == int(curve.arrived(60))


def _last_checkpoint(cluster: FlinkCluster, job_id: str) -> float:
    completed = cluster.rest.get(f"/jobs/{job_id}/checkpoints")["latest"]["completed"]
    return float(completed["trigger_timestamp"]) if completed else 0.0


@pytest.mark.parametrize("cost", ["sleep", "cpu"])
def test_arrivals_follow_the_curve_of_the_clock(cluster: FlinkCluster, cost: str) -> None:
    start = time.time() - 20
    curve = Curve.parse("0:0,40:800")

    with running(
        cluster, ScalingJob(curve=str(curve), start_ms=int(start * 1000), cost=cost, cost_micros=100)
    ) as job_id:
        vertex_id = cluster.rest.vertices(job_id)[SOURCE_VERTEX]["id"]

        def accounted() -> float:
            rows = cluster.rest.vertex_metrics(job_id, vertex_id, [PENDING, "numRecordsOut"])
            return sum(float(row["sum"]) for row in rows.values())

        # The backlog of 20 s is 4000 records; metrics lag behind the clock, never before it.
        cluster.wait_until("backlog and more emitted", lambda: accounted() > curve.arrived(22))
        seen = accounted()
        assert seen <= curve.arrived(time.time() - start)


def test_vertex_ids_are_the_same_in_every_submission(cluster: FlinkCluster) -> None:
    with running(cluster, ScalingJob(name="one")) as one, running(cluster, ScalingJob(name="two", splits=3)) as two:
        first, second = cluster.rest.vertices(one), cluster.rest.vertices(two)

    assert {name: vertex["id"] for name, vertex in first.items()} == {
        name: vertex["id"] for name, vertex in second.items()
    }


def test_chain_sink_gives_two_vertices(cluster: FlinkCluster) -> None:
    with running(cluster, ScalingJob(chain_sink=True)) as job_id:
        assert set(cluster.rest.vertices(job_id)) == {SOURCE_VERTEX, f"{WORK_VERTEX} -> {SINK_VERTEX}"}
