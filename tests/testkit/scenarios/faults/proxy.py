"""A TCP proxy whose network can be cut, so that nothing arrives, be slow, or have nobody at its other end."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Self

from testkit.loopback import HOST, LoopbackThread, forward


class StallingProxy:
    """Forwards a loopback port until it is cut, and again from then on; a context manager.

    Args:
        port: Where connections are forwarded to.

    Attributes:
        port: Where it listens.
    """

    def __init__(self, port: int) -> None:
        self._target = port
        self._thread = LoopbackThread("stalling-proxy")
        self._open = asyncio.Event()
        self._open.set()
        self._delay = 0.0
        self.port = 0

    def __enter__(self) -> Self:
        self._thread.__enter__()
        self.listen()
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.__exit__()

    def cut(self) -> None:
        """Swallow everything in both directions; new connections are accepted and lead nowhere."""
        self._thread.call(self._open.clear)

    def mend(self) -> None:
        """Forward again, also what was sent in the meantime."""
        self._thread.call(self._open.set)

    def slow_down(self, seconds: float) -> None:
        """Let everything that arrives wait so many seconds, in both directions; 0 undoes it."""
        self._delay = seconds

    def refuse(self) -> None:
        """End all connections and refuse new ones, as a machine does on which nobody listens."""
        self._thread.drop()

    def listen(self) -> None:
        """Accept connections again, on the same port."""
        self.mend()
        self.port = self._thread.listen(self._converse, self.port)

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self._open.wait()
        far_reader, far_writer = await asyncio.open_connection(HOST, self._target)
        with contextlib.closing(far_writer):
            await asyncio.gather(
                forward(reader, far_writer, self._of_client()), forward(far_reader, writer, self._arrive)
            )

    def _of_client(self) -> Callable[[bytes], Awaitable[None]]:
        """Return what is done with what the client of one connection sends."""
        return self._arrive

    async def _arrive(self, _: bytes) -> None:
        await asyncio.sleep(self._delay)
        await self._open.wait()
