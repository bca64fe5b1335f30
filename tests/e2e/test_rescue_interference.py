"""Rescales of a real job that something else gets in the way of: restarts, a cancellation, another person's hands."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from flink_autoscaler.core.model.events import EventType
from flink_autoscaler.core.model.supervision import Stage, SupervisionPhase
from testkit.clusters.flink import FlinkApplicationCluster, FlinkCluster, job
from testkit.scenarios.rescue import SupervisedPasses
from testkit.scenarios.rescue.interference import RequestLog, RequirementsWatch, high_availability

pytestmark = [pytest.mark.e2e, pytest.mark.suite(name="rescue")]

COOLDOWN = 25
"""Seconds after a start or a rescale for which a job stays as it is, whatever is asked for."""

SLOW = {
    # One that was just looked up is still there when it is needed.
    "execution.checkpointing.num-retained": "10",
    "heartbeat.interval": "1000",
    "heartbeat.timeout": "6000",
    "jobmanager.adaptive-scheduler.scaling-interval.min": f"{COOLDOWN}s",
    "jobmanager.adaptive-scheduler.executing.cooldown-after-rescaling": f"{COOLDOWN}s",
}
"""A rescale can be met while it waits, and TaskManagers notice soon that their JobManager is gone."""

# One subtask of "work" takes 1 ms per record: this load needs more than the four that are allowed.
BUSY = job.ScalingJob(name="interfered", curve="0:20000", cost_micros=1000, splits=8)

OPTIONS = {
    # Four it is, also where the first figures of a busy machine ask for less.
    "job.autoscaler.vertex.min-parallelism": "4",
    "job.autoscaler.vertex.max-parallelism": "4",
    "job.autoscaler.vertex.exclude.names": "Source: *;sink: *",
    "job.autoscaler.rescale.respect-edits": "12 s",
}

STARTING = ("AutoscalerError", "SampleDoubted")
"""Told about metrics that a busy machine reports late after a start, and about plans that hang on the newest of them;
nothing that these tests are about."""

VERSIONS = pytest.mark.parametrize("version", ["1.20", "2.3"], ids=["Flink 1.20", "Flink 2.3"])
GUARD = pytest.mark.parametrize(
    "shared_cluster",
    ["1.20", pytest.param("2.3", marks=pytest.mark.guard)],
    ids=["Flink 1.20", "Flink 2.3"],
    indirect=True,
    scope="module",
)
"""Both versions, one of them also in ``make test``."""


@pytest.fixture(scope="module", params=["1.20", "2.3"], ids=["Flink 1.20", "Flink 2.3"])
def shared_cluster(request: pytest.FixtureRequest) -> Iterator[FlinkCluster]:
    """A cluster of eight slots on which a rescale waits for a while."""
    with FlinkCluster(request.param, config=SLOW, taskmanagers=1, slots=8) as started:
        yield started


@pytest.fixture
def cluster(shared_cluster: FlinkCluster) -> Iterator[FlinkCluster]:
    yield shared_cluster
    for entry in shared_cluster.rest.get("/jobs")["jobs"]:
        if entry["status"] not in ("CANCELED", "FAILED", "FINISHED"):
            shared_cluster.cancel(entry["id"])


def until_pending(passes: SupervisedPasses) -> None:
    """Do passes until a rescale was accepted that the cluster keeps waiting."""

    def is_pending() -> bool:
        current = passes.supervision().current if passes.store.job_keys() else None
        return current is not None and current.stage is Stage.PENDING

    passes.until("a pending rescale", is_pending, timeout=120)


def until_reached(passes: SupervisedPasses, *, count: int = 1) -> None:
    passes.until_told("RescaleReached", count=count, timeout=150)


def test_a_job_of_a_session_cluster_that_forgot_it_goes_on_under_its_name(cluster: FlinkCluster) -> None:
    job.submit(cluster, BUSY)
    with SupervisedPasses(cluster, OPTIONS) as passes:
        until_pending(passes)

        cluster.restart_jobmanager()
        passes.until("an empty list of jobs", lambda: passes.reports[-1].error is None and not passes.reports[-1].jobs)
        passes.repeat(3)
        kept = passes.supervision().current
        cluster.wait_for_slots(8)
        job_id = job.submit(cluster, BUSY)
        until_reached(passes)

        passes.show("JobManager restarted during a rescale, session cluster without high availability")
        assert kept is not None
        assert kept.stage is Stage.PENDING
        assert passes.reasons(*STARTING) == ["Scaling", "RescaleSuperseded", "Scaling", "RescaleReached"]
        assert passes.work_parallelism(job_id) > 1


@VERSIONS
def test_a_rescale_outlives_the_fail_over_of_a_jobmanager_with_high_availability(version: str, tmp_path: Path) -> None:
    with (
        high_availability(version, tmp_path) as options,
        FlinkCluster(version, config={**SLOW, **options}, taskmanagers=1, slots=8) as cluster,
    ):
        job_id = job.submit(cluster, BUSY)
        with SupervisedPasses(cluster, OPTIONS) as passes:
            until_pending(passes)

            cluster.restart_jobmanager()
            until_reached(passes)

            passes.show("JobManager restarted during a rescale, high availability with ZooKeeper")
            current = passes.supervision().current
            assert cluster.rest.job_state(job_id) == "RUNNING"
            assert current is not None
            assert current.stage is Stage.REACHED
            assert dict(current.reached) == dict(current.target)
            assert passes.reasons(*STARTING) == ["Scaling", "RescaleReached"]


@VERSIONS
def test_requirements_that_a_restarted_jobmanager_forgot_are_sent_again(version: str) -> None:
    arguments = BUSY.arguments()
    jar = job.build(version)
    with FlinkApplicationCluster(
        version, jar=jar, entry_class=job.ENTRY_CLASS, args=arguments, config=SLOW, taskmanagers=1, slots=8
    ) as cluster:
        cluster.wait_for_running(cluster.job_id)
        with SupervisedPasses(cluster, OPTIONS) as passes:
            until_pending(passes)

            restart_from_checkpoint(cluster)
            until_reached(passes)

            passes.show("JobManager restarted during a rescale, application cluster from its latest checkpoint")
            # The TaskManager is missing until it has found the new JobManager.
            told = passes.reasons(*STARTING, "TaskManagerLost", "SlotsMissing")
            assert told == ["Scaling", "RequirementsLost", "Scaling", "RescaleReached"]
            assert passes.work_parallelism(cluster.job_id) > 1


def restart_from_checkpoint(cluster: FlinkApplicationCluster) -> None:
    """End the JobManager and start it again, as somebody does who has no high availability."""
    latest = cluster.wait_until("a checkpoint", lambda: latest_checkpoint(cluster))
    cluster.jobmanager.kill()
    configuration = cluster.directory / "conf" / "config.yaml"
    with configuration.open("a") as file:
        file.write(f"execution.state-recovery.path: {json.dumps(latest)}\n")
    cluster.restart_jobmanager()


def latest_checkpoint(cluster: FlinkApplicationCluster) -> str | None:
    completed = cluster.rest.get(f"/jobs/{cluster.job_id}/checkpoints")["latest"]["completed"]
    return None if completed is None else str(completed["external_path"])


def test_a_job_that_is_cancelled_while_its_rescale_waits_is_left_in_peace(cluster: FlinkCluster) -> None:
    job_id = job.submit(cluster, BUSY)
    with RequestLog(cluster.rest_url) as wire, SupervisedPasses(cluster, through(wire)) as passes:
        until_pending(passes)
        assert len(wire.changes()) == 1

        cluster.cancel(job_id)
        cancelled, silence = time.monotonic(), len(passes.told)
        passes.repeat(5)

        passes.show("job cancelled while its rescale was pending")
        supervision = passes.supervision()
        records = [*supervision.past, *([supervision.current] if supervision.current else [])]
        assert [record.stage for record in records] == [Stage.SUPERSEDED]
        assert supervision.phase is SupervisionPhase.STABLE
        assert wire.changes(since=cancelled) == []
        assert {each.event.type for each in passes.told[silence:]} <= {EventType.NORMAL}


def through(wire: RequestLog) -> dict[str, str]:
    """Return options of passes whose requests are written down."""
    return {**OPTIONS, "autoscaler.clusters.0.url": wire.url}


def test_a_persons_change_of_a_rescaled_job_is_respected_for_as_long_as_configured(cluster: FlinkCluster) -> None:
    job_id = job.submit(cluster, BUSY)
    with RequestLog(cluster.rest_url) as wire, SupervisedPasses(cluster, through(wire)) as passes:
        until_reached(passes)

        with RequirementsWatch(cluster, job_id) as held:
            edited = time.monotonic()
            cluster.rest.require(job_id, {job.WORK_VERTEX: 1})
            told = passes.until_told("RequirementsEdited")
            passes.until_told("Scaling", count=2, timeout=120)

        passes.show("an operator changed the requirements of a rescaled job")
        assert_respected(wire, held, edited, {job.WORK_VERTEX: 1})
        assert "work 1..4 -> 1..1" in told.event.message
        assert "EDITED_BY_OTHERS" in {
            reason.code
            for report in passes.reports
            for each in report.reports.values()
            for reason in each.outcome.decision.reasons
        }


@GUARD
def test_a_persons_change_goes_before_a_rescale_that_waits(cluster: FlinkCluster) -> None:
    job_id = job.submit(cluster, BUSY)
    with RequestLog(cluster.rest_url) as wire, SupervisedPasses(cluster, through(wire)) as passes:
        until_pending(passes)

        with RequirementsWatch(cluster, job_id) as held:
            edited = time.monotonic()
            cluster.rest.require(job_id, {job.WORK_VERTEX: 2})
            passes.until_told("RequirementsEdited")
            stages = [record.stage for record in passes.supervision().past]
            passes.until_told("Scaling", count=2, timeout=120)

        passes.show("an operator changed the requirements while a rescale was pending")
        assert stages == [Stage.SUPERSEDED]
        assert_respected(wire, held, edited, {job.WORK_VERTEX: 2})


def assert_respected(wire: RequestLog, held: RequirementsWatch, edited: float, wanted: Mapping[str, int]) -> None:
    """Nothing was sent for as long as configured, and the cluster had what the person wanted all the time."""
    next_change = wire.changes(since=edited)[0]
    assert next_change.at - edited >= 12.0
    assert next_change.method == "PUT"
    during = [each.upper for each in held.seen if edited + 1.0 <= each.since < next_change.at - 0.5]
    assert all(upper[name] == parallelism for upper in during for name, parallelism in wanted.items())
