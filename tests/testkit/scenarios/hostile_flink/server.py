"""A raw HTTP/1.1 server for many clusters at once, in one thread: what it writes is up to whoever answers."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self, TypeVar

from testkit.fakes.flink import FakeRequest
from testkit.fakes.flink.server import parsed

T = TypeVar("T")

Play = Callable[[asyncio.StreamWriter, bytes], Awaitable[bool]]
"""Writes something else than the body that would be right; returns whether the connection goes on."""


@dataclass(frozen=True)
class Reply:
    """An answer: a body as JSON has it, or what is written instead."""

    body: bytes
    status: int = 200
    play: Play | None = None


Responder = Callable[[FakeRequest], Reply]


class Servers:
    """Serves any number of loopback ports until closed; a context manager."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="hostile-flink", daemon=True)
        self._listeners: list[asyncio.Server] = []
        self._connections: set[asyncio.Task[None]] = set()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._run(self._drop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)
        self._loop.close()

    def listen(self, respond: Responder) -> str:
        """Serve one more port and return its base URL."""

        async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await self._accept(respond, reader, writer)

        listener = self._run(asyncio.start_server(accept, "127.0.0.1", 0))
        self._listeners.append(listener)
        return f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}"

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(10)

    async def _drop(self) -> None:
        for listener in self._listeners:
            listener.close()
        for connection in self._connections:
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def _accept(self, respond: Responder, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
                while await _serve(respond, reader, writer):
                    pass
        finally:
            self._connections.discard(task)
            writer.close()


async def _serve(respond: Responder, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
    head = await reader.readuntil(b"\r\n\r\n")
    reply = respond(await parsed(head, reader))
    if reply.play is not None:
        return await reply.play(writer, reply.body)
    writer.write(b"HTTP/1.1 %d Answer\r\nContent-Type: application/json; charset=UTF-8\r\n" % reply.status)
    writer.write(b"Content-Length: %d\r\n\r\n" % len(reply.body) + reply.body)
    await writer.drain()
    return True
