"""The tests that everything that keeps notices until they are sent has to pass."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from concurrent.futures import ThreadPoolExecutor

import pytest

from flink_autoscaler.core.model.notifications import MAX_SENT, Notification, NotificationBatch
from flink_autoscaler.standalone.notifications.delivery import Outbox
from testkit.clusters.flink.waiting import wait_until

CLAIM = 60.0
"""Seconds for which something is claimed."""


def a_notice(number: int, target: str = "audit", *, identity: str = "", interval: float = 0.0) -> Notification:
    """Make a notice that is like no other of another number."""
    return Notification(f"id-{number}", target, identity or f"identity-{number}", interval, f"text {number}")


def claimed(outbox: Outbox, target: str = "audit", seconds: float = CLAIM) -> NotificationBatch:
    """Claim what has to be there."""
    batch = outbox.lease(target, seconds)
    assert isinstance(batch, NotificationBatch)
    return batch


class OutboxContract(ABC):
    """What every outbox does."""

    @abstractmethod
    def make_outbox(self, *, max_waiting: int = 100) -> Outbox:
        """Make one that is empty. Called once per test."""

    @pytest.fixture
    def outbox(self) -> Outbox:
        return self.make_outbox()

    def test_an_empty_one_has_nothing_to_claim(self, outbox: Outbox) -> None:
        assert outbox.lease("audit", CLAIM) == math.inf

    def test_notices_of_a_target_are_claimed_together_oldest_first(self, outbox: Outbox) -> None:
        outbox.add([a_notice(1), a_notice(2, "other"), a_notice(3)])

        assert claimed(outbox).texts == ("text 1", "text 3")

    def test_what_is_claimed_is_claimed_by_nobody_else(self, outbox: Outbox) -> None:
        outbox.add([a_notice(1)])
        claimed(outbox)

        wait = outbox.lease("audit", CLAIM)

        assert isinstance(wait, float)
        assert 50 < wait <= 60

    def test_at_the_same_time_one_gets_it(self, outbox: Outbox) -> None:
        outbox.add([a_notice(number) for number in range(10)])

        with ThreadPoolExecutor(4) as pool:
            found = list(pool.map(lambda _: outbox.lease("audit", CLAIM), range(8)))

        texts = [text for each in found if isinstance(each, NotificationBatch) for text in each.texts]
        assert sorted(texts) == sorted(f"text {number}" for number in range(10))

    def test_what_was_settled_is_never_claimed_again(self, outbox: Outbox) -> None:
        outbox.add([a_notice(1)])

        outbox.ack(claimed(outbox).claim)

        assert outbox.lease("audit", CLAIM) == math.inf

    def test_what_was_given_back_is_claimed_again(self, outbox: Outbox) -> None:
        outbox.add([a_notice(1)])

        outbox.nack(claimed(outbox).claim)

        assert claimed(outbox).texts == ("text 1",)

    def test_a_claim_that_is_over_is_another_ones(self, outbox: Outbox) -> None:
        outbox.add([a_notice(1)])
        first = claimed(outbox, seconds=0.05)

        second = _when_due(outbox)
        outbox.nack(first.claim)

        assert second.texts == first.texts
        assert isinstance(outbox.lease("audit", CLAIM), float), "who lost a claim gives nothing back"

    def test_a_batch_has_no_more_than_it_may(self, outbox: Outbox) -> None:
        outbox.add([a_notice(number) for number in range(MAX_SENT + 2)])

        assert [len(claimed(outbox).texts), len(claimed(outbox).texts)] == [MAX_SENT, 2]

    def test_a_repetition_within_its_interval_is_not_kept(self, outbox: Outbox) -> None:
        outbox.add([a_notice(1, identity="same", interval=600.0)])
        outbox.ack(claimed(outbox).claim)

        outbox.add([a_notice(2, identity="same", interval=600.0), a_notice(3, "other", identity="same")])

        assert outbox.lease("audit", CLAIM) == math.inf
        assert claimed(outbox, "other").texts == ("text 3",)

    def test_the_same_without_an_interval_is_told_every_time(self, outbox: Outbox) -> None:
        outbox.add([a_notice(1, identity="same"), a_notice(2, identity="same")])

        assert len(claimed(outbox).texts) == 2

    def test_a_notice_that_is_kept_already_is_not_kept_twice(self, outbox: Outbox) -> None:
        outbox.add([a_notice(1)])
        outbox.add([a_notice(1), a_notice(2)])

        assert claimed(outbox).texts == ("text 1", "text 2")

    def test_what_waits_is_counted_until_it_is_settled(self, outbox: Outbox) -> None:
        outbox.add([a_notice(1), a_notice(2), a_notice(3, "other")])
        waiting = outbox.pending_count("audit")
        claim = claimed(outbox).claim
        while_claimed = outbox.pending_count("audit")
        outbox.ack(claim)

        assert (waiting, while_claimed, outbox.pending_count("audit"), outbox.pending_count("other")) == (2, 2, 0, 1)

    def test_what_has_waited_too_long_is_given_up_and_counted(self, outbox: Outbox) -> None:
        outbox.add([a_notice(1), a_notice(2, "other")])

        assert [outbox.expire(3600.0), outbox.expire(0.0), outbox.expire(0.0)] == [{}, {"audit": 1, "other": 1}, {}]
        assert outbox.lease("audit", CLAIM) == math.inf

    def test_the_oldest_are_given_up_where_too_many_wait(self) -> None:
        outbox = self.make_outbox(max_waiting=2)
        outbox.add([a_notice(number) for number in range(5)])

        assert outbox.expire(3600.0) == {"audit": 3}
        assert claimed(outbox).texts == ("text 3", "text 4")


def _when_due(outbox: Outbox) -> NotificationBatch:
    found = wait_until("it can be claimed", lambda: _found(outbox), 300, interval=0.01)
    assert found is not None
    return found


def _found(outbox: Outbox) -> NotificationBatch | None:
    found = outbox.lease("audit", CLAIM)
    return found if isinstance(found, NotificationBatch) else None
