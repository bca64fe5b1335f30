"""Two real ResourceManagers, of which one is active: the client finds it and follows it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import aclosing

import pytest

from flink_autoscaler.clients.yarn import ResourceManagerClient
from flink_autoscaler.core.errors import FlinkRestError
from flink_autoscaler.core.model.job import Endpoint
from testkit.clusters.yarn import YarnCluster

pytestmark = [pytest.mark.e2e, pytest.mark.suite(name="yarn")]


@pytest.fixture
def both_up(yarn_cluster: YarnCluster) -> Iterator[YarnCluster]:
    """Give the YARN with rm1 active and rm2 on standby, whatever the tests before have done."""
    yarn_cluster.restore()
    yield yarn_cluster
    yarn_cluster.restore()


async def nodes(client: ResourceManagerClient) -> int:
    answer = await client.get_json("/ws/v1/cluster/metrics")
    assert isinstance(answer, dict)
    return int(answer["clusterMetrics"]["activeNodes"])


def client_of(urls: list[str]) -> ResourceManagerClient:
    return ResourceManagerClient([Endpoint(url) for url in urls])


def test_the_active_one_is_found_behind_a_standby(both_up: YarnCluster) -> None:
    async def ask() -> str | None:
        async with aclosing(client_of(both_up.urls[::-1])) as client:
            assert await nodes(client) == 1
            return client.active_url

    assert asyncio.run(ask()) == both_up.url


@pytest.mark.parametrize("is_crash", [False, True], ids=["handed over", "crashed"])
def test_a_fail_over_is_followed_by_the_same_client(is_crash: bool, both_up: YarnCluster) -> None:
    async def ask() -> list[str | None]:
        async with aclosing(client_of(both_up.urls)) as client:
            await nodes(client)
            before = client.active_url
            await asyncio.to_thread(fail_over)
            await nodes(client)
            return [before, client.active_url]

    def fail_over() -> None:
        if is_crash:
            both_up.resource_managers["rm1"].kill()
        both_up.activate("rm2")

    assert asyncio.run(ask()) == both_up.urls


def test_no_active_one_is_an_error_that_names_them_all(both_up: YarnCluster) -> None:
    both_up.deactivate("rm1")

    async def ask() -> None:
        async with aclosing(client_of(both_up.urls)) as client:
            await nodes(client)

    with pytest.raises(FlinkRestError) as failure:
        asyncio.run(ask())
    assert all(url in str(failure.value) for url in both_up.urls)
    assert "STANDBY" in str(failure.value)
