"""What one client knows of the metric store behind it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from flink_autoscaler.clients.flink.decode import Readable
from flink_autoscaler.clients.flink.freshness import (
    CLOCK,
    FETCH_INTERVAL,
    Freshness,
    MetricFetcherMonitor,
    gathering_interval,
)
from flink_autoscaler.core.errors import RefusedError
from flink_autoscaler.core.model.metrics import Aggregate

NOT_GATHERED = "Flink has not gathered metrics since it was asked for them"


class Store:
    """A JobManager with a clock of its own.

    Attributes:
        takes: Seconds that a request takes.
        gathers: Whether a request that is due fills the store.
        gathering: Seconds from such a request until the store is filled.
    """

    def __init__(self, *, interval: str = "10 s", has_clock: bool = True) -> None:
        self.now = 1000.0
        self.takes = 0.1
        self.gathers = True
        self.gathering = 0.0
        self.has_clock = has_clock
        self.filled_at = self.began_at = 900.0
        self.asked = 0
        self.refuses = False
        self._interval = interval
        self.seconds = gathering_interval({FETCH_INTERVAL: interval})
        self.watch = MetricFetcherMonitor(lambda: self.now)

    async def taskmanager_metrics(self, names: tuple[str, ...]) -> Readable[Aggregate]:
        self.asked += 1
        self.now += self.takes
        if self.refuses:
            raise RefusedError("no", 500)
        if self.began_at > self.filled_at and self.now >= self.began_at + self.gathering:
            self.filled_at = self.began_at
        answer = self.filled_at
        is_due = self.began_at <= self.filled_at and self.now - self.filled_at > self.seconds
        if is_due and self.gathers:
            self.began_at = self.now
        values = {} if names == CLOCK and not self.has_clock else {names[0]: Aggregate(1.0, answer, answer, None, None)}
        return Readable(values, {})

    async def cluster_configuration(self) -> dict[str, str]:
        return {FETCH_INTERVAL: self._interval}

    def freshen(self, after: float = 0.0) -> str | None:
        self.now += after
        return asyncio.run(self.watch.refresh(self, 30.0)).doubt


def test_store_is_fresh_when_an_answer_has_moved() -> None:
    store = Store()

    assert store.freshen() is None
    assert store.filled_at > 1000.0


def test_pass_within_the_interval_asks_nothing() -> None:
    store = Store()
    store.freshen()
    asked = store.asked

    assert store.freshen(after=5.0) is None
    assert store.asked == asked


def test_steady_pass_asks_twice() -> None:
    store = Store()
    store.freshen()
    asked = store.asked

    assert store.freshen(after=10.0) is None
    assert store.asked == asked + 2


def test_store_that_stands_still_is_in_doubt_after_two_intervals_although_it_is_asked() -> None:
    store = Store()
    store.freshen()
    store.gathers = False

    said = [store.freshen(after=10.0) for _ in range(3)]

    assert said[0] is None
    assert said[2] is not None
    assert said[2].startswith(f"{NOT_GATHERED}; those it has may be ")


def test_what_filled_the_store_at_the_beginning_of_a_quiet_time_is_not_fresh_after_it() -> None:
    store = Store()
    store.freshen()
    store.filled_at = store.now = store.now + 15.0  # by the last request of a pass, which nobody looked at
    store.gathers, store.takes = False, 1.0

    said = store.freshen(after=60.0)
    store.gathers, store.takes = True, 0.1
    healed = store.freshen()

    assert said is not None
    assert said.startswith(NOT_GATHERED)
    assert healed is None


def test_doubt_ends_with_the_first_answer_that_moves() -> None:
    store = Store()
    store.gathers, store.takes = False, 4.0
    assert store.freshen() == NOT_GATHERED

    store.gathers, store.takes = True, 0.1

    assert store.freshen() is None


@pytest.mark.parametrize(("is_provable", "longest"), [(False, 16.0), (True, 5.5)])
def test_a_store_that_somebody_else_woke_is_waited_for_where_nothing_else_tells_its_age(
    *, is_provable: bool, longest: float
) -> None:
    store = Store()
    store.gathers = False
    begun = store.now

    found = asyncio.run(store.watch.refresh(store, 30.0, is_provable=is_provable))

    assert found.doubt == NOT_GATHERED
    assert longest - 1.5 < store.now - begun < longest


def test_a_store_that_was_waited_for_is_woken_an_interval_after_it_was_filled() -> None:
    store, begun = Store(), 1000.0
    store.filled_at = begun - 5.0  # by somebody else, so that the next one is due in five seconds
    assert store.freshen() is None
    asked, filled_at = store.asked, store.filled_at

    assert store.freshen(after=begun + 10.0 - store.now) is None
    too_early = store.asked - asked
    assert store.freshen(after=filled_at + 10.0 - store.now) is None

    assert too_early == 0
    assert store.filled_at > filled_at


@pytest.mark.parametrize(
    ("interval", "gathering", "apart"),
    [("2 s", 4.5, 2.0), ("10 s", 2.0, 60.0)],
    ids=["busy machine, passes in haste", "large cluster, a pass a minute"],
)
def test_a_cluster_that_gathers_slowly_is_fresh_in_every_pass(interval: str, gathering: float, apart: float) -> None:
    store = Store(interval=interval)
    store.freshen()
    store.gathering = gathering

    assert [store.freshen(after=apart) for _ in range(6)] == [None] * 6


def without_clock(store: Store) -> None:
    store.has_clock = False


def refusing(store: Store) -> None:
    store.refuses = True


@pytest.mark.parametrize("broken", [without_clock, refusing])
def test_cluster_that_does_not_tell_is_read_as_it_is(broken: Callable[[Store], None]) -> None:
    store = Store()
    broken(store)

    assert store.freshen() is None
    assert store.asked <= 2


def test_cluster_without_clock_is_not_asked_again() -> None:
    store = Store(has_clock=False)
    store.freshen()
    asked = store.asked

    assert store.freshen(after=100.0) is None
    assert store.asked == asked


@pytest.mark.parametrize("text", ["", "nonsense", "10000"])
def test_interval_is_ten_seconds_unless_said_otherwise(text: str) -> None:
    store = Store(interval=text)
    store.freshen()
    asked = store.asked

    store.freshen(after=9.0)
    is_early = store.asked == asked
    store.freshen(after=2.0)

    assert is_early
    assert store.asked > asked


def test_calls_at_the_same_time_wake_the_store_once() -> None:
    store = Store()

    async def together() -> list[Freshness]:
        return await asyncio.gather(*(store.watch.refresh(store, 30.0) for _ in range(5)))

    assert {each.doubt for each in asyncio.run(together())} == {None}
    assert store.asked <= 3
