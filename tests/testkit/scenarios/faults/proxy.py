"""A TCP proxy whose network can be cut, so that nothing arrives, be slow, or have nobody at its other end."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Coroutine
from types import TracebackType
from typing import Self


class StallingProxy:
    """Forwards a loopback port until it is cut, and again from then on.

    Args:
        port: Where connections are forwarded to.
    """

    def __init__(self, port: int) -> None:
        self._target = port
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="stalling-proxy", daemon=True)
        self._open = asyncio.Event()
        self._connections: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self._delay = 0.0
        self.port = 0

    def __enter__(self) -> Self:
        self._thread.start()
        self._wait_for(self._listen())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._wait_for(self._drop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)
        self._loop.close()

    def cut(self) -> None:
        """Swallow everything in both directions; new connections are accepted and lead nowhere."""
        self._loop.call_soon_threadsafe(self._open.clear)

    def mend(self) -> None:
        """Forward again, also what was sent in the meantime."""
        self._loop.call_soon_threadsafe(self._open.set)

    def slow_down(self, seconds: float) -> None:
        """Let everything that arrives wait so many seconds, in both directions; 0 undoes it."""
        self._delay = seconds

    def refuse(self) -> None:
        """End all connections and refuse new ones, as a machine does on which nobody listens."""
        self._wait_for(self._drop())

    def listen(self) -> None:
        """Accept connections again, on the same port."""
        self._wait_for(self._listen())

    def _wait_for(self, work: Coroutine[None, None, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(5)

    async def _listen(self) -> None:
        self._open.set()
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _drop(self) -> None:
        if self._server is not None:
            self._server.close()
        for connection in self._connections:
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        with contextlib.suppress(OSError, asyncio.CancelledError):
            await self._open.wait()
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._target)
            with contextlib.closing(far_writer):
                await asyncio.gather(self._forward(reader, far_writer), self._forward(far_reader, writer))
        self._connections.discard(task)
        writer.close()

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(65536):
                await asyncio.sleep(self._delay)
                await self._open.wait()
                writer.write(data)
                await writer.drain()
        await self._open.wait()
        writer.close()
