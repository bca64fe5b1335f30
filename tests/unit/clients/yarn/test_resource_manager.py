"""Which ResourceManager is asked, over real HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, TypeVar

import pytest

from flink_autoscaler.clients.yarn import ApplicationFilter, ResourceManagerClient
from flink_autoscaler.core.errors import ConnectError, FlinkRestError, ResponseError
from flink_autoscaler.core.model.job import Endpoint
from testkit.fakes.flink import Canned, Fault
from testkit.fakes.yarn import FakeYarn, Standby

T = TypeVar("T")

APPS = "/ws/v1/cluster/apps"
INFO = "/ws/v1/cluster/info"
METRICS = "/ws/v1/cluster/metrics"
EVERYTHING = ApplicationFilter()


@pytest.fixture
def yarn() -> Iterator[FakeYarn]:
    """Give two ResourceManagers, the first active, and one application."""
    with FakeYarn(2) as fake:
        fake.add("orders")
        yield fake


def with_client(yarn: FakeYarn, action: Callable[[ResourceManagerClient], Awaitable[T]], **values: Any) -> T:
    async def run() -> T:
        client = ResourceManagerClient([Endpoint(url, **{"timeout": 5.0, **values}) for url in yarn.urls])
        try:
            return await action(client)
        finally:
            await client.aclose()

    return asyncio.run(run())


async def names(client: ResourceManagerClient) -> list[str]:
    return [application.name for application in (await client.applications(EVERYTHING)).applications]


def test_a_single_resource_manager_is_not_asked_for_its_state() -> None:
    with FakeYarn(1) as yarn:
        yarn.add("orders")

        assert with_client(yarn, names) == ["orders"]
        assert yarn.managers[0].paths() == [APPS]


@pytest.mark.parametrize("active", [0, 1], ids=["the first", "the second"])
def test_the_active_one_is_found_and_kept(yarn: FakeYarn, active: int) -> None:
    if active:
        yarn.fail_over()

    async def twice(client: ResourceManagerClient) -> list[list[str]]:
        return [await names(client), await names(client)]

    assert with_client(yarn, twice) == [["orders"], ["orders"]]
    assert yarn.managers[active].paths() == [INFO, APPS, APPS]
    assert set(yarn.managers[1 - active].paths()) <= {INFO}


@pytest.mark.parametrize("answer", Standby, ids=lambda each: each.name.lower())
def test_whatever_a_standby_says_the_next_one_is_asked(yarn: FakeYarn, answer: Standby) -> None:
    yarn.managers[0].standby = answer

    async def across(client: ResourceManagerClient) -> list[str]:
        await names(client)
        yarn.fail_over()
        return await names(client)

    assert with_client(yarn, across) == ["orders"]


@pytest.mark.parametrize(
    "fault",
    [
        Fault.HALF_CLOSE,
        Fault.RESET,
        Fault.TRUNCATED_JSON,
        Fault.HTML,
        Fault.EMPTY,
        Fault.NOT_HTTP,
        Fault.HUGE_CHUNKED,
        Canned(b"{}", 500),
        Canned(b"[]"),
        Canned(b'{"apps": 7}'),
    ],
    ids=lambda each: each.name.lower() if isinstance(each, Fault) else f"{each.status} {each.body.decode()}",
)
def test_fail_over_in_the_middle_of_a_list(yarn: FakeYarn, fault: Fault | Canned) -> None:
    async def across(client: ResourceManagerClient) -> list[str]:
        await names(client)
        yarn.fail_over()
        yarn.managers[0].fault(APPS, fault)
        return await names(client)

    assert with_client(yarn, across, max_response_bytes=1 << 20) == ["orders"]


def test_active_one_that_begins_to_hang_costs_one_timeout(yarn: FakeYarn) -> None:
    async def across(client: ResourceManagerClient) -> list[str]:
        await names(client)
        yarn.fail_over()
        yarn.managers[0].fault("/", Fault.HANG)
        yarn.managers[0].requests.clear()
        return await names(client)

    found = with_client(yarn, across, timeout=1.0)

    assert found == ["orders"]
    assert len(yarn.managers[0].requests) == 1


def test_active_one_that_stumbles_once_is_asked_again(yarn: FakeYarn) -> None:
    yarn.managers[0].fault(APPS, Fault.HTML, times=1)

    async def twice(client: ResourceManagerClient) -> list[str]:
        await client.get_json(METRICS)
        return await names(client)

    assert with_client(yarn, twice) == ["orders"]


def test_routers_of_a_federation_do_not_know_a_state_and_answer(yarn: FakeYarn) -> None:
    yarn.managers[0].fault(INFO, Canned(b"{}", 501))
    yarn.managers[0].state = None

    assert with_client(yarn, names) == ["orders"]


def test_nobody_active_is_one_error_that_names_every_url_and_why(yarn: FakeYarn) -> None:
    yarn.managers[0].state = "STANDBY"
    yarn.managers[1].pause()

    with pytest.raises(ResponseError) as raised:
        with_client(yarn, names)

    assert "no ResourceManager is active" in str(raised.value)
    assert f"{yarn.urls[0]}: its state is STANDBY" in str(raised.value)
    assert f"{yarn.urls[1]}{INFO}: connection refused" in str(raised.value)


def test_nobody_there_is_an_error_of_connections(yarn: FakeYarn) -> None:
    for manager in yarn.managers:
        manager.pause()

    with pytest.raises(ConnectError) as raised:
        with_client(yarn, names)

    assert all(url in str(raised.value) for url in yarn.urls)


def test_a_single_standby_says_what_it_is() -> None:
    with FakeYarn(1) as yarn:
        yarn.managers[0].state = "STANDBY"

        with pytest.raises(FlinkRestError, match="its state is STANDBY"):
            with_client(yarn, names)


def test_list_is_asked_for_by_what_is_wanted_and_filtered_again(yarn: FakeYarn) -> None:
    yarn.add("of bob", user="bob", queue="orders")
    yarn.add("in another queue", user="alice", queue="batch")
    yarn.add("wanted", user="alice", queue="orders")
    yarn.add("of another type", user="alice", queue="orders", application_type="SPARK")
    wanted = ApplicationFilter(types=("Apache Flink",), queues=("root.x.orders",), users=("alice",))

    found = with_client(yarn, lambda client: client.applications(wanted))

    assert [each.name for each in found.applications] == ["wanted"]
    request = yarn.managers[0].requests[-1]
    assert "applicationTypes=Apache%20Flink" in request.target
    assert request.query == {
        "states": "RUNNING",
        "deSelects": "resourceRequests",
        "applicationTypes": "Apache Flink",
        "user": "alice",
    }


def test_filters_that_a_resource_manager_ignores_are_applied_all_the_same(yarn: FakeYarn) -> None:
    ended = yarn.add("ended", state="FINISHED")
    entries = [ended.json("http://rm/proxy"), yarn.add("spark", application_type="SPARK").json("http://rm/proxy")]
    yarn.managers[0].fault(APPS, Canned.json({"apps": {"app": entries}}))

    wanted = ApplicationFilter(types=("Apache Flink",))

    assert with_client(yarn, lambda client: client.applications(wanted)).applications == ()


@pytest.mark.parametrize("state", ["ACCEPTED", "FINISHED", "RUNNING"])
def test_one_application_is_read_in_every_state(yarn: FakeYarn, state: str) -> None:
    application = yarn.add("one", state=state)

    found = with_client(yarn, lambda client: client.application(application.id))

    assert found is not None
    assert (found.application_id, found.state) == (application.id, state)


def test_unknown_application_is_none(yarn: FakeYarn) -> None:
    assert with_client(yarn, lambda client: client.application("application_1_9")) is None
    assert set(yarn.managers[1].paths()) <= {INFO}


def test_user_name_and_headers_go_to_every_resource_manager(yarn: FakeYarn) -> None:
    headers = (("Hadoop-YARN-RM-Delegation-Token", "secret"),)

    with_client(yarn, names, user_name="autoscaler", headers=headers)

    for request in (*yarn.managers[0].requests, *yarn.managers[1].requests):
        assert request.query["user.name"] == "autoscaler"
        assert request.headers["hadoop-yarn-rm-delegation-token"] == "secret"


def test_the_one_that_was_active_is_asked_first_by_the_next_client(yarn: FakeYarn) -> None:
    async def run() -> list[str]:
        endpoints = [Endpoint(url) for url in yarn.urls]
        client = ResourceManagerClient(endpoints, first=yarn.urls[0])
        try:
            return await names(client)
        finally:
            await client.aclose()

    assert asyncio.run(run()) == ["orders"]
    assert yarn.managers[0].paths() == [APPS]
    assert yarn.managers[1].paths() == []
