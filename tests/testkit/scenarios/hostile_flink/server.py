"""A raw HTTP/1.1 server for many clusters at once, in one thread: what it writes is up to whoever answers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from testkit.fakes.flink import FakeRequest
from testkit.fakes.flink.server import parsed
from testkit.loopback import HOST, LoopbackThread

Play = Callable[[asyncio.StreamWriter, bytes], Awaitable[bool]]
"""Writes something else than the body that would be right; returns whether the connection goes on."""


@dataclass(frozen=True)
class Reply:
    """An answer: a body as JSON has it, or what is written instead."""

    body: bytes
    status: int = 200
    play: Play | None = None


Responder = Callable[[FakeRequest], Reply]


class Servers(LoopbackThread):
    """Serves any number of loopback ports until closed; a context manager."""

    def __init__(self) -> None:
        super().__init__("hostile-flink")

    def serve(self, respond: Responder) -> str:
        """Serve one more port and return its base URL."""

        async def converse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while await _serve(respond, reader, writer):
                pass

        return f"http://{HOST}:{self.listen(converse)}"


async def _serve(respond: Responder, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
    head = await reader.readuntil(b"\r\n\r\n")
    reply = respond(await parsed(head, reader))
    if reply.play is not None:
        return await reply.play(writer, reply.body)
    writer.write(b"HTTP/1.1 %d Answer\r\nContent-Type: application/json; charset=UTF-8\r\n" % reply.status)
    writer.write(b"Content-Length: %d\r\n\r\n" % len(reply.body) + reply.body)
    await writer.drain()
    return True
