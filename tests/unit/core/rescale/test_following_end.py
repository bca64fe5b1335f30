"""What becomes of a rescale when the job ends, the JobManager is restarted, or there is a dry run."""

from __future__ import annotations

from dataclasses import replace

import pytest

from flink_autoscaler.core.model.events import EventType
from flink_autoscaler.core.model.job import JobStatus
from flink_autoscaler.core.model.orders import NO_ORDERS, AuditStamp, Orders
from flink_autoscaler.core.model.rescale_facts import JobException, RescaleFacts
from flink_autoscaler.core.model.state import JobState
from flink_autoscaler.core.model.supervision import RescaleRecord, Stage, Supervision, SupervisionPhase
from flink_autoscaler.core.rescale.error_checkers import CHECKERS
from flink_autoscaler.core.rescale.following import Tracking, follow
from flink_autoscaler.core.rescale.transition import SupervisionInput
from testkit.builders.core import a_context, a_request

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
) -> Tracking:
    request = a_request(replace(a_context(options), status=status), state=state, now_ms=NOW_MS)
    given = SupervisionInput(replace(request, orders=orders), facts or RescaleFacts(), CHECKERS, names={"work": "work"})
    return follow(given)


def told(seen: Tracking) -> list[tuple[str, EventType]]:
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
        pytest.param({}, Orders(dry_run=AuditStamp("anna", "to see", 1)), "RollbackAdvised", id="dry run ordered"),
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


ALL_RUN = RescaleFacts(running={"work": 4}, all_running=True, stopped_ms=95_000, running_since_ms=98_000)


@pytest.mark.parametrize(
    ("facts", "outage_ms", "text"),
    [
        pytest.param(ALL_RUN, 3_000, ", downtime 3.0 s", id="measured"),
        pytest.param(
            replace(ALL_RUN, stopped_ms=89_411, running_since_ms=89_933),
            522,
            ", downtime 0.5 s",
            id="the clocks of daemon and JobManager differ a little",
        ),
        pytest.param(
            replace(ALL_RUN, stopped_ms=95_000, running_since_ms=94_933),
            0,
            ", downtime 0.0 s",
            id="two instants of the cluster contradict each other a little",
        ),
        pytest.param(
            replace(ALL_RUN, stopped_ms=87_000, running_since_ms=88_000),
            None,
            "; its downtime is unknown: by the cluster the job stopped -3 s and ran -2 s after the request",
            id="stopped before the request",
        ),
        pytest.param(
            replace(ALL_RUN, initialized_ms=93_000),
            None,
            "; its downtime is unknown: the JobManager was away, too",
            id="the JobManager restarted",
        ),
        pytest.param(
            replace(ALL_RUN, exceptions=(JobException(96_000, "a TaskManager is lost"),)),
            None,
            "; its downtime is unknown: tasks failed meanwhile",
            id="failed as well",
        ),
        pytest.param(
            replace(ALL_RUN, running_since_ms=None),
            None,
            "; its downtime is unknown: the cluster does not tell",
            id="not told",
        ),
        pytest.param(
            replace(ALL_RUN, stopped_ms=None, missing={"stopped": "HTTP 500"}),
            None,
            "; its downtime is unknown: an answer of the cluster could not be read",
            id="not read",
        ),
        pytest.param(
            replace(ALL_RUN, stopped_ms=80_000),
            None,
            "; its downtime is unknown: by the cluster the job stopped -10 s and ran 8 s after the request",
            id="an earlier stop",
        ),
        pytest.param(
            replace(ALL_RUN, running_since_ms=900_000),
            None,
            "; its downtime is unknown: by the cluster the job stopped 5 s and ran 810 s after the request",
            id="longer than the rescale is ago",
        ),
    ],
)
def test_what_was_reached_tells_how_long_the_job_was_away_or_why_nobody_knows(
    facts: RescaleFacts, outage_ms: int | None, text: str
) -> None:
    seen = followed(a_state(Stage.PENDING, SupervisionPhase.PROBATION), status=JobStatus.RUNNING, facts=facts)

    (reached,) = [each for each in seen.events if each.reason == "RescaleReached"]
    assert reached.message.endswith(f" s{text}")
    assert seen.state.supervision.current is not None
    assert seen.state.supervision.current.outage_ms == outage_ms
