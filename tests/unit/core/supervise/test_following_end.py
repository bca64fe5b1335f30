"""What becomes of a rescale when the job ends, the JobManager is restarted, or there is a dry run."""

from __future__ import annotations

from dataclasses import replace

import pytest
from core_builders import a_context, a_request

from flink_autoscaler.core.model.events import EventType
from flink_autoscaler.core.model.job import JobStatus
from flink_autoscaler.core.model.orders import NO_ORDERS, Orders, Signed
from flink_autoscaler.core.model.rescale_facts import JobException, RescaleFacts
from flink_autoscaler.core.model.state import JobState
from flink_autoscaler.core.model.supervision import RescaleRecord, Stage, Supervision, SupervisionPhase
from flink_autoscaler.core.supervise.error_checkers import CHECKERS
from flink_autoscaler.core.supervise.following import Followed, follow
from flink_autoscaler.core.supervise.transition import SupervisionInput
from flink_autoscaler.core.supervise.under_way import measured_outage

NOW_MS = 100_000
BUFFERS = "java.io.IOException: Insufficient number of network buffers: required 65, but only 12 available"


def a_state(stage: Stage, phase: SupervisionPhase) -> JobState:
    record = RescaleRecord(90_000, 90_000, {"work": 1}, {"work": 4}, stage=stage)
    supervision = Supervision(current=record, phase=phase, since_ms=90_000, initial={"work": 1}, asked={"work": 4})
    return JobState(overrides={"work": 4}, supervision=supervision)


def followed(
    state: JobState,
    *,
    status: JobStatus = JobStatus.RUNNING,
    facts: RescaleFacts | None = None,
    options: dict[str, str] | None = None,
    orders: Orders = NO_ORDERS,
) -> Followed:
    request = a_request(replace(a_context(options), status=status), state=state, now_ms=NOW_MS)
    given = SupervisionInput(replace(request, orders=orders), facts or RescaleFacts(), CHECKERS, names={"work": "work"})
    return follow(given)


def told(seen: Followed) -> list[tuple[str, EventType]]:
    return [(event.reason, event.type) for event in seen.events]


@pytest.mark.parametrize(
    ("stage", "phase"),
    [
        pytest.param(Stage.REQUESTED, SupervisionPhase.STABLE, id="requested"),
        pytest.param(Stage.PENDING, SupervisionPhase.PROBATION, id="pending"),
    ],
)
@pytest.mark.parametrize("status", [JobStatus.CANCELED, JobStatus.FINISHED], ids=["cancelled", "finished"])
def test_a_rescale_of_a_job_that_was_ended_on_purpose_is_superseded_without_a_warning(
    stage: Stage, phase: SupervisionPhase, status: JobStatus
) -> None:
    seen = followed(a_state(stage, phase), status=status)

    current = seen.state.supervision.current
    assert current is not None
    assert (current.stage, seen.state.supervision.phase) == (Stage.SUPERSEDED, SupervisionPhase.STABLE)
    assert told(seen) == [("RescaleSuperseded", EventType.NORMAL)]
    assert seen.state.overrides == {"work": 4}


@pytest.mark.parametrize(
    ("status", "expected", "events"),
    [
        pytest.param(JobStatus.CANCELED, Stage.SUPERSEDED, [], id="cancelled"),
        pytest.param(JobStatus.FINISHED, Stage.SUPERSEDED, [], id="finished"),
        pytest.param(JobStatus.FAILED, Stage.REFUSED, [("RollbackImpossible", EventType.WARNING)], id="failed"),
    ],
)
def test_a_rollback_of_a_job_that_was_ended_on_purpose_did_not_fail(
    status: JobStatus, expected: Stage, events: list[tuple[str, EventType]]
) -> None:
    seen = followed(a_state(Stage.PENDING, SupervisionPhase.ROLLING_BACK), status=status)

    current = seen.state.supervision.current
    assert current is not None
    assert (current.stage, seen.state.supervision.phase) == (expected, SupervisionPhase.STABLE)
    assert told(seen) == events


@pytest.mark.parametrize(
    ("status", "expected"), [(JobStatus.CANCELED, Stage.SUPERSEDED), (JobStatus.FAILED, Stage.REFUSED)]
)
def test_taskmanagers_are_not_waited_for_in_vain_when_the_job_was_ended_on_purpose(
    status: JobStatus, expected: Stage
) -> None:
    context = replace(a_context({}, {"scheduler-mode": "reactive"}), status=status)
    request = a_request(context, state=a_state(Stage.REQUESTED, SupervisionPhase.STABLE), now_ms=NOW_MS)

    seen = follow(SupervisionInput(request, RescaleFacts(), CHECKERS, names={"work": "work"}))

    current = seen.state.supervision.current
    assert current is not None
    assert current.stage is expected


def test_a_rescale_of_a_job_that_failed_for_good_is_refused() -> None:
    seen = followed(a_state(Stage.PENDING, SupervisionPhase.PROBATION), status=JobStatus.FAILED)

    current = seen.state.supervision.current
    assert current is not None
    assert current.stage is Stage.REFUSED
    assert told(seen) == [("RescaleRefused", EventType.WARNING)]
    assert seen.state.overrides == {"work": 1}


@pytest.mark.parametrize(
    ("options", "orders", "expected"),
    [
        pytest.param({}, NO_ORDERS, "RollbackStarted", id="for real"),
        pytest.param({"dry-run": "true"}, NO_ORDERS, "RollbackAdvised", id="dry run configured"),
        pytest.param({}, Orders(dry_run=Signed("anna", "to see", 1)), "RollbackAdvised", id="dry run ordered"),
        pytest.param({"rollback.enabled": "false"}, NO_ORDERS, "RollbackAdvised", id="switched off"),
    ],
)
def test_a_rescale_that_the_job_does_not_survive_is_only_undone_for_real(
    options: dict[str, str], orders: Orders, expected: str
) -> None:
    facts = RescaleFacts(exceptions=(JobException(95_000, BUFFERS),), requirements={"work": (1, 4)})

    seen = followed(
        a_state(Stage.PENDING, SupervisionPhase.PROBATION),
        status=JobStatus.RESTARTING,
        facts=facts,
        options=options,
        orders=orders,
    )

    assert told(seen) == [(expected, EventType.WARNING)]
    assert (seen.state.supervision.phase is SupervisionPhase.ROLLING_BACK) == (expected == "RollbackStarted")


@pytest.mark.parametrize(
    ("initialized_ms", "expected"),
    [pytest.param(1_000, 3_000, id="the same JobMaster"), pytest.param(93_000, None, id="restarted meanwhile")],
)
def test_an_outage_in_which_the_jobmanager_was_restarted_is_not_measured(
    initialized_ms: int, expected: int | None
) -> None:
    record = RescaleRecord(90_000, 90_000, {"work": 1}, {"work": 4}, stage=Stage.PENDING)
    facts = RescaleFacts(initialized_ms=initialized_ms, stopped_ms=95_000, running_since_ms=98_000)

    assert measured_outage(facts, record) == expected
