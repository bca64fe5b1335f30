from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from flink_autoscaler.pipeline.spark.supply import FIRST_PAUSE, SessionKeeper, SparkLostError

SOON = 5.0


class FakeSession:
    def __init__(self) -> None:
        self.closed = threading.Event()

    def close(self) -> None:
        self.closed.set()

    def kill(self) -> None:
        self.close()


class Setup:
    """A supply with a clock that is set by hand, and an opener that fails on demand."""

    def __init__(self) -> None:
        self.now = 0.0
        self.opened: list[FakeSession] = []
        self.problem: Exception | None = None
        self.may_open = threading.Event()
        self.may_open.set()
        self.supply = SessionKeeper(self._open, clock=lambda: self.now)

    def _open(self) -> FakeSession:
        self.may_open.wait(SOON)
        if self.problem is not None:
            raise self.problem
        self.opened.append(FakeSession())
        return self.opened[-1]


@pytest.fixture
def setup() -> Iterator[Setup]:
    setup = Setup()
    yield setup
    setup.may_open.set()
    setup.supply.close()


def test_get_opens_one_session_for_all(setup: Setup) -> None:
    first = setup.supply.get(SOON)

    assert setup.supply.get(SOON) is first
    assert setup.opened == [first]


def test_get_waits_no_longer_than_told(setup: Setup) -> None:
    setup.may_open.clear()

    with pytest.raises(SparkLostError, match="not ready"):
        setup.supply.get(0.01)


def test_discard_closes_the_old_session_and_opens_the_next(setup: Setup) -> None:
    lost = setup.supply.get(SOON)

    setup.supply.invalidate(lost)

    assert setup.supply.get(SOON) is not lost
    assert lost.closed.wait(SOON)


def test_discard_of_a_session_that_was_replaced_does_nothing(setup: Setup) -> None:
    lost = setup.supply.get(SOON)
    setup.supply.invalidate(lost)
    current = setup.supply.get(SOON)

    setup.supply.invalidate(lost)

    assert setup.supply.get(SOON) is current


def test_failed_opening_is_repeated_after_a_pause_only(setup: Setup) -> None:
    setup.problem = OSError("no memory")
    with pytest.raises(SparkLostError, match="OSError: no memory"):
        setup.supply.get(SOON)
    setup.problem = None

    # The cause is told again, not that there is a pause: who passes it on tells the same thing once.
    with pytest.raises(SparkLostError, match="OSError: no memory"):
        setup.supply.get(SOON)
    setup.now += FIRST_PAUSE

    assert setup.supply.get(SOON) is setup.opened[0]


def test_session_lost_again_without_success_is_replaced_after_a_pause_only(setup: Setup) -> None:
    setup.supply.invalidate(setup.supply.get(SOON))
    setup.supply.invalidate(setup.supply.get(SOON))

    with pytest.raises(SparkLostError, match="lost before it did anything"):
        setup.supply.get(SOON)


def test_session_lost_after_success_is_replaced_at_once(setup: Setup) -> None:
    setup.supply.invalidate(setup.supply.get(SOON))
    second = setup.supply.get(SOON)
    setup.supply.mark_healthy()

    setup.supply.invalidate(second)

    assert setup.supply.get(SOON) is setup.opened[2]


def test_close_closes_a_session_that_is_still_being_opened(setup: Setup) -> None:
    setup.may_open.clear()
    setup.supply.prepare()

    setup.supply.close()
    setup.may_open.set()

    with pytest.raises(SparkLostError):
        setup.supply.get(SOON)


def test_first_opening_is_known_while_it_lasts(setup: Setup) -> None:
    setup.may_open.clear()
    before = setup.supply.is_first_opening
    setup.supply.prepare()
    meanwhile = setup.supply.is_first_opening
    setup.may_open.set()

    setup.supply.get(SOON)

    assert (before, meanwhile, setup.supply.is_first_opening) == (False, True, False)


def test_opening_after_a_loss_is_not_the_first(setup: Setup) -> None:
    session = setup.supply.get(SOON)
    setup.may_open.clear()

    setup.supply.invalidate(session)

    assert not setup.supply.is_first_opening
