"""Connections that are kept, and those that turn out to be closed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from flink_autoscaler.clients.http.kept import HungUpError, KeptConnections, Server
from flink_autoscaler.core.errors import ResponseError
from testkit.fakes.flink import FakeFlink, Fault

GET = b"GET /config HTTP/1.1\r\nHost: x\r\n\r\n"


def with_connections(flink: FakeFlink, action: Callable[[KeptConnections], Awaitable[object]]) -> object:
    async def run() -> object:
        connections = KeptConnections(Server("127.0.0.1", int(flink.url.rpartition(":")[2]), None), limit=1 << 20)
        try:
            return await action(connections)
        finally:
            await connections.aclose()
            await connections.aclose()

    return asyncio.run(run())


def test_a_request_on_a_kept_connection_that_was_closed_is_sent_over_a_new_one(flink: FakeFlink) -> None:
    async def twice(connections: KeptConnections) -> tuple[int, int]:
        first = await connections.get(GET)
        flink.fault("/config", Fault.HANG_UP, times=1)
        return first.head.status, (await connections.get(GET)).head.status

    assert with_connections(flink, twice) == (200, 200)
    assert flink.connections == 2


def test_a_new_connection_that_is_closed_is_an_error(flink: FakeFlink) -> None:
    flink.fault("/config", Fault.HANG_UP)

    with pytest.raises(HungUpError):
        with_connections(flink, lambda connections: connections.get(GET))

    assert len(flink.requests) == 1


def test_a_connection_with_a_broken_answer_is_not_used_again(flink: FakeFlink) -> None:
    flink.fault("/config", Fault.NOT_HTTP, times=1)

    async def twice(connections: KeptConnections) -> int:
        with pytest.raises(ResponseError):
            await connections.get(GET)
        return (await connections.get(GET)).head.status

    assert with_connections(flink, twice) == 200
    assert flink.connections == 2


def test_a_request_that_nobody_waits_for_any_more_leaves_no_answer_to_the_next_one(flink: FakeFlink) -> None:
    flink.fault("/config", Fault.HANG, times=1)

    async def given_up(connections: KeptConnections) -> int:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(connections.get(GET), 0.1)
        return (await connections.get(GET)).head.status

    assert with_connections(flink, given_up) == 200
    assert flink.connections == 2


def test_all_connections_end_when_they_are_closed(flink: FakeFlink) -> None:
    flink.fault("/config", Fault.HANG, times=1)

    async def closed_meanwhile(connections: KeptConnections) -> list[object]:
        request = asyncio.ensure_future(connections.get(GET))
        while not flink.requests:
            await asyncio.sleep(0.01)
        await connections.aclose()
        return list(await asyncio.gather(request, return_exceptions=True))

    found = with_connections(flink, closed_meanwhile)

    assert isinstance(found, list)
    assert isinstance(found[0], ConnectionError)
