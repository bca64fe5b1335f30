"""A way to an HTTP server that counts the requests which go along it."""

from __future__ import annotations

import asyncio
import re
import threading
from contextlib import suppress
from types import TracebackType
from typing import Final, Self

_REQUEST: Final = re.compile(rb"^[A-Z]+ \S+ HTTP/1\.1\r$", re.MULTILINE)
_CHUNK: Final = 1 << 16


class CountingProxy:
    """Carries bytes to a port of the loopback while open. Requests have to come whole, as small GETs do.

    Attributes:
        requests: That went along.
        url: Where it listens.
    """

    def __init__(self, port: int) -> None:
        self._port = port
        self.requests = 0
        self.url = ""
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        self._ready.wait(10)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def _serve(self) -> None:
        server = self._loop.run_until_complete(asyncio.start_server(self._carry, "127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        self._ready.set()
        self._loop.run_forever()
        server.close()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError, asyncio.CancelledError):
            there, back = await asyncio.open_connection("127.0.0.1", self._port)
            await asyncio.gather(
                self._pass_on(reader, back, is_asked=True), self._pass_on(there, writer, is_asked=False)
            )

    async def _pass_on(self, source: asyncio.StreamReader, target: asyncio.StreamWriter, *, is_asked: bool) -> None:
        while data := await source.read(_CHUNK):
            self.requests += len(_REQUEST.findall(data)) if is_asked else 0
            target.write(data)
            await target.drain()
        target.close()
