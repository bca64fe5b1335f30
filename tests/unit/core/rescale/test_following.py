"""What becomes of a rescale when the job ends, the JobManager is restarted, or there is a dry run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from flink_autoscaler.core.model.events import EventType
from flink_autoscaler.core.model.job import JobStatus
from flink_autoscaler.core.model.metrics import MetricSample, ScalingMetric
from flink_autoscaler.core.model.orders import NO_ORDERS, AuditStamp, Orders
from flink_autoscaler.core.model.rescale_facts import CheckpointFacts, JobException, RescaleFacts, TaskManagerFacts
from flink_autoscaler.core.model.state import JobState, ScalingRecord
from flink_autoscaler.core.model.supervision import (
    NO_SUPERVISION,
    Origin,
    RescaleRecord,
    Stage,
    Supervision,
    SupervisionPhase,
)
from flink_autoscaler.core.rescale.error_checkers import CHECKERS
from flink_autoscaler.core.rescale.following import Tracking, follow
from flink_autoscaler.core.rescale.transition import SupervisionInput, start_rescale
from testkit.builders.core import a_context, a_request

MINUTE = 60_000


DAY = 86_400_000


NAN = float("nan")


ONE, TWO, FOUR = {"work": 1}, {"work": 2}, {"work": 4}


MEMORY = 64 << 20


@dataclass
class Watched:
    """A job whose rescales are followed, with a cluster that says what it is told to say."""

    options: dict[str, str] = field(default_factory=dict)
    flink: dict[str, str] = field(default_factory=dict)
    state: JobState = field(default_factory=JobState)
    now_ms: int = 1_000_000
    job_id: str | None = None
    status: JobStatus = JobStatus.RUNNING
    orders: Orders = NO_ORDERS
    refusal: str | None = None
    events: list[str] = field(default_factory=list)
    facts: RescaleFacts = field(default_factory=lambda: healthy(TWO))

    def rescale(self, before: Mapping[str, int], target: Mapping[str, int]) -> None:
        """Decide, as the core does."""
        supervision = start_rescale(
            self.supervision, self._given(), before, target, Origin.AUTOSCALER, "decided by load"
        )
        supervision = replace(supervision, asked=dict(target), seen={})
        tracking = (*self.state.tracking, ScalingRecord(self.now_ms))
        self.state = replace(self.state, supervision=supervision, overrides=dict(target), tracking=tracking)

    def look(self, facts: RescaleFacts | None = None, *, after: int = 10_000) -> Tracking:
        self.now_ms += after
        if facts is not None:
            self.facts = facts
        self.facts = replace(self.facts, now_ms=self.now_ms)
        seen = follow(self._given())
        self.state = replace(seen.state, supervision=replace(seen.state.supervision, asked=dict(seen.state.overrides)))
        self.events += [event.reason for event in seen.events]
        return seen

    def _given(self) -> SupervisionInput:
        context = replace(a_context(self.options, self.flink), status=self.status)
        if self.job_id is not None:
            context = replace(context, job_id=self.job_id)
        request = a_request(context, state=self.state, now_ms=self.now_ms)
        request = replace(request, orders=self.orders, refusal=self.refusal)
        return SupervisionInput(request, self.facts, CHECKERS, names={"work": "work"})

    @property
    def supervision(self) -> Supervision:
        return self.state.supervision

    @property
    def stage(self) -> Stage | None:
        current = self.supervision.current
        return None if current is None else current.stage


def healthy(vector: Mapping[str, int], asked: Mapping[str, int] | None = None, **others: Any) -> RescaleFacts:
    facts: dict[str, Any] = {
        "running": dict(vector),
        "all_running": True,
        "requirements": {vertex: (1, upper) for vertex, upper in (asked or vector).items()},
        "exceptions": (),
        "checkpoints": CheckpointFacts(completed_ms=DAY, state_bytes=10**9, interval_ms=10_000),
        "taskmanagers": (TaskManagerFacts("tm-1", slots=8, free_slots=2, network_memory=MEMORY),),
        "initialized_ms": 1,
    }
    return RescaleFacts(**{**facts, **others})


def failing(asked: Mapping[str, int], text: str = "", at_ms: int = DAY) -> RescaleFacts:
    exceptions = (JobException(at_ms, text),) if text else ()
    return healthy(asked, running=None, all_running=False, exceptions=exceptions)


BUFFERS = "java.io.IOException: Insufficient number of network buffers: required 65, but only 12 available"


def a_rescaled_job(**options: str) -> Watched:
    job = Watched(options=options)
    job.look(healthy(TWO))
    job.rescale(TWO, FOUR)
    return job


def samples(
    *, lags: tuple[float, float] = (0.0, 0.0), rate: float = 1000.0, busy: float = 1.0
) -> tuple[MetricSample, ...]:
    """Return two samples of a source, a minute apart."""
    work = {ScalingMetric.LOAD: busy, ScalingMetric.NUM_RECORDS_IN: 0.0}
    return tuple(
        MetricSample(
            minute * MINUTE,
            {"work": {**work, ScalingMetric.NUM_RECORDS_IN: rate * 60 * minute, ScalingMetric.LAG: lag}},
            {},
        )
        for minute, lag in enumerate(lags)
    )


# 1,000 records/s are read, so that 30 s of lag (slo.lag) are 30,000 records.
@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        pytest.param({"lag": 20e3, "work": 1e3}, samples(lags=(500e3, 775e3)), "775000 records of lag", id="lag grows"),
        pytest.param({"lag": 20e3, "work": 500.0}, samples(lags=(500e3, 775e3)), "", id="lag grows, but more is done"),
        pytest.param(
            {"lag": 20e3, "work": 500.0}, samples(busy=NAN, lags=(5e5, 7e5)), "", id="lag grows, more is read"
        ),
        pytest.param({"lag": 20e3}, samples(lags=(500e3, 775e3)), "775000 records", id="lag grows, nothing else known"),
        pytest.param({"lag": 20e3, "work": 1e3}, samples(lags=(775e3, 775e3)), "775000 records of lag", id="lag stays"),
        pytest.param({"lag": 20e3, "work": 1e3}, samples(lags=(775e3, 500e3)), "", id="lag is being worked off"),
        pytest.param({"lag": 900e3, "work": 1e3}, samples(lags=(500e3, 775e3)), "", id="less lag than before"),
        pytest.param({"lag": 90e3, "work": 1e3}, samples(), "", id="lag is gone, and the job still busy"),
        pytest.param({"lag": 0.0, "work": 1e3}, samples(lags=(9.0, 20e3)), "100% busy", id="little lag, no faster"),
        pytest.param({"lag": 0.0, "work": 1e3}, samples(rate=2000.0), "", id="as busy with more records"),
        pytest.param({"lag": 0.0, "work": 1e3}, samples(busy=0.6), "", id="less busy"),
        pytest.param({"lag": 0.0}, samples(), "", id="not known what it could do"),
        pytest.param({"work": 1e3}, samples(lags=(NAN, NAN)), "up to 1000 records/s", id="lag is not known"),
        pytest.param({"lag": NAN, "work": NAN}, samples(lags=(1e6, 2e6), busy=NAN), "", id="nothing is known"),
        pytest.param({"lag": 0.0, "work": 1e3}, samples(rate=-5.0), "", id="counters go back"),
        pytest.param({}, (), "", id="no samples"),
    ],
)
def test_a_rescale_is_confirmed_where_the_job_is_better_off_than_before(
    before: dict[str, float], after: tuple[MetricSample, ...], told: str
) -> None:
    job = a_rescaled_job()
    job.look(healthy(TWO, asked=FOUR))
    job.look(healthy(FOUR))
    job.state = replace(job.state, supervision=replace(job.supervision, baseline=before), samples=after)

    (event,) = job.look(after=11 * MINUTE).events

    assert event.reason == ("RescaleIneffective" if told else "RescaleConfirmed")
    assert told in event.message
    assert (job.supervision.phase, job.supervision.last_stable) == (SupervisionPhase.STABLE, FOUR)


def test_a_limit_that_cannot_be_read_keeps_no_job_on_probation() -> None:
    job = a_rescaled_job(**{"slo.lag": "much"})
    job.look(healthy(TWO, asked=FOUR))
    job.look(healthy(FOUR))
    job.state = replace(job.state, samples=samples(lags=(500e3, 775e3)))

    job.look(after=11 * MINUTE)

    assert job.events[-1] == "RescaleConfirmed"


def test_the_outage_is_measured_and_feeds_the_restart_time() -> None:
    job = a_rescaled_job()
    since = job.now_ms
    job.look(healthy(TWO, asked=FOUR))

    job.look(healthy(FOUR, stopped_ms=since + 5_000, running_since_ms=since + 8_500))

    assert job.supervision.current is not None
    assert job.supervision.current.outage_ms == 3_500
    assert job.supervision.current.state_bytes == 10**9
    assert job.state.tracking[-1].restart_ms == 3_500


def test_an_outage_with_another_failure_in_it_is_not_measured() -> None:
    job = a_rescaled_job()
    since = job.now_ms
    job.look(healthy(TWO, asked=FOUR))

    facts = healthy(FOUR, stopped_ms=since + 5_000, running_since_ms=since + 8_500)
    job.look(replace(facts, exceptions=(JobException(since + 6_000, "lost a TaskManager"),)))

    assert job.supervision.current is not None
    assert job.supervision.current.outage_ms is None


def test_a_rescale_that_the_cluster_does_not_take_over_is_refused_and_withdrawn() -> None:
    job = a_rescaled_job()
    job.refusal = "HTTP 400: no"

    job.look(healthy(TWO), after=MINUTE)
    job.look(after=90_000)

    assert job.stage is Stage.REFUSED
    assert job.supervision.current is not None
    assert job.supervision.current.reason == "HTTP 400: no"
    assert job.state.overrides == TWO
    assert job.events == ["RescaleRefused"]


def test_nothing_is_concluded_from_answers_that_are_missing() -> None:
    job = a_rescaled_job()

    seen = job.look(RescaleFacts(), after=DAY // 2)

    assert job.stage is Stage.REQUESTED
    assert [hold.code for hold in seen.holds] == ["RESCALE_UNDER_WAY"]


def test_a_rescale_for_which_slots_are_missing_is_partially_reached() -> None:
    job = a_rescaled_job()
    job.look(healthy(TWO, asked=FOUR))

    job.look(healthy({"work": 3}, asked=FOUR))
    early = job.stage
    seen = job.look(after=10 * MINUTE)

    assert (early, job.stage) == (Stage.PENDING, Stage.PARTIALLY_REACHED)
    assert job.state.overrides == {"work": 3}
    assert job.events == ["RescalePartiallyReached"]
    assert [hold.code for hold in seen.holds] == ["REFUSED_LATELY"]


def test_a_rescale_that_changes_nothing_is_refused_and_not_tried_again_at_once() -> None:
    job = a_rescaled_job()
    job.look(healthy(TWO, asked=FOUR))

    seen = job.look(after=10 * MINUTE)
    later = job.look(healthy(TWO), after=6 * MINUTE)

    assert (job.stage, job.state.overrides) == (Stage.REFUSED, TWO)
    assert [hold.code for hold in seen.holds] == ["REFUSED_LATELY"]
    assert later.holds == ()


def test_a_rescale_that_flink_never_does_names_its_threshold() -> None:
    job = a_rescaled_job()
    job.flink = {"jobmanager.adaptive-scheduler.min-parallelism-increase": "3"}

    job.look(healthy(TWO, asked=FOUR))
    job.look(after=10 * MINUTE)

    assert job.stage is Stage.REFUSED
    assert job.supervision.current is not None
    assert "min-parallelism-increase" in job.supervision.current.reason


def test_somebody_elses_change_is_respected_and_reported() -> None:
    job = a_rescaled_job()
    job.look(healthy(FOUR))
    job.look(after=20 * MINUTE)

    edited = job.look(healthy(FOUR, asked={"work": 6}))
    reached = job.look(healthy({"work": 6}), after=59 * MINUTE)
    later = job.look(after=2 * MINUTE)

    assert job.events[-1] == "RequirementsEdited"
    assert edited.state.overrides == {}
    assert [hold.code for hold in (*edited.holds, *reached.holds)] == ["EDITED_BY_OTHERS"] * 2
    assert later.holds == ()


def test_a_change_of_which_one_answer_alone_has_told_is_forgotten() -> None:
    job = a_rescaled_job()
    job.look(healthy(FOUR))
    job.look(after=20 * MINUTE)

    edited = job.look(healthy(FOUR, asked={"work": 6}))
    later = job.look(healthy(FOUR, asked=FOUR))

    assert job.events[-2:] == ["RequirementsEdited", "RequirementsRestored"]
    assert [hold.code for hold in edited.holds] == ["EDITED_BY_OTHERS"]
    assert (later.holds, job.supervision.edit) == ((), None)


def test_a_change_that_is_taken_back_after_it_was_seen_twice_is_respected() -> None:
    job = a_rescaled_job()
    job.look(healthy(FOUR))
    job.look(after=20 * MINUTE)

    for parallelism in (6, 6, 4):
        found = job.look(healthy(FOUR, asked={"work": parallelism}))

    assert [hold.code for hold in found.holds] == ["EDITED_BY_OTHERS"]


def test_somebody_elses_change_of_a_vertex_beside_a_pinned_one_is_noticed() -> None:
    before, edited = {"work": 2, "sink": 1}, {"work": 2, "sink": 3}
    pinned = Supervision(initial=before, asked={"work": 2}, seen={vertex: (1, p) for vertex, p in before.items()})
    job = Watched(state=JobState(supervision=pinned))

    job.look(healthy(before, asked=edited))

    assert job.events == ["RequirementsEdited"]


def test_somebody_elses_change_supersedes_a_rescale_that_is_pending() -> None:
    job = a_rescaled_job()
    job.look(healthy(TWO, asked=FOUR))

    job.look(healthy(TWO, asked={"work": 3}))

    assert job.supervision.past[-1].stage is Stage.SUPERSEDED
    assert job.supervision.phase is SupervisionPhase.STABLE


def test_requirements_that_a_fail_over_lost_are_asked_for_again() -> None:
    job = a_rescaled_job()
    job.look(healthy(TWO, asked=FOUR))

    job.look(healthy(TWO, initialized_ms=job.now_ms))
    again = job.stage
    job.look(healthy(FOUR, initialized_ms=job.now_ms))

    assert (again, job.stage) == (Stage.REQUESTED, Stage.REACHED)
    assert job.events == ["RequirementsLost", "RescaleReached"]
    assert job.state.overrides == FOUR


def test_a_job_that_does_not_survive_is_rolled_back_and_paused() -> None:
    job = a_rescaled_job()
    job.look(healthy(TWO, asked=FOUR))
    job.status = JobStatus.RESTARTING

    hit = job.look(failing(FOUR, BUFFERS))
    job.status = JobStatus.RUNNING
    back = job.look(healthy(TWO))

    assert hit.is_repair
    assert hit.state.overrides == TWO
    assert job.supervision.phase is SupervisionPhase.PAUSED
    assert [hold.code for hold in back.holds] == ["PAUSED_AFTER_ROLLBACK"]
    assert job.events == ["RollbackStarted", "RolledBack"]
    assert [(q.vertex_id, q.parallelism, q.memory) for q in job.supervision.quarantine] == [("work", 4, MEMORY)]


def test_exceptions_from_before_the_rescale_roll_nothing_back() -> None:
    job = a_rescaled_job()
    since = job.now_ms
    job.look(healthy(TWO, asked=FOUR))

    job.look(failing(FOUR, BUFFERS, at_ms=since))

    assert job.supervision.phase is SupervisionPhase.PROBATION


def a_paused_job(**options: str) -> Watched:
    job = a_rescaled_job(**options)
    job.look(healthy(TWO, asked=FOUR))
    job.look(failing(FOUR, BUFFERS))
    job.look(healthy(TWO))
    assert job.supervision.phase is SupervisionPhase.PAUSED
    return job


NEW_CLUSTER = (TaskManagerFacts("tm-9", slots=8, free_slots=2, network_memory=MEMORY),)


MORE_MEMORY = (TaskManagerFacts("tm-1", slots=8, free_slots=2, network_memory=round(1.2 * MEMORY)),)


@pytest.mark.parametrize(
    ("taskmanagers", "quarantined"), [(NEW_CLUSTER, 1), (MORE_MEMORY, 0)], ids=["other ones", "more memory"]
)
def test_scaling_goes_on_when_the_cluster_is_another_one(
    taskmanagers: tuple[TaskManagerFacts, ...], quarantined: int
) -> None:
    job = a_paused_job()

    seen = job.look(healthy(TWO, taskmanagers=taskmanagers))

    assert (job.supervision.phase, seen.holds) == (SupervisionPhase.STABLE, ())
    assert len(job.supervision.quarantine) == quarantined


def test_a_pause_of_some_length_ends_by_itself() -> None:
    job = a_paused_job(**{"rollback.pause": "30 min"})

    job.look(after=29 * MINUTE)
    before = job.supervision.phase
    job.look(after=2 * MINUTE)

    assert (before, job.supervision.phase) == (SupervisionPhase.PAUSED, SupervisionPhase.STABLE)


def test_a_person_ends_a_pause() -> None:
    job = a_paused_job()
    job.orders = Orders(resumed_ms=job.now_ms + 1)

    job.look()

    assert job.supervision.phase is SupervisionPhase.STABLE


def test_after_the_second_rollback_of_a_day_only_a_person_resumes() -> None:
    job = a_paused_job()
    job.look(healthy(TWO, taskmanagers=NEW_CLUSTER))
    job.rescale(TWO, {"work": 3})
    job.look(healthy(TWO, asked={"work": 3}, taskmanagers=NEW_CLUSTER))
    job.look(failing({"work": 3}, BUFFERS))
    job.look(healthy(TWO, taskmanagers=NEW_CLUSTER))

    job.look(healthy(TWO))

    assert job.supervision.pause is not None
    assert job.supervision.pause.for_good
    assert job.supervision.phase is SupervisionPhase.PAUSED


def test_a_rollback_that_does_not_help_goes_to_the_first_parallelism_and_then_to_a_person() -> None:
    job = Watched()
    job.look(healthy(ONE))
    job.rescale(ONE, TWO)
    job.look(healthy(TWO))
    job.look(after=20 * MINUTE)
    job.rescale(TWO, FOUR)
    job.look(healthy(TWO, asked=FOUR))
    job.look(failing(FOUR, BUFFERS))

    job.look(failing(TWO, BUFFERS), after=20 * MINUTE)
    first = dict(job.state.overrides)
    job.look(failing(ONE, BUFFERS), after=20 * MINUTE)

    assert first == ONE
    assert job.supervision.phase is SupervisionPhase.PAUSED
    assert job.supervision.pause is not None
    assert job.supervision.pause.cause == "rollback-failed"
    assert job.events[-3:] == ["RollbackStarted", "RollbackRetried", "RollbackFailed"]


def test_with_rollback_switched_off_it_is_advised_once() -> None:
    job = a_rescaled_job(**{"rollback.enabled": "false"})
    job.look(healthy(TWO, asked=FOUR))

    job.look(failing(FOUR, BUFFERS))
    job.look(failing(FOUR, BUFFERS))

    assert job.events == ["RollbackAdvised"]
    assert job.state.overrides == FOUR


def test_a_checker_that_is_not_there_is_named_and_does_no_harm() -> None:
    job = a_rescaled_job(**{"rollback.checkers": "network-memmory;network-memory"})
    job.look(healthy(TWO, asked=FOUR))

    job.look(failing(FOUR, BUFFERS))

    assert set(job.events) == {"PluginProblem", "RollbackStarted"}
    assert job.state.overrides == TWO


def test_a_person_goes_back_to_before_the_last_rescale_once() -> None:
    job = a_rescaled_job()
    job.look(healthy(FOUR))
    job.look(after=20 * MINUTE)
    job.orders = Orders(rollback=AuditStamp("ann", "too many", job.now_ms))

    job.look()
    wanted = dict(job.state.overrides)
    job.look(healthy(TWO))
    job.look()

    assert wanted == TWO
    assert job.events[-2:] == ["RollbackStarted", "RolledBack"]
    assert job.supervision.phase is SupervisionPhase.PAUSED
    assert job.supervision.quarantine == ()


def test_a_person_has_everything_forgotten_once() -> None:
    job = a_rescaled_job()
    job.look(healthy(FOUR))
    job.orders = Orders(reset=AuditStamp("ann", "fresh start", job.now_ms))

    job.look()
    forgotten = job.state
    job.look()

    assert (forgotten.overrides, forgotten.tracking, forgotten.supervision.past) == ({}, (), ())
    assert job.events.count("StateReset") == 1


def test_another_job_under_the_same_key_ends_what_was_followed() -> None:
    job = a_rescaled_job()
    job.state = replace(job.state, job_id=a_context({}).job_id)
    job.look(healthy(TWO, asked=FOUR))
    job.job_id = "b" * 32

    seen = job.look(healthy(TWO))

    assert seen.holds == ()
    assert job.supervision.past[-1].stage is Stage.SUPERSEDED
    assert job.supervision.phase is SupervisionPhase.STABLE


NOW_MS = 100_000


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


def seen(parallelism: int, *, slots: int) -> RescaleFacts:
    """A cluster with so many slots whose job runs with a parallelism."""
    return RescaleFacts(
        running={"work": parallelism}, all_running=True, taskmanagers=(TaskManagerFacts("tm-1", slots, 0),)
    )


@dataclass
class ReactiveRescale:
    """A job in reactive mode that is to go from one parallelism to another."""

    before: int
    target: int
    state: JobState = field(default_factory=JobState)
    now_ms: int = 1_000_000
    refusal: str | None = None

    def __post_init__(self) -> None:
        given = self._given(seen(self.before, slots=self.before))
        before, target = {"work": self.before}, {"work": self.target}
        supervision = start_rescale(NO_SUPERVISION, given, before, target, Origin.AUTOSCALER, "decided by load")
        self.state = replace(self.state, supervision=supervision, overrides={"work": self.target})

    def look(self, facts: RescaleFacts, *, after: int = 10_000) -> Tracking:
        self.now_ms += after
        followed = follow(self._given(replace(facts, now_ms=self.now_ms)))
        self.state = followed.state
        return followed

    def _given(self, facts: RescaleFacts) -> SupervisionInput:
        context = a_context({}, {"scheduler-mode": "reactive"})
        request = a_request(context, state=self.state, now_ms=self.now_ms)
        return SupervisionInput(replace(request, refusal=self.refusal), facts, CHECKERS)

    @property
    def stage(self) -> Stage | None:
        current = self.state.supervision.current
        return None if current is None else current.stage


def test_a_scale_up_waits_for_its_taskmanagers_then_for_the_job() -> None:
    job = ReactiveRescale(4, 8)

    stages = []
    for facts in (seen(4, slots=4), seen(4, slots=8), seen(8, slots=8)):
        job.look(facts)
        stages.append(job.stage)

    assert stages == [Stage.REQUESTED, Stage.PENDING, Stage.REACHED]


def test_a_scale_down_is_reached_when_the_job_runs_in_fewer_slots() -> None:
    job = ReactiveRescale(8, 4)
    job.look(seen(8, slots=8))

    job.look(seen(4, slots=4))

    assert job.stage is Stage.REACHED


def test_taskmanagers_that_do_not_come_are_a_refusal_with_the_providers_words() -> None:
    job = ReactiveRescale(4, 8, refusal="no quota left")
    job.look(seen(4, slots=4), after=11 * MINUTE)
    early = job.stage

    job.look(seen(4, slots=4), after=2 * MINUTE)

    assert (early, job.stage) == (Stage.REQUESTED, Stage.REFUSED)
    assert job.state.supervision.current is not None
    assert job.state.supervision.current.reason == "no quota left"
    assert job.state.overrides == {"work": 4}


def test_what_came_in_time_is_kept() -> None:
    job = ReactiveRescale(4, 12)
    job.look(seen(8, slots=8), after=13 * MINUTE)

    job.look(seen(8, slots=8), after=13 * MINUTE)

    assert job.stage is Stage.PARTIALLY_REACHED
    assert job.state.overrides == {"work": 8}
