"""Transitions are values: they add up, change nothing that they were given, and are those of the picture."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

from flink_autoscaler.core.model.rescale_facts import RescaleFacts
from flink_autoscaler.core.model.state import JobState
from flink_autoscaler.core.model.supervision import NO_SUPERVISION, Origin, RescaleRecord, Stage, Supervision
from flink_autoscaler.core.supervise import following
from flink_autoscaler.core.supervise.transition import (
    SupervisionInput,
    Transition,
    begun,
    hold,
    in_turn,
    remember,
    tell,
)
from testkit.builders.core import a_request

GIVEN = SupervisionInput(a_request(now_ms=1_000), RescaleFacts())
ONE, TWO, THREE = {"work": 1}, {"work": 2}, {"work": 3}


def first(state: JobState, _: SupervisionInput) -> Transition:
    return remember(state, Supervision(initial=ONE), tell("First", "text"), overrides=TWO)


def second(state: JobState, _: SupervisionInput) -> Transition:
    done = hold(state, "SECOND", f"after {dict(state.overrides)}")
    return done.then(remember(state, state.supervision, tell("Second", "text", warns=True)))


def test_steps_in_turn_go_on_with_what_the_one_before_remembers() -> None:
    done = in_turn(JobState(), GIVEN, (first, second))

    assert done.state == JobState(supervision=Supervision(initial=ONE), overrides=TWO)
    assert [event.reason for event in done.events] == ["First", "Second"]
    assert [(reason.code, reason.text) for reason in done.holds] == [("SECOND", "after {'work': 2}")]


def test_a_rescale_that_begins_makes_the_one_before_a_past_one_and_leaves_what_it_was_given_alone() -> None:
    before = begun(NO_SUPERVISION, GIVEN, ONE, TWO, Origin.AUTOSCALER, "decided by load")
    copy = Supervision(current=RescaleRecord(1_000, 1_000, ONE, TWO, reason="decided by load"), since_ms=1_000)

    after = begun(before, GIVEN, TWO, THREE, Origin.OPERATOR, "wanted by a person")

    assert before == copy
    assert after.current is not None
    assert (after.current.before, after.current.target, after.current.stage) == (TWO, THREE, Stage.REQUESTED)
    assert [(record.target, record.stage) for record in after.past] == [(TWO, Stage.SUPERSEDED)]


def test_every_function_in_the_picture_of_the_machine_is_one_of_the_room() -> None:
    room = Path(following.__file__).parent
    modules = [import_module(f"{following.__package__}.{path.stem}") for path in room.glob("[a-z]*.py")]
    known = {name for module in modules for name in vars(module)}

    named = set(re.findall(r"\b[a-z]+(?:_[a-z]+)+\b", following.__doc__ or ""))

    assert {"see_request", "apply_orders", "watch_rollback", "watch_pause"} <= named <= known
