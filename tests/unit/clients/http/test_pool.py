"""Several GETs at once, over as few connections as there are, with answers and without."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any

import pytest

from flink_autoscaler.clients.http.pool import ConnectionPool, Server
from flink_autoscaler.clients.http.transport import ATTEMPTS, HttpTransport
from flink_autoscaler.core.errors import ConnectError, RefusedError, ResponseError
from testkit.builders.transport import exchange
from testkit.fakes.flink import Canned, FakeFlink, Fault, flink_error

NOTHING: Mapping[str, str] = {}
PATHS = [f"/numbers/{number:02}" for number in range(20)]
ALL = list(range(20))


@pytest.fixture
def numbers(flink: FakeFlink) -> FakeFlink:
    """A server that answers each of the paths with its number."""
    for number, path in enumerate(PATHS):
        flink.fault(path, Canned.json(number))
    return flink


async def ask_all(transport: HttpTransport) -> list[object]:
    return await transport.get_all_json([(path, NOTHING) for path in PATHS])


@pytest.mark.parametrize("connections", [1, 3, 20, 64])
def test_answers_come_in_the_order_of_the_requests(numbers: FakeFlink, connections: int) -> None:
    assert exchange(numbers.endpoint(max_connections=connections), ask_all) == ALL
    assert len(numbers.requests) == 20
    assert numbers.connections <= connections


def test_many_rounds_share_few_connections(numbers: FakeFlink) -> None:
    async def at_once(transport: HttpTransport) -> list[list[object]]:
        return await asyncio.gather(*(ask_all(transport) for _ in range(30)))

    assert exchange(numbers.endpoint(max_connections=2), at_once) == [ALL] * 30
    assert numbers.connections <= 2
    assert len(numbers.requests) == 600


def test_rounds_that_begin_together_take_no_more_tasks_than_there_are_connections(numbers: FakeFlink) -> None:
    begun = list[str]()

    def counted(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        begun.append(getattr(work, "__qualname__", ""))
        return asyncio.Task(work, loop=loop)

    async def at_once(transport: HttpTransport) -> list[list[object]]:
        asyncio.get_running_loop().set_task_factory(counted)  # type: ignore[arg-type]
        return await asyncio.gather(*(ask_all(transport) for _ in range(30)))

    assert exchange(numbers.endpoint(max_connections=10), at_once) == [ALL] * 30
    assert begun.count("HttpTransport._lane") <= 2 * 10  # at the beginning, and when the last ones have room


def test_each_request_has_its_own_time(numbers: FakeFlink) -> None:
    numbers.delay = 0.2  # twenty of them, one after the other, take longer than one may

    assert exchange(numbers.endpoint(max_connections=1, timeout=3.0), ask_all) == ALL


@pytest.mark.parametrize("connections", [1, 4])
def test_a_request_without_an_answer_ends_the_round_in_its_time(numbers: FakeFlink, connections: int) -> None:
    numbers.fault(PATHS[5], Fault.HANG)

    with pytest.raises(ConnectError, match=r"GET http://\S+/numbers/05: no complete answer within 0.3 s"):
        exchange(numbers.endpoint(max_connections=connections, timeout=0.3), ask_all)

    assert sum(request.target == PATHS[5] for request in numbers.requests) == 1


@pytest.mark.parametrize("connections", [1, 4])
def test_a_refusal_is_raised_as_that_of_a_single_request(numbers: FakeFlink, connections: int) -> None:
    numbers.fault(PATHS[3], flink_error(403, "not allowed"))

    with pytest.raises(RefusedError, match="/numbers/03: HTTP 403: not allowed") as caught:
        exchange(numbers.endpoint(max_connections=connections), ask_all)

    assert caught.value.status == 403
    assert sum(request.target == PATHS[3] for request in numbers.requests) == 1


@pytest.mark.parametrize("connections", [1, 4])
@pytest.mark.parametrize("fault", [Canned(status=503), Fault.RESET, Fault.HANG_UP, Fault.HALF_CLOSE])
def test_what_passes_is_asked_for_again(numbers: FakeFlink, connections: int, fault: Canned | Fault) -> None:
    numbers.fault(PATHS[9], fault, times=1)

    assert exchange(numbers.endpoint(max_connections=connections), ask_all) == ALL


def test_what_does_not_pass_is_tried_as_often_as_a_single_request(numbers: FakeFlink) -> None:
    numbers.fault(PATHS[9], Canned(status=503))

    with pytest.raises(RefusedError):
        exchange(numbers.endpoint(max_connections=1), ask_all)

    assert sum(request.target == PATHS[9] for request in numbers.requests) == ATTEMPTS


@pytest.mark.parametrize("connections", [1, 4])
def test_connections_that_the_server_has_closed_meanwhile_are_opened_anew(numbers: FakeFlink, connections: int) -> None:
    async def twice(transport: HttpTransport) -> list[object]:
        await ask_all(transport)
        numbers.fault(PATHS[0], Fault.HANG_UP, times=1)
        return await ask_all(transport)

    assert exchange(numbers.endpoint(max_connections=connections), twice) == ALL
    assert len(numbers.requests) == 41


def test_a_server_that_ends_each_connection_with_its_answer_is_asked_nevertheless(flink: FakeFlink) -> None:
    for number, path in enumerate(PATHS):
        flink.fault(path, Canned(str(number).encode(), headers={"Connection": "close"}))

    assert exchange(flink.endpoint(max_connections=2), ask_all) == ALL
    assert flink.connections == 20


@pytest.mark.parametrize("fault", [Fault.NOT_HTTP, Fault.TRUNCATED_JSON, Fault.HTML, Fault.HUGE, Fault.EMPTY])
def test_an_answer_that_is_none_names_its_request(numbers: FakeFlink, fault: Fault) -> None:
    numbers.fault(PATHS[11], fault)

    with pytest.raises(ResponseError, match=r"GET http://\S+/numbers/11: "):
        exchange(numbers.endpoint(max_connections=2, max_response_bytes=1 << 20), ask_all)


def test_a_round_that_nobody_waits_for_any_more_gives_its_connections_back(numbers: FakeFlink) -> None:
    numbers.fault(PATHS[5], Fault.HANG, times=2)

    async def given_up(transport: HttpTransport) -> list[object]:
        for _ in range(2):
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(ask_all(transport), 0.2)
        return await ask_all(transport)

    assert exchange(numbers.endpoint(max_connections=2), given_up) == ALL


def test_no_requests_need_no_connection(flink: FakeFlink) -> None:
    assert exchange(flink.endpoint(), lambda transport: transport.get_all_json([])) == []
    assert flink.connections == 0


GET = b"GET /config HTTP/1.1\r\nHost: x\r\n\r\n"


def with_connections(flink: FakeFlink, action: Callable[[ConnectionPool], Awaitable[object]]) -> object:
    async def run() -> object:
        connections = ConnectionPool(Server("127.0.0.1", int(flink.url.rpartition(":")[2]), None), limit=1 << 20)
        try:
            return await action(connections)
        finally:
            await connections.aclose()
            await connections.aclose()

    return asyncio.run(run())


def test_a_request_on_a_kept_connection_that_was_closed_is_sent_over_a_new_one(flink: FakeFlink) -> None:
    async def twice(connections: ConnectionPool) -> tuple[int, int]:
        first = await connections.get(GET)
        flink.fault("/config", Fault.HANG_UP, times=1)
        return first.head.status, (await connections.get(GET)).head.status

    assert with_connections(flink, twice) == (200, 200)
    assert flink.connections == 2


def test_a_connection_with_a_broken_answer_is_not_used_again(flink: FakeFlink) -> None:
    flink.fault("/config", Fault.NOT_HTTP, times=1)

    async def twice(connections: ConnectionPool) -> int:
        with pytest.raises(ResponseError):
            await connections.get(GET)
        return (await connections.get(GET)).head.status

    assert with_connections(flink, twice) == 200
    assert flink.connections == 2


def test_a_request_that_nobody_waits_for_any_more_leaves_no_answer_to_the_next_one(flink: FakeFlink) -> None:
    flink.fault("/config", Fault.HANG, times=1)

    async def given_up(connections: ConnectionPool) -> int:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(connections.get(GET), 0.1)
        return (await connections.get(GET)).head.status

    assert with_connections(flink, given_up) == 200
    assert flink.connections == 2


def test_all_connections_end_when_they_are_closed(flink: FakeFlink) -> None:
    flink.fault("/config", Fault.HANG, times=1)

    async def closed_meanwhile(connections: ConnectionPool) -> list[object]:
        request = asyncio.ensure_future(connections.get(GET))
        while not flink.requests:
            await asyncio.sleep(0.01)
        await connections.aclose()
        return list(await asyncio.gather(request, return_exceptions=True))

    found = with_connections(flink, closed_meanwhile)

    assert isinstance(found, list)
    assert isinstance(found[0], ConnectionError)
