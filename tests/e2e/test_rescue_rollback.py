"""A rescale that a job does not survive, on a real Flink: TaskManagers with too little network memory."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from flink_autoscaler.core.model.orders import Orders
from flink_autoscaler.core.model.supervision import Origin, Stage, SupervisionPhase
from testkit.clusters.flink import FlinkCluster, job
from testkit.scenarios.rescue import ONLY_WORK, SupervisedPasses

pytestmark = [pytest.mark.e2e, pytest.mark.suite(name="rescue")]

ON_BOTH = pytest.mark.parametrize("version", ["1.20", "2.3"], ids=["Flink 1.20", "Flink 2.3"])
GUARD = pytest.mark.parametrize(
    "version", ["1.20", pytest.param("2.3", marks=pytest.mark.guard)], ids=["Flink 1.20", "Flink 2.3"]
)

# 32 buffers: with a parallelism of 3 the job starts, with 8 its tasks do not get the buffers that they need at least.
# Some of them are refused at once, others wait for the timeout.
LITTLE_MEMORY = {
    "taskmanager.memory.network.min": "1m",
    "taskmanager.memory.network.max": "1m",
    "taskmanager.memory.segment-size": "32kb",
    "taskmanager.network.memory.exclusive-buffers-request-timeout-ms": "3000",
}
FLOODED = job.ScalingJob(
    name="flooded", curve="0:20000", cost_micros=1000, splits=8, parallelism_work=2, payload_bytes=20
)
OPTIONS = {"job.autoscaler.vertex.max-parallelism": "8", **ONLY_WORK}
UNCHECKED = {
    **OPTIONS,
    "job.autoscaler.network-precheck.enabled": "false",
    # What the failed attempts held is free only after slot.idle.timeout.
    "job.autoscaler.slots.fair-shares.enabled": "false",
}


@pytest.fixture
def cluster(version: str) -> Iterator[FlinkCluster]:
    with FlinkCluster(version, slots=8, config=LITTLE_MEMORY) as started:
        yield started


def most_work(cluster: FlinkCluster, job_id: str) -> int:
    """Return the greatest parallelism of the work vertex that the cluster was asked for."""
    work_id = cluster.rest.vertices(job_id)[job.WORK_VERTEX]["id"]
    requirements = cluster.rest.get(f"/jobs/{job_id}/resource-requirements")
    return int(requirements[work_id]["parallelism"]["upperBound"])


def rolled_back(passes: SupervisedPasses, job_id: str) -> tuple[int, int]:
    """Let the job fail with too much parallelism and get the old one back, and check what is told and remembered.

    Returns:
        The parallelism of the work vertex that failed, and the one that it has again.
    """
    passes.until_told("RolledBack", timeout=240)

    supervision = passes.supervision()
    work_id = passes.cluster.rest.vertices(job_id)[job.WORK_VERTEX]["id"]
    failed, undone = supervision.past[-2:]
    much, back = failed.target[work_id], undone.target[work_id]
    assert told(passes)[-4:] == ["Scaling", "RollbackStarted", "Scaling", "RolledBack"]
    assert f"work {much} -> {back}, because of network-memory" in passes.messages("RollbackStarted")[0]
    assert (failed.origin, failed.stage, failed.reverted) == (Origin.AUTOSCALER, Stage.SUPERSEDED, True)
    assert (undone.origin, undone.stage, undone.reverted) == (Origin.ROLLBACK, Stage.REACHED, False)
    assert (supervision.phase, [entry.parallelism for entry in supervision.quarantine]) == (
        SupervisionPhase.PAUSED,
        [much],
    )
    assert passes.work_parallelism(job_id) == back < much
    return much, back


@GUARD
def test_a_job_that_lacks_network_memory_gets_its_old_parallelism_back(cluster: FlinkCluster) -> None:
    job_id = job.submit(cluster, FLOODED)
    with SupervisedPasses(cluster, UNCHECKED) as passes:
        much, back = rolled_back(passes, job_id)
        passes.until("held", lambda: "PAUSED_AFTER_ROLLBACK" in passes.hold_codes())
        passes.repeat(5)
        left_alone = most_work(cluster, job_id)
        passes.orders = Orders(resumed_ms=time.time_ns() // 1_000_000)
        passes.until("scaling goes on", lambda: most_work(cluster, job_id) > back, timeout=240)
        again = most_work(cluster, job_id)
        passes.show("too little network memory, resumed by a person")

    assert left_alone == back
    assert again < much
    assert "ScalingResumed" in told(passes)
    assert told(passes)[-2:] == ["ParallelismQuarantined", "Scaling"]


def told(passes: SupervisedPasses) -> list[str]:
    """Return what was told, without that a plan waited for a pass because it hung on one sample."""
    return [reason for reason in passes.reasons() if reason != "SampleDoubted"]


@ON_BOTH
def test_new_taskmanagers_end_the_pause_after_a_rollback(cluster: FlinkCluster) -> None:
    job_id = job.submit(cluster, FLOODED)
    with SupervisedPasses(cluster, UNCHECKED) as passes:
        much, _ = rolled_back(passes, job_id)
        cluster.taskmanagers[0].kill()
        cluster.add_taskmanager()
        passes.until_told("ScalingResumed", timeout=240)
        passes.show("too little network memory, resumed by new TaskManagers")

    supervision = passes.supervision()
    assert "all TaskManagers are new ones" in passes.messages("ScalingResumed")[0]
    assert (supervision.phase, supervision.pause) == (SupervisionPhase.STABLE, None)
    assert [entry.parallelism for entry in supervision.quarantine] == [much]


@ON_BOTH
def test_a_plan_is_cut_to_what_the_network_memory_holds(cluster: FlinkCluster) -> None:
    job_id = job.submit(cluster, FLOODED)
    with SupervisedPasses(cluster, OPTIONS) as passes:
        passes.until("the plan is cut", lambda: "NETWORK_MEMORY" in passes.hold_codes())
        passes.until_told("RescaleReached")
        passes.until("cut again", lambda: "NETWORK_MEMORY" in passes.hold_codes())
        passes.show("plan cut to the network memory")

    answer = cluster.rest.get(f"/jobs/{job_id}/exceptions")
    assert 2 < passes.work_parallelism(job_id) < 8
    assert "RollbackStarted" not in passes.reasons()
    assert answer["exceptionHistory"]["entries"] == []
