"""Servers on loopback ports, in a thread beside the test."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final, Self, TypeVar

T = TypeVar("T")

Conversation = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
"""What is done with one connection; it is closed afterwards."""

HOST: Final = "127.0.0.1"
_DEADLINE: Final = 120.0
"""Seconds for what takes none on a quiet machine."""


class LoopbackThread:
    """Any number of ports, until closed; a context manager.

    Attributes:
        opened: Connections so far.
    """

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=name, daemon=True)
        self._listeners: list[asyncio.Server] = []
        self.opened = 0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.drop()
        self.call(self._loop.stop)
        self._thread.join(_DEADLINE)
        self._loop.close()

    def listen(self, converse: Conversation, port: int = 0) -> int:
        """Accept connections on a port, or on any that is free; return which."""

        async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            self.opened += 1
            try:
                with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
                    await converse(reader, writer)
            finally:
                writer.transport.abort() if writer.transport.is_closing() else writer.close()

        listener = self._wait_for(asyncio.start_server(accept, HOST, port, reuse_address=True))
        self._listeners.append(listener)
        return int(listener.sockets[0].getsockname()[1])

    def drop(self) -> None:
        """Stop listening and end all connections."""
        self._wait_for(self._drop())

    def call(self, function: Callable[[], object]) -> None:
        """Call something in the thread, without waiting for it."""
        self._loop.call_soon_threadsafe(function)

    def _wait_for(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(_DEADLINE)

    async def _drop(self) -> None:
        while self._listeners:
            self._listeners.pop().close()
        for _ in range(5):
            await asyncio.sleep(0)  # who was accepted just now becomes a connection first
        while connections := asyncio.all_tasks() - {asyncio.current_task()}:
            for connection in connections:
                connection.cancel()
            await asyncio.gather(*connections, return_exceptions=True)
            await asyncio.sleep(0)


async def forward(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    before: Callable[[bytes], Awaitable[object]],
) -> None:
    """Hand on what arrives, after something was done with it, and at last that it is the end."""
    with contextlib.suppress(ConnectionError):
        while data := await reader.read(65536):
            await before(data)
            writer.write(data)
            await writer.drain()
    await before(b"")
    writer.close()
