"""The last look before a PUT: nothing is sent by who may not write any more."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from flink_autoscaler.clients.http.transport import HttpTransport
from flink_autoscaler.core.errors import NotLeaderError
from testkit.clusters.flink.waiting import wait_until
from testkit.fakes.flink import FakeFlink

PATH = "/jobs/" + "ab" * 16 + "/resource-requirements"


def send(flink: FakeFlink, may_write: Callable[[float], bool]) -> None:
    async def put() -> None:
        transport = HttpTransport(flink.endpoint(timeout=3.0), may_write=may_write)
        try:
            await transport.put_json(PATH, {})
        finally:
            await transport.aclose()

    asyncio.run(put())


def test_put_is_not_sent_by_who_may_not_write() -> None:
    with FakeFlink() as flink:
        with pytest.raises(NotLeaderError, match="not sent"):
            send(flink, lambda _: False)

        assert flink.requests == []


def test_put_is_given_up_when_the_permission_ends_after_the_connection_was_opened() -> None:
    """As when the process is stopped between opening the connection and sending."""
    with FakeFlink() as flink:
        opened: list[int] = []

        def may_write(_: float) -> bool:
            # The server counts in a thread of its own.
            wait_until("a connection", lambda: flink.connections, interval=0.005)
            opened.append(flink.connections)
            return len(opened) < 2

        with pytest.raises(NotLeaderError):
            send(flink, may_write)

        assert opened == [1, 1]
        assert flink.requests == []


def test_put_needs_permission_for_as_long_as_it_may_take() -> None:
    with FakeFlink() as flink:
        job = flink.add_job("orders")
        asked: list[float] = []

        def may_write(seconds: float) -> bool:
            asked.append(seconds)
            return True

        async def put() -> None:
            transport = HttpTransport(flink.endpoint(timeout=3.0), may_write=may_write)
            path = f"/jobs/{job.job_id}/resource-requirements"
            bounds = {each.vertex_id: {"parallelism": {"lowerBound": 1, "upperBound": 2}} for each in job.vertices}
            await transport.put_json(path, bounds)
            await transport.aclose()

        asyncio.run(put())

        assert set(asked) == {3.0}
        assert [request.method for request in flink.requests] == ["PUT"]


def test_reading_needs_no_permission() -> None:
    async def get(flink: FakeFlink) -> object:
        transport = HttpTransport(flink.endpoint(), may_write=lambda _: False)
        try:
            return await transport.get_json("/jobs/overview")
        finally:
            await transport.aclose()

    with FakeFlink() as flink:
        assert asyncio.run(get(flink)) == {"jobs": []}
