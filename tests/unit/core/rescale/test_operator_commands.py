from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from flink_autoscaler.core.model.orders import NO_ORDERS, AuditStamp, Orders, PauseOrder, PauseScope, Pin, still_to_do
from flink_autoscaler.core.model.rescale_facts import RescaleFacts
from flink_autoscaler.core.model.state import JobState
from flink_autoscaler.core.model.supervision import (
    NO_SUPERVISION,
    Fingerprint,
    ForeignEdit,
    Origin,
    Pause,
    RescaleRecord,
    Stage,
    Supervision,
)
from flink_autoscaler.core.rescale.following import Tracking, follow
from flink_autoscaler.core.rescale.operator_commands import (
    KEPT_MS,
    dry_run_order,
    last_known_orders,
    pause_order,
    pin_order,
    reset_order,
    resume_order,
    rollback_order,
    unpin_order,
    without_expired,
)
from flink_autoscaler.core.rescale.transition import SupervisionInput
from testkit.builders.core import a_request

NOW = 1_000_000
ALICE = AuditStamp("alice", "deployment", NOW)
BOB = AuditStamp("bob", "", NOW + 1)
LAST = RescaleRecord(NOW - 60_000, NOW - 60_000, {"v": 2}, {"v": 4}, stage=Stage.REACHED, reason="decided by load")
UNDOING = RescaleRecord(NOW, NOW, {"v": 4}, {"v": 2}, origin=Origin.OPERATOR, stage=Stage.REACHED)
RESCALED = Supervision(current=LAST, initial={"v": 2})


def test_a_pause_says_who_paused_what_until_when() -> None:
    ordered = pause_order(NO_ORDERS, ALICE, direction=PauseScope.UP, lasts_ms=2_000)

    assert ordered.orders.pause == PauseOrder(ALICE, PauseScope.UP, NOW + 2_000)
    assert ordered.text == "Scaling up is paused until 1970-01-01 00:16:42 UTC, by alice: deployment"
    assert ordered.event is not None
    assert (ordered.event.reason, ordered.event.message) == ("Paused", ordered.text)


def test_a_pause_replaces_the_one_before_and_says_so() -> None:
    before = pause_order(NO_ORDERS, ALICE, direction=PauseScope.UP, lasts_ms=None).orders

    ordered = pause_order(before, BOB, direction=PauseScope.DOWN, lasts_ms=None)

    assert ordered.orders.pause == PauseOrder(BOB, PauseScope.DOWN)
    assert "(instead of: scaling up paused until somebody resumes it, by alice: deployment)" in ordered.text


def test_a_pause_that_is_over_is_not_talked_about() -> None:
    before = pause_order(NO_ORDERS, ALICE, direction=PauseScope.UP, lasts_ms=1).orders

    assert "instead of" not in pause_order(before, BOB, direction=PauseScope.DOWN, lasts_ms=None).text


def test_resuming_ends_a_pause_that_was_ordered() -> None:
    before = pause_order(NO_ORDERS, ALICE, direction=PauseScope.BOTH, lasts_ms=None).orders

    ordered = resume_order(before, BOB)

    assert ordered.orders == Orders(resumed_ms=BOB.at_ms)
    assert ordered.reason == "Resumed"
    assert "ends: scaling paused until somebody resumes it, by alice: deployment" in ordered.text


@pytest.mark.parametrize(
    ("remembered", "expected"),
    [
        pytest.param(
            {"pause": Pause("restarts", "rolled back to v 2", NOW + 9_000, Fingerprint(None))},
            "rolled back to v 2",
            id="pause after a rollback",
        ),
        pytest.param({"edit": ForeignEdit(NOW + 9_000, {"v": (1, 3)}, NOW + 99_000)}, "from outside", id="an edit"),
    ],
)
def test_resuming_is_later_than_what_it_ends_whatever_the_clocks_say(remembered: Any, expected: str) -> None:
    ordered = resume_order(NO_ORDERS, ALICE, Supervision(**remembered))

    assert ordered.orders.resumed_ms == NOW + 9_000
    assert expected in ordered.text


def test_resuming_a_job_that_is_not_paused_does_nothing() -> None:
    ordered = resume_order(NO_ORDERS, ALICE)

    assert (ordered.orders, ordered.event, ordered.is_refused) == (NO_ORDERS, None, False)


def test_a_pin_of_the_same_pattern_is_replaced_and_counts_last() -> None:
    before = pin_order(NO_ORDERS, ALICE, {"work": 4, "sink": 2}).orders

    ordered = pin_order(before, BOB, {"work": 6})

    assert ordered.orders.pins == (Pin("sink", 2, ALICE), Pin("work", 6, BOB))
    assert ordered.text == "Pinned work=6, by bob (not checked yet: no pass over the job is recorded)"


@pytest.mark.parametrize(
    ("patterns", "left"),
    [
        pytest.param((), [], id="all"),
        pytest.param(("sink",), ["work"], id="one"),
        pytest.param(("work", "sink"), [], id="both"),
    ],
)
def test_unpinning_frees_what_is_named(patterns: tuple[str, ...], left: list[str]) -> None:
    before = pin_order(NO_ORDERS, ALICE, {"work": 4, "sink": 2}).orders

    ordered = unpin_order(before, BOB, patterns)

    assert [each.pattern for each in ordered.orders.pins] == left
    assert ordered.reason == "Unpinned"


def test_unpinning_what_is_not_pinned_is_refused_as_a_whole() -> None:
    before = pin_order(NO_ORDERS, ALICE, {"work": 4}).orders

    ordered = unpin_order(before, BOB, ["work", "snik"])

    assert (ordered.orders, ordered.is_refused) == (before, True)
    assert ordered.text == "'snik' is not pinned; pinned: work=4"


def test_unpinning_without_pins_does_nothing() -> None:
    assert unpin_order(NO_ORDERS, ALICE, ["work"]).event is None


UNDOABLE = [
    pytest.param(RESCALED, id="on probation"),
    pytest.param(Supervision(past=(LAST,), initial={"v": 2}), id="confirmed"),
    pytest.param(replace(RESCALED, current=replace(LAST, stage=Stage.PENDING)), id="under way"),
    pytest.param(replace(RESCALED, current=replace(LAST, stage=Stage.PARTIALLY_REACHED)), id="in part"),
    pytest.param(replace(RESCALED, current=replace(LAST, origin=Origin.OPERATOR)), id="wanted by a pin"),
]
NOT_UNDOABLE = [
    pytest.param(NO_SUPERVISION, "no rescale is remembered", id="nothing"),
    pytest.param(replace(RESCALED, current=replace(LAST, reverted=True)), "undone already", id="undone"),
    pytest.param(
        replace(RESCALED, current=replace(LAST, origin=Origin.ROLLBACK)), "a rollback already", id="a rollback"
    ),
    pytest.param(
        Supervision(past=(replace(LAST, reverted=True), UNDOING)), "a rollback already", id="a rollback of a person"
    ),
    pytest.param(replace(RESCALED, current=replace(LAST, stage=Stage.REFUSED)), "did not happen", id="refused"),
    pytest.param(replace(RESCALED, initial={"w": 1}), "another job graph", id="another graph"),
    pytest.param(replace(RESCALED, current=replace(LAST, before={"v": 4})), "changed nothing", id="no change"),
]


@pytest.mark.parametrize("supervision", UNDOABLE)
def test_a_rollback_is_ordered_where_there_is_something_to_undo(supervision: Supervision) -> None:
    ordered = rollback_order(NO_ORDERS, ALICE, supervision)

    assert ordered.orders == Orders(rollback=ALICE)
    assert ordered.reason == "RollbackOrdered"
    assert "the rescale of 1970-01-01 00:15:40 UTC" in ordered.text


@pytest.mark.parametrize(("supervision", "why"), NOT_UNDOABLE)
def test_a_rollback_is_refused_where_there_is_nothing_to_undo(supervision: Supervision, why: str) -> None:
    ordered = rollback_order(NO_ORDERS, ALICE, supervision)

    assert (ordered.orders, ordered.event, ordered.is_refused) == (NO_ORDERS, None, True)
    assert why in ordered.text


def carried_out(supervision: Supervision) -> Tracking:
    """What a pass makes of the order of a rollback, however it came there."""
    request = a_request(state=JobState(supervision=supervision), now_ms=NOW)
    return follow(SupervisionInput(replace(request, orders=Orders(rollback=ALICE)), RescaleFacts()))


@pytest.mark.parametrize("supervision", UNDOABLE)
def test_a_pass_undoes_what_the_command_accepts(supervision: Supervision) -> None:
    done = carried_out(supervision)

    assert [event.reason for event in done.events] == ["RollbackStarted"]
    assert done.state.overrides == LAST.before


@pytest.mark.parametrize(("supervision", "why"), NOT_UNDOABLE)
def test_a_pass_leaves_alone_what_the_command_refuses(supervision: Supervision, why: str) -> None:
    done = carried_out(supervision)

    assert [event.reason for event in done.events] == ["RollbackImpossible"], why
    assert done.state == JobState(supervision=replace(supervision, obeyed_ms=ALICE.at_ms))


def test_a_rollback_is_refused_in_a_dry_run() -> None:
    ordered = rollback_order(Orders(dry_run=BOB), ALICE, RESCALED)

    assert ordered.is_refused
    assert "a dry run is on, by bob" in ordered.text


def test_what_is_done_once_is_ordered_later_than_everything_that_was_done() -> None:
    obeyed = replace(RESCALED, obeyed_ms=NOW + 500)

    first = rollback_order(NO_ORDERS, ALICE, obeyed).orders
    second = reset_order(first, ALICE, obeyed).orders

    assert first.rollback is not None
    assert second.reset is not None
    assert (first.rollback.at_ms, second.reset.at_ms) == (NOW + 501, NOW + 502)
    assert second.rollback is None
    assert still_to_do(second.reset, obeyed)
    assert not still_to_do(second.reset, replace(obeyed, obeyed_ms=NOW + 502))


def test_a_reset_keeps_what_else_is_ordered() -> None:
    before = pin_order(
        pause_order(NO_ORDERS, ALICE, direction=PauseScope.BOTH, lasts_ms=None).orders, ALICE, {"v": 1}
    ).orders

    assert reset_order(before, BOB).orders == replace(before, reset=BOB)


def test_a_dry_run_is_switched_on_and_off() -> None:
    on = dry_run_order(NO_ORDERS, ALICE, is_on=True)
    again = dry_run_order(on.orders, BOB, is_on=True)
    off = dry_run_order(on.orders, BOB, is_on=False)

    assert (on.orders.dry_run, on.reason) == (ALICE, "DryRunOn")
    assert (again.orders, again.event) == (on.orders, None)
    assert (off.orders, off.reason) == (NO_ORDERS, "DryRunOff")
    assert dry_run_order(NO_ORDERS, BOB, is_on=False).event is None


@pytest.mark.parametrize(
    ("later_ms", "expected"),
    [
        pytest.param(0, ("pause", "resumed_ms", "rollback", "reset"), id="all in force"),
        pytest.param(1_000, ("resumed_ms", "rollback", "reset"), id="the pause is over"),
        pytest.param(KEPT_MS + 1, (), id="waited for too long"),
    ],
)
def test_what_is_over_is_settled(later_ms: int, expected: tuple[str, ...]) -> None:
    lasting: dict[str, Any] = {"pins": (Pin("v", 1, ALICE),), "dry_run": ALICE}
    passing: dict[str, Any] = {
        "pause": PauseOrder(ALICE, PauseScope.DOWN, NOW + 1_000),
        "resumed_ms": NOW,
        "rollback": ALICE,
        "reset": ALICE,
    }

    left = without_expired(Orders(**lasting, **passing), NOW + later_ms)

    assert left == Orders(**lasting, **{name: passing[name] for name in expected})


def test_orders_that_could_not_be_read_hold_everything_that_is_not_known_to_be_in_force() -> None:
    known = Orders(pause=PauseOrder(ALICE), pins=(Pin("v", 1, ALICE),), resumed_ms=NOW, rollback=ALICE, reset=ALICE)

    given = last_known_orders(known, NOW + 5)

    assert (given.pause, given.pins) == (known.pause, known.pins)
    assert (given.resumed_ms, given.rollback, given.reset) == (None, None, None)
    assert given.dry_run is not None
    assert given.dry_run.at_ms == NOW + 5
    assert last_known_orders(Orders(dry_run=ALICE), NOW + 5).dry_run == ALICE
