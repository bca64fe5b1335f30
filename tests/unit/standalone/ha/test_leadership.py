"""Who leads: by a lease that the test hands out."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor

import pytest

from flink_autoscaler.clients.http.event_loop import EventLoopThread
from flink_autoscaler.core.errors import NotLeaderError, StoreError
from flink_autoscaler.core.model.events import Event, EventType
from flink_autoscaler.core.model.state import ConfigChanges
from flink_autoscaler.standalone.ha.leadership import (
    LeaderOnlyEventHandler,
    LeaderOnlyRealizer,
    Leadership,
    LeadershipState,
    LeaseLeadership,
)
from flink_autoscaler.stores.sql.lease import Lease
from testkit.builders.core import RecordingEvents, RecordingRealizer, a_context
from testkit.clusters.flink.waiting import wait_until
from testkit.scenarios.runner import LogLines

TTL = 30.0
CONTEXT = a_context({})
EVENT = Event(EventType.NORMAL, "Scaling", "text")


class FakeLease(Lease):
    """A lease whose fate the test decides.

    Attributes:
        is_free: Whether it can be acquired.
        is_taken_away: Whether the next renewal finds it lost.
        seconds: For which its holder may rely on it.
        error: Raised by every call, while set.
    """

    def __init__(self) -> None:
        self.is_free = True
        self.is_taken_away = False
        self.seconds = TTL
        self.error: StoreError | None = None
        self.released = 0
        self._token: int | None = None
        self._last = 0

    @property
    def token(self) -> int | None:
        return self._token

    @property
    def holder(self) -> str | None:
        return None if self.is_free else "somebody else"

    def remaining(self) -> float:
        return 0.0 if self._token is None else self.seconds

    def acquire(self) -> bool:
        self._fail()
        if self.is_free and self._token is None:
            self._last += 1
            self._token = self._last
        return self._token is not None

    def renew(self) -> bool:
        self._fail()
        if self.is_taken_away:
            self._token = None
        return self._token is not None

    def release(self) -> None:
        self._fail()
        self.released += 1
        self._token = None

    def _fail(self) -> None:
        if self.error is not None:
            raise self.error


@pytest.fixture
def lease() -> FakeLease:
    return FakeLease()


@pytest.fixture
def leadership(lease: FakeLease) -> LeaseLeadership:
    return LeaseLeadership(lease, ttl=TTL)


def lose(lease: FakeLease, leadership: LeaseLeadership) -> None:
    lease.is_taken_away, lease.is_free = True, False
    leadership.step()


def test_who_gets_the_lease_leads(leadership: LeaseLeadership) -> None:
    leadership.step()

    assert leadership.state() is LeadershipState.LEADER
    assert leadership.term() == 1
    assert leadership.is_leader()


def test_who_does_not_get_it_stands_by(lease: FakeLease, leadership: LeaseLeadership) -> None:
    lease.is_free = False

    leadership.step()

    assert leadership.state() is LeadershipState.STANDBY
    assert leadership.status().holder == "somebody else"
    assert leadership.term() is None
    assert not leadership.is_leader()


def test_nobody_knows_before_the_first_step(leadership: LeaseLeadership) -> None:
    assert leadership.state() is LeadershipState.UNKNOWN
    assert not leadership.is_leader()


def test_a_lease_that_ran_out_stops_the_leader_without_a_step(lease: FakeLease, leadership: LeaseLeadership) -> None:
    leadership.step()

    lease.seconds = 0.0

    assert not leadership.is_leader()
    assert leadership.state() is LeadershipState.UNKNOWN
    # Collecting goes on: nobody else may have taken it.
    assert leadership.term() == 1


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [pytest.param(9.9, True, id="shorter than the lease"), pytest.param(10.0, False, id="may outlast the lease")],
)
def test_what_takes_longer_than_the_lease_lasts_is_not_begun(
    lease: FakeLease, leadership: LeaseLeadership, seconds: float, expected: bool
) -> None:
    leadership.step()
    lease.seconds = 10.0

    assert leadership.is_leader(seconds) is expected


def test_without_the_database_a_leader_goes_on_until_the_lease_runs_out(
    lease: FakeLease, leadership: LeaseLeadership
) -> None:
    leadership.step()
    lease.error = StoreError("no database")

    leadership.step()
    before = leadership.state()
    lease.seconds = 0.0
    leadership.step()

    assert (before, leadership.state()) == (LeadershipState.LEADER, LeadershipState.UNKNOWN)
    assert leadership.status().error == "no database"


def test_a_lost_lease_is_tried_for_again_under_a_new_term(lease: FakeLease, leadership: LeaseLeadership) -> None:
    leadership.step()
    lose(lease, leadership)
    between = leadership.state()

    lease.is_taken_away, lease.is_free = False, True
    leadership.step()

    assert between is LeadershipState.STANDBY
    assert leadership.term() == 2


def test_work_of_an_old_term_may_not_act_in_a_new_one(lease: FakeLease, leadership: LeaseLeadership) -> None:
    leadership.step()
    with leadership.bound_to_term(1):
        before = leadership.is_leader()
        lose(lease, leadership)
        lease.is_taken_away, lease.is_free = False, True
        leadership.step()
        after = leadership.is_leader()

        assert (before, after) == (True, False)
        assert leadership.bound_term() == 1
    assert leadership.is_leader()
    assert leadership.bound_term() == 2


def test_the_term_of_a_thread_holds_for_what_it_has_an_event_loop_do(leadership: LeaseLeadership) -> None:
    loop = EventLoopThread()
    leadership.step()

    async def asks() -> bool:
        await asyncio.sleep(0)
        return leadership.is_leader()

    with leadership.bound_to_term(7):
        bound = loop.run(asks(), 10.0)
    free = loop.run(asks(), 10.0)
    loop.close()

    assert (bound, free) == (False, True)


def test_the_term_of_a_thread_is_its_own(leadership: LeaseLeadership) -> None:
    leadership.step()

    with leadership.bound_to_term(7), ThreadPoolExecutor(1) as threads:
        assert threads.submit(leadership.is_leader).result(10)


def test_changes_are_logged_once(lease: FakeLease, leadership: LeaseLeadership, lines: LogLines) -> None:
    for _ in range(3):
        leadership.step()
    lose(lease, leadership)
    for _ in range(3):
        leadership.step()
    lease.error = StoreError("no database")
    for _ in range(3):
        leadership.step()

    assert [line["event"] for line in lines.all()] == ["leadership_gained", "leadership_lost", "leadership_unknown"]


def test_a_driver_that_raises_anything_does_not_end_the_thread(lease: FakeLease, leadership: LeaseLeadership) -> None:
    lease.error = ZeroDivisionError("oops")  # type: ignore[assignment]

    leadership.step()

    assert leadership.status().error == "ZeroDivisionError: oops"


def test_the_thread_takes_a_lease_that_becomes_free_and_releases_it_in_the_end(lease: FakeLease) -> None:
    lease.is_free = False
    leadership = LeaseLeadership(lease, ttl=1.0)
    leadership.start()
    lease.is_free = True

    wait_until("it leads", leadership.is_leader, 300, interval=0.01)
    leadership.stop()
    leadership.stop()

    assert lease.released == 1
    assert not leadership.is_leader()


def test_a_daemon_that_is_still_at_work_lets_the_lease_run_out(lease: FakeLease) -> None:
    leadership = LeaseLeadership(lease, ttl=1.0)
    leadership.start()

    leadership.stop(is_idle=False)
    leadership.stop()

    assert lease.released == 0


def test_a_lease_that_cannot_be_released_is_a_warning(
    lease: FakeLease, leadership: LeaseLeadership, lines: LogLines
) -> None:
    leadership.start()
    lease.error = StoreError("no database")

    leadership.stop()

    assert [line["error"] for line in lines.of("lease_not_released")] == ["no database"]


def test_a_leader_renews_three_times_per_lease_and_a_standby_looks_every_second(
    lease: FakeLease, leadership: LeaseLeadership
) -> None:
    leadership.step()
    as_leader = leadership.next_delay()
    lose(lease, leadership)

    assert (as_leader, leadership.next_delay()) == (10.0, 1.0)


def test_a_sole_leader_always_may(leadership: LeaseLeadership) -> None:
    sole = Leadership()

    with sole.bound_to_term(0):
        assert sole.is_leader(1e9)
    assert sole.term() == 0


def test_nothing_is_realized_while_another_daemon_may_lead(lease: FakeLease, leadership: LeaseLeadership) -> None:
    realizer = RecordingRealizer()
    guarded = LeaderOnlyRealizer(realizer, leadership)
    leadership.step()
    guarded.realize_overrides(CONTEXT, {"v": 2})
    # A request may take longer than this.
    lease.seconds = CONTEXT.endpoint.timeout

    with pytest.raises(NotLeaderError):
        guarded.realize_overrides(CONTEXT, {"v": 3})
    with pytest.raises(NotLeaderError):
        guarded.realize_config(CONTEXT, ConfigChanges())

    assert realizer.overrides == [{"v": 2}]
    assert realizer.configs == []


def test_nothing_is_told_while_another_daemon_may_lead(lease: FakeLease, leadership: LeaseLeadership) -> None:
    events = RecordingEvents()
    guarded = LeaderOnlyEventHandler(events, leadership)
    guarded.handle_event(CONTEXT, EVENT)
    leadership.step()
    guarded.handle_event(CONTEXT, EVENT)

    assert events.events == [EVENT]
