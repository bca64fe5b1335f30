"""Rescales on a real Flink, followed from the request to what became of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from flink_autoscaler.core.model.supervision import Origin, Stage, SupervisionPhase
from testkit.clusters.flink import FlinkCluster, job
from testkit.scenarios.rescue import ONLY_WORK, SupervisedPasses, logged

pytestmark = pytest.mark.e2e

ON_BOTH = pytest.mark.parametrize(
    "version", ["1.20", pytest.param("2.3", marks=pytest.mark.suite(name="long"))], ids=["Flink 1.20", "Flink 2.3"]
)

# One subtask of "work" does 1,000 records/s: this wants far more than is allowed, so that the target is the limit.
FLOODED = job.ScalingJob(name="flooded", curve="0:20000", cost_micros=1000, splits=8)


def limited(most: int, **more: str) -> dict[str, str]:
    """Return options with which only the work vertex is scaled, up to ``most``, and never down again.

    Within the few seconds of these windows the busy time that Flink tells after a restart is behind the counters on a
    busy machine, which makes subtasks look faster than they are.
    """
    only_up = {"job.autoscaler.vertex.max-parallelism": str(most), "job.autoscaler.scale-down.interval": "1 h"}
    options = {**only_up, **ONLY_WORK}
    return options | {f"job.autoscaler.{key.replace('__', '.').replace('_', '-')}": v for key, v in more.items()}


@pytest.fixture
def shared(flink_session_cluster: Callable[[str], FlinkCluster], version: str) -> Iterator[tuple[FlinkCluster, str]]:
    """Give the session cluster with the flooded job."""
    cluster = flink_session_cluster(version)
    job_id = job.submit(cluster, FLOODED)
    yield cluster, job_id
    cluster.cancel(job_id)


def host_of_source(cluster: FlinkCluster, job_id: str) -> str:
    """Return the id of the TaskManager that the source runs on, or ran on while nothing runs."""
    source_id = cluster.rest.vertices(job_id)[job.SOURCE_VERTEX]["id"]
    (host,) = cluster.rest.get(f"/jobs/{job_id}/vertices/{source_id}/taskmanagers")["taskmanagers"]
    return str(host["taskmanager-id"])


def logged_outage(cluster: FlinkCluster, job_id: str) -> tuple[float, float]:
    """Return how long the last rescale took the job away by the log of the JobManager, and how long tasks took to end.

    Flink before 2.3 does not tell the latter, so that it is missing in what is measured.
    """
    (stopped,) = logged(cluster, rf"Job .*{job_id}\) switched from state RUNNING to CANCELLING")[-1:]
    (ended,) = logged(cluster, rf"Job .*{job_id}\) switched from state CANCELLING to CANCELED")[-1:]
    (running,) = logged(cluster, r"\(\d+/\d+\).* switched from INITIALIZING to RUNNING")[-1:]
    return running - stopped, 0.0 if cluster.version == "2.3" else ended - stopped


@ON_BOTH
def test_a_rescale_is_followed_until_the_job_has_proved_itself(shared: tuple[FlinkCluster, str]) -> None:
    cluster, job_id = shared
    with SupervisedPasses(cluster, limited(4), selects=lambda context: context.job_id == job_id) as passes:
        passes.until_told("RescaleConfirmed")
        passes.show("plain rescale")

    supervision, tracking = passes.supervision(), passes.state().tracking
    record = supervision.current
    seconds, untold = logged_outage(cluster, job_id)
    assert passes.reasons("SampleDoubted")[-3:] == ["Scaling", "RescaleReached", "RescaleConfirmed"]
    assert record is not None
    assert (record.stage, record.origin, supervision.phase) == (
        Stage.REACHED,
        Origin.AUTOSCALER,
        SupervisionPhase.STABLE,
    )
    assert supervision.last_stable == record.target == record.reached
    assert record.outage_ms is not None
    print(f"outage {record.outage_ms / 1000} s; by the log {seconds:.2f} s, of which {untold:.2f} s are not told")
    assert abs(record.outage_ms / 1000 - (seconds - untold)) < 1.0
    assert tracking[-1].restart_ms is not None


@pytest.mark.suite(name="rescue")
@ON_BOTH
def test_a_taskmanager_that_dies_in_the_middle_of_a_rescale_is_no_reason_to_roll_back(version: str) -> None:
    with FlinkCluster(version, taskmanagers=2, slots=4) as cluster:
        job_id = job.submit(cluster, FLOODED)
        with SupervisedPasses(cluster, limited(6)) as passes:
            passes.until_told("Scaling")
            host = host_of_source(cluster, job_id)
            next(each for each in cluster.taskmanagers if each.name == host).kill()
            cluster.add_taskmanager()
            passes.until_told("RescaleConfirmed", timeout=240)
            passes.show("TaskManager killed after the request")
            record = passes.supervision().current
            parallelism = cluster.rest.vertices(job_id)[job.WORK_VERTEX]["parallelism"]

    assert record is not None
    assert record.stage is Stage.REACHED
    assert sum(record.reached.values()) == sum(record.target.values()) == parallelism + 2
    assert not {"RollbackStarted", "RescaleStuck", "RequirementsEdited"} & set(passes.reasons())


@pytest.mark.suite(name="rescue")
@ON_BOTH
def test_what_the_slots_do_not_allow_is_taken_back(version: str) -> None:
    options = limited(8, capacity__enabled="false", rescale__timeout="10 s")
    with FlinkCluster(version, slots=4) as cluster:
        job_id = job.submit(cluster, FLOODED)
        with SupervisedPasses(cluster, options) as passes:
            told = passes.until_told("RescalePartiallyReached")
            overrides = passes.state().overrides
            passes.until_told("RescaleRefused")
            passes.show("too few slots")
            still = passes.work_parallelism(job_id)

    assert "4 instead of" in told.event.message
    assert "0 are free" in told.event.message
    assert sorted(overrides.values()) == [1, 1, 4]
    assert sorted(passes.state().overrides.values()) == [1, 1, 4]
    assert still == 4


@pytest.mark.suite(name="rescue")
@ON_BOTH
def test_only_slots_that_are_there_are_asked_for_and_new_ones_are_taken(version: str) -> None:
    with FlinkCluster(version, slots=4) as cluster:
        job_id = job.submit(cluster, FLOODED)
        with SupervisedPasses(cluster, limited(8)) as passes:
            passes.until_told("RescaleReached")
            few = passes.work_parallelism(job_id)
            passes.until("the plan is cut", lambda: "HEADROOM_REACHED" in passes.hold_codes())
            cluster.add_taskmanager()
            passes.until("all slots are used", lambda: passes.work_parallelism(job_id) == 8, timeout=240)
            passes.until_told("RescaleReached", count=2)
            passes.show("slots that come later")

    assert few == 4
    assert not {"RescalePartiallyReached", "RescaleRefused"} & set(passes.reasons())
    assert "work 1 -> 4 instead of 8" in passes.messages("HeadroomReached")[0]
