"""Rescales of jobs in reactive mode: TaskManagers have to come first."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from flink_autoscaler.core.model.rescale_facts import RescaleFacts, TaskManagerFacts
from flink_autoscaler.core.model.state import JobState
from flink_autoscaler.core.model.supervision import NO_SUPERVISION, Origin, Stage
from flink_autoscaler.core.rescale.error_checkers import CHECKERS
from flink_autoscaler.core.rescale.following import Tracking, follow
from flink_autoscaler.core.rescale.transition import SupervisionInput, start_rescale
from testkit.builders.core import a_context, a_request

MINUTE = 60_000


def seen(parallelism: int, *, slots: int) -> RescaleFacts:
    """A cluster with so many slots whose job runs with a parallelism."""
    return RescaleFacts(
        running={"work": parallelism}, all_running=True, taskmanagers=(TaskManagerFacts("tm-1", slots, 0),)
    )


@dataclass
class Watched:
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
    job = Watched(4, 8)

    stages = []
    for facts in (seen(4, slots=4), seen(4, slots=8), seen(8, slots=8)):
        job.look(facts)
        stages.append(job.stage)

    assert stages == [Stage.REQUESTED, Stage.PENDING, Stage.REACHED]


def test_a_scale_down_is_reached_when_the_job_runs_in_fewer_slots() -> None:
    job = Watched(8, 4)
    job.look(seen(8, slots=8))

    job.look(seen(4, slots=4))

    assert job.stage is Stage.REACHED


def test_taskmanagers_that_do_not_come_are_a_refusal_with_the_providers_words() -> None:
    job = Watched(4, 8, refusal="no quota left")
    job.look(seen(4, slots=4), after=11 * MINUTE)
    early = job.stage

    job.look(seen(4, slots=4), after=2 * MINUTE)

    assert (early, job.stage) == (Stage.REQUESTED, Stage.REFUSED)
    assert job.state.supervision.current is not None
    assert job.state.supervision.current.reason == "no quota left"
    assert job.state.overrides == {"work": 4}


def test_what_came_in_time_is_kept() -> None:
    job = Watched(4, 12)
    job.look(seen(8, slots=8), after=13 * MINUTE)

    job.look(seen(8, slots=8), after=13 * MINUTE)

    assert job.stage is Stage.PARTIALLY_REACHED
    assert job.state.overrides == {"work": 8}
