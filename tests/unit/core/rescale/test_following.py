from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from flink_autoscaler.core.model.job import JobStatus
from flink_autoscaler.core.model.metrics import MetricSample, ScalingMetric
from flink_autoscaler.core.model.orders import NO_ORDERS, AuditStamp, Orders
from flink_autoscaler.core.model.rescale_facts import CheckpointFacts, JobException, RescaleFacts, TaskManagerFacts
from flink_autoscaler.core.model.state import JobState, ScalingRecord
from flink_autoscaler.core.model.supervision import Origin, Stage, Supervision, SupervisionPhase
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
