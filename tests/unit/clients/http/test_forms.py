"""Questions that are posted: over connections that are kept, and those that turn out to be closed."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

import pytest

from flink_autoscaler.clients.http.forms import FormTransport
from flink_autoscaler.core.errors import ConnectError
from flink_autoscaler.core.model.job import Endpoint, Tls
from testkit.servers.tls import Authority, server_context

FORM = {"query": "up{job='a b'} + 1"}


class Body:
    """Takes a body whole."""

    def __init__(self) -> None:
        self.text = b""

    def take(self, piece: bytes) -> None:
        self.text += piece


class Answering:
    """A server that answers forms with themselves.

    Args:
        ends: Whether it ends a connection before it answers a question, by the number of the question from 1 on.
        is_brief: Whether it ends each connection after an answer, without saying so.
        waits_for: Answers none before so many questions are there.
    """

    def __init__(
        self, ends: Callable[[int], bool] = lambda _: False, *, is_brief: bool = False, waits_for: int = 1
    ) -> None:
        self._ends, self._is_brief = ends, is_brief
        self.gathered = asyncio.Barrier(waits_for)
        self.connections = self.questions = self.present = self.most = 0
        self.has_left, self.is_alone = asyncio.Event(), asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.present += 1
        self.is_alone.clear()
        self.most = max(self.most, self.present)
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while await self._one(reader, writer) and not self._is_brief:
                pass
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()
        self.present -= 1
        self.has_left.set()
        if not self.present:
            self.is_alone.set()

    async def _one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        length = int(head.partition(b"content-length:")[2].partition(b"\r\n")[0])
        body = await reader.readexactly(length)
        self.questions += 1
        if self._ends(self.questions):
            return False
        await self.gathered.wait()
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (length, body))
        await writer.drain()
        return True


Action = Callable[[FormTransport], Awaitable[None]]


def asked(
    server: Answering, action: Action, *, most: int = 4, tls: ssl.SSLContext | None = None, ca_file: str | None = None
) -> Answering:
    """Let a client of a server do something; all within one loop."""

    async def run() -> None:
        listening = await asyncio.start_server(server.serve, "127.0.0.1", 0, ssl=tls)
        port = listening.sockets[0].getsockname()[1]
        url = f"{'https' if tls else 'http'}://127.0.0.1:{port}"
        transport = FormTransport(Endpoint(url, max_connections=most, tls=Tls(ca_file=ca_file)))
        try:
            await action(transport)
        finally:
            await transport.aclose()
            await transport.aclose()
            listening.close()
            await server.is_alone.wait()

    asyncio.run(run())
    return server


async def ask(transport: FormTransport) -> bytes:
    return (await transport.post("/api", FORM, Body)).text


async def three_times(transport: FormTransport) -> None:
    for _ in range(3):
        assert await ask(transport) == b"query=up{job%3D'a+b'}+%2B+1"


def test_tls_shakes_hands_once(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    context = server_context(authority.issue("127.0.0.1"))

    server = asked(Answering(), three_times, tls=context, ca_file=authority.ca_file)

    assert (server.questions, server.connections, context.session_stats()["accept_good"]) == (3, 1, 1)


def test_a_server_that_ends_its_connections_in_between_is_asked_over_new_ones() -> None:
    server = Answering(is_brief=True)

    async def one_after_the_other(transport: FormTransport) -> None:
        for _ in range(3):
            assert await ask(transport)
            await server.has_left.wait()
            server.has_left.clear()

    asked(server, one_after_the_other)

    assert (server.questions, server.connections) == (3, 3)


def test_a_connection_that_is_ended_while_a_question_is_under_way_is_no_failure() -> None:
    """The server ends an idle connection at the very moment when it is used again."""
    server = asked(Answering(lambda question: question == 2), three_times)

    assert (server.questions, server.connections) == (4, 3)


def test_a_question_that_is_never_answered_is_asked_twice() -> None:
    async def in_vain(transport: FormTransport) -> None:
        with pytest.raises(ConnectError):
            await ask(transport)

    server = asked(Answering(lambda _: True), in_vain)

    assert (server.questions, server.connections) == (2, 2)


def test_no_more_connections_are_opened_than_may_be_used_at_once() -> None:
    async def many(transport: FormTransport) -> None:
        for _ in range(3):
            await asyncio.gather(*(ask(transport) for _ in range(8)))

    server = asked(Answering(waits_for=2), many, most=2)

    assert (server.questions, server.connections, server.most) == (24, 2, 2)
