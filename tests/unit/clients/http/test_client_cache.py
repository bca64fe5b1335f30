"""Clients come with the first use of an endpoint and go when it is not used any more."""

from collections.abc import Iterator
from dataclasses import replace

import pytest
from fake_flink import FakeFlink

from flink_autoscaler.clients.http.blocking import EventLoopThread
from flink_autoscaler.clients.http.client_cache import IDLE_SECONDS, ClientCache
from flink_autoscaler.core.errors import ConfigError
from flink_autoscaler.core.model.job import Endpoint


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
