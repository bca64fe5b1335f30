"""What one target does to its own delivery, and to nobody else: failures, pauses, limits, claims."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import pytest

from flink_autoscaler.core.errors import NotLeaderError, StoreError
from flink_autoscaler.core.model.notifications import Notification, NotificationBatch
from flink_autoscaler.standalone.notifications.delivery import (
    MAX_PAUSE,
    POLL_INTERVAL,
    STORE_PAUSE,
    Delivery,
    TargetCounts,
    TargetStatus,
)
from flink_autoscaler.standalone.notifications.messages import CloudEvent
from flink_autoscaler.standalone.notifications.targets import DeliveryError
from flink_autoscaler.stores.outbox import HeapOutbox
from testkit.contracts.stores.outbox import CLAIM
from testkit.scenarios.runner import LogLines


class Chat:
    """A target that takes what it is sent, or fails with what it was told to."""

    name = "chat"
    timeout = 10.0

    def __init__(self) -> None:
        self.errors: list[Exception] = []
        self.taken: list[list[str]] = []
        self.attempts = 0
        self.before: Callable[[], None] = lambda: None

    def send(self, events: Sequence[CloudEvent], may_send: Callable[[], bool]) -> None:
        self.attempts += 1
        self.before()
        if not may_send():
            raise NotLeaderError("not sent")
        if self.errors:
            raise self.errors.pop(0)
        self.taken.append([event["id"] for event in events])


class FlakyOutbox(HeapOutbox):
    """Cannot be reached for a while."""

    is_away = False

    def lease(self, target: str, seconds: float) -> NotificationBatch | float:
        self._check()
        return super().lease(target, seconds)

    def ack(self, claim: str) -> None:
        self._check()
        super().ack(claim)

    def _check(self) -> None:
        if self.is_away:
            raise StoreError("away")


class Stage:
    """A delivery whose steps a test makes, with a clock of its own."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.leads = True
        self.chat = Chat()
        self.outbox = FlakyOutbox(clock=lambda: self.now)
        self.counts = TargetCounts()
        self.delivery = Delivery(
            self.chat,
            self.outbox,
            may_act=lambda: self.leads,
            clock=lambda: self.now,
            counts=self.counts,
        )
        self._added = 0

    def add(self, count: int = 1) -> None:
        for _ in range(count):
            self._added += 1
            text = json.dumps({"id": str(self._added)})
            self.outbox.add([Notification(str(self._added), "chat", str(self._added), 0.0, text)])

    def step(self, seconds: float = 0.0) -> float:
        """Let time go by and do a step."""
        self.now += seconds
        return self.delivery.step()


@pytest.fixture
def stage() -> Stage:
    return Stage()


def refused(**more: Any) -> DeliveryError:
    return DeliveryError("HTTP 500", **more)


def test_an_event_is_sent_at_once_and_what_waits_comes_together(stage: Stage) -> None:
    stage.add()
    stage.step()
    stage.add(2)
    stage.step()

    assert stage.chat.taken == [["1"], ["2", "3"]]
    assert stage.step() == 60.0, "nothing waits"


def test_pauses_grow_and_nothing_is_sent_twice(stage: Stage) -> None:
    stage.chat.errors = [refused() for _ in range(12)]
    stage.add()
    pauses = [stage.step(60.0)]
    while len(pauses) < 12:
        before = stage.chat.attempts
        assert stage.step(pauses[-1] / 2) > 0
        assert stage.chat.attempts == before, "not before the pause is over"
        pauses.append(stage.step(pauses[-1] / 2 + 0.01))

    assert 4 <= pauses[0] <= 6
    assert all(later > earlier for earlier, later in pairwise(pauses[:6]))
    assert MAX_PAUSE * 0.8 <= pauses[-1] <= MAX_PAUSE * 1.2
    stage.step(pauses[-1] + 0.01)
    stage.step(3600.0)
    assert stage.chat.taken == [["1"]]


def test_who_wants_to_be_left_alone_is(stage: Stage) -> None:
    stage.chat.errors = [refused(retry_after=1800.0), refused(retry_after=1e9)]
    stage.add()

    assert stage.step(60.0) == 1800.0
    assert stage.step(1801.0) == 3600.0


def test_failing_is_told_once_and_so_is_its_end(stage: Stage) -> None:
    stage.chat.errors = [refused() for _ in range(3)]
    stage.add()

    with LogLines() as lines:
        for _ in range(6):
            stage.step(700.0)

    assert [line["error"] for line in lines.of("notification_not_sent")] == ["HTTP 500"]
    assert [line["failures"] for line in lines.of("notifications_sending_recovered")] == [3]


def test_what_is_refused_for_good_does_not_hold_up_the_rest(stage: Stage) -> None:
    stage.chat.errors = [refused(is_final=True)]
    stage.add()
    with LogLines() as lines:
        stage.step(60.0)
    stage.add()
    stage.step(60.0)

    assert stage.chat.taken == [["2"]]
    assert [line["events"] for line in lines.of("notification_refused")] == [1]


def test_a_target_that_raises_anything_is_tried_again(stage: Stage) -> None:
    stage.chat.errors = [RuntimeError("oops")]
    stage.add()
    stage.step(60.0)
    stage.step(10.0)

    assert stage.chat.taken == [["1"]]


def test_a_standby_claims_nothing(stage: Stage) -> None:
    stage.leads = False
    stage.add()

    assert stage.step(60.0) == POLL_INTERVAL
    assert stage.chat.attempts == 0
    assert isinstance(stage.outbox.lease("chat", CLAIM), NotificationBatch)


def test_who_loses_the_lead_before_the_last_moment_sends_nothing_and_leaves_it_to_the_next(stage: Stage) -> None:
    stage.chat.before = lambda: setattr(stage, "leads", False)
    stage.add()
    stage.step(60.0)

    assert stage.chat.taken == []
    assert isinstance(stage.outbox.lease("chat", CLAIM), NotificationBatch)


def test_who_was_stopped_for_longer_than_its_claim_sends_nothing(stage: Stage) -> None:
    stage.chat.before = lambda: setattr(stage, "now", stage.now + 71.0)
    stage.add()
    stage.step(60.0)

    assert stage.chat.taken == []


def test_what_was_sent_while_the_database_went_away_is_noted_later_and_not_sent_again(stage: Stage) -> None:
    stage.chat.before = lambda: setattr(stage.outbox, "is_away", True)
    stage.add()

    assert stage.step(60.0) == STORE_PAUSE
    assert stage.step(5.0) == STORE_PAUSE
    stage.outbox.is_away = False
    for _ in range(10):
        stage.step(60.0)

    assert stage.chat.taken == [["1"]]


def test_what_comes_of_messages_is_counted(stage: Stage) -> None:
    stage.chat.errors = [refused(), refused(is_final=True)]
    stage.add(2)
    stage.step(60.0)
    failed = stage.counts.status
    stage.step(600.0)
    refused_for_good = stage.counts.status
    stage.add(3)
    stage.step()
    stage.step(60.0)
    stage.step(1.0)
    sent = stage.counts.status

    assert failed == TargetStatus(failed=1, waiting=2, failing=True)
    assert refused_for_good == TargetStatus(failed=2, retried=1, dropped=2, waiting=2, failing=True)
    assert sent == TargetStatus(sent=3, failed=2, retried=2, dropped=2, waiting=0)


def test_who_stands_by_does_not_know_what_waits(stage: Stage) -> None:
    stage.chat.errors = [refused()]
    stage.add()
    stage.step(60.0)
    stage.leads = False
    stage.step()

    assert stage.counts.status == TargetStatus(failed=1)
