"""Clients come with the first use of an endpoint and go when nobody uses it; jobs are let in a few at a time."""

import asyncio
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest

from flink_autoscaler.clients.flink.client_cache import IDLE_SECONDS, LOOP_LAG_LIMIT, ClientCache, ConcurrencyLimiter
from flink_autoscaler.clients.http.event_loop import EventLoopThread
from flink_autoscaler.core.errors import ConfigError
from flink_autoscaler.core.model.job import Endpoint
from testkit.fakes.flink import FakeFlink


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def loop() -> Iterator[EventLoopThread]:
    loop = EventLoopThread()
    yield loop
    loop.close()


@pytest.fixture
def cache(loop: EventLoopThread, clock: Clock) -> Iterator[ClientCache]:
    cache = ClientCache(loop, most_connections=64, clock=clock)
    yield cache
    cache.close()


def endpoints(count: int) -> list[Endpoint]:
    return [Endpoint(f"http://127.0.0.1:{1000 + number}") for number in range(count)]


def test_endpoint_has_one_client(cache: ClientCache) -> None:
    first, second = endpoints(2)

    client = cache(first)

    assert cache(replace(first)) is client
    assert cache(second) is not client
    assert client.endpoint == first


def test_many_endpoints_in_use_keep_their_clients(cache: ClientCache, clock: Clock) -> None:
    used = endpoints(1000)
    for endpoint in used:
        cache(endpoint)
    clock.now = IDLE_SECONDS
    clients = [cache(endpoint) for endpoint in used]

    again = [cache(endpoint) for endpoint in used]

    assert all(one is other for one, other in zip(clients, again, strict=True))


def test_endpoint_that_is_not_used_loses_its_client(cache: ClientCache, clock: Clock) -> None:
    used, unused = endpoints(2)
    client, _ = cache(used), cache(unused)
    clock.now = IDLE_SECONDS - 1
    cache(used)

    clock.now = IDLE_SECONDS + 1
    kept = cache(used)

    assert kept is client
    assert len(cache) == 1


def test_connections_of_unused_client_are_closed(
    flink: FakeFlink, loop: EventLoopThread, cache: ClientCache, clock: Clock
) -> None:
    client = cache(flink.endpoint())
    loop.run(client.jobs_overview())

    clock.now = IDLE_SECONDS + 1
    cache(endpoints(1)[0])

    with pytest.raises(Exception, match="closed"):
        loop.run(client.jobs_overview())


@pytest.mark.parametrize(
    ("count", "expected"),
    [
        pytest.param(4, 16, id="enough for all: as many as asked for"),
        pytest.param(8, 8, id="half of it each"),
        pytest.param(9, 4, id="never more in all than allowed"),
        pytest.param(100, 1, id="one each at least"),
    ],
)
def test_connections_are_shared_among_endpoints(cache: ClientCache, count: int, expected: int) -> None:
    used = endpoints(count)
    for _ in range(2):
        for endpoint in used:
            cache(endpoint)

    assert {cache.connections(endpoint) for endpoint in used} == {expected}


def test_client_in_use_outlives_its_replacement(flink: FakeFlink, loop: EventLoopThread, cache: ClientCache) -> None:
    client = cache(flink.endpoint())
    loop.run(client.jobs_overview())
    for endpoint in endpoints(10):
        cache(endpoint)

    replacement = cache(flink.endpoint())

    assert replacement is not client
    assert loop.run(client.jobs_overview()) == ()


def test_limit_stays_where_the_number_of_endpoints_is_about_the_same(cache: ClientCache, clock: Clock) -> None:
    used = endpoints(9)
    for endpoint in used * 2:
        cache(endpoint)
    clock.now = IDLE_SECONDS / 2
    clients = [cache(endpoint) for endpoint in used[:7]]
    clock.now = IDLE_SECONDS + 1

    assert [cache(endpoint) for endpoint in used[:7]] == clients
    assert len(cache) == 7
    assert {cache.connections(endpoint) for endpoint in used[:7]} == {4}


def test_unusable_endpoint_is_an_error_and_leaves_nothing(cache: ClientCache) -> None:
    with pytest.raises(ConfigError):
        cache(Endpoint("no url"))

    assert len(cache) == 0


async def held(admission: ConcurrencyLimiter, log: list[str], name: str, until: asyncio.Event) -> None:
    async with admission():
        log.append(name)
        await until.wait()


def test_no_more_than_so_many_are_let_in() -> None:
    async def main() -> list[str]:
        admission, log, first_ends = ConcurrencyLimiter(jobs=1, patience=60.0), list[str](), asyncio.Event()
        first = asyncio.ensure_future(held(admission, log, "first", first_ends))
        second = asyncio.ensure_future(held(admission, log, "second", first_ends))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        log.append("first ends")
        first_ends.set()
        await asyncio.gather(first, second)
        return log

    assert asyncio.run(main()) == ["first", "first ends", "second"]


def test_one_that_hangs_holds_up_others_but_briefly() -> None:
    async def main() -> list[str]:
        admission, log, never, done = (
            ConcurrencyLimiter(jobs=1, patience=0.05),
            list[str](),
            asyncio.Event(),
            asyncio.Event(),
        )
        done.set()
        hanging = asyncio.ensure_future(held(admission, log, "hanging", never))
        await asyncio.sleep(0)
        async with asyncio.timeout(10):
            await held(admission, log, "other", done)
        hanging.cancel()
        await asyncio.gather(hanging, return_exceptions=True)
        return log

    assert asyncio.run(main()) == ["hanging", "other"]


def test_place_is_given_back_once() -> None:
    async def main() -> list[str]:
        admission, log, ends, never = (
            ConcurrencyLimiter(jobs=1, patience=0.01),
            list[str](),
            asyncio.Event(),
            asyncio.Event(),
        )
        first = asyncio.ensure_future(held(admission, log, "first", ends))
        second = asyncio.ensure_future(held(admission, log, "second", never))
        async with asyncio.timeout(10):
            while "second" not in log:
                await asyncio.sleep(0.001)
        third_admission = ConcurrencyLimiter(jobs=1, patience=60.0)
        third = asyncio.ensure_future(held(third_admission, log, "third", never))
        ends.set()
        await first
        fourth = asyncio.ensure_future(held(third_admission, log, "fourth", never))
        await asyncio.sleep(0)
        for task in (second, third, fourth):
            task.cancel()
        await asyncio.gather(second, third, fourth, return_exceptions=True)
        return log

    assert asyncio.run(main()) == ["first", "second", "third"]


def test_one_that_waits_for_a_busy_loop_counts_on() -> None:
    async def main() -> list[str]:
        admission, log, never = ConcurrencyLimiter(jobs=1, patience=0.01), list[str](), asyncio.Event()
        tasks = [asyncio.ensure_future(held(admission, log, name, never)) for name in ("first", "second")]
        await asyncio.sleep(0)
        end = time.monotonic() + 2 * LOOP_LAG_LIMIT
        while time.monotonic() < end:  # the loop is busy
            pass
        for _ in range(3):
            await asyncio.sleep(0)
        log.append("loop is free")
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return log

    assert asyncio.run(main())[:2] == ["first", "loop is free"]
