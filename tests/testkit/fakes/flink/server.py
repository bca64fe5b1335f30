"""A small HTTP/1.1 server in a thread, able to break every rule on request."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, urlsplit

from testkit.fakes.flink.faults import CANNED, Canned, Fault
from testkit.loopback import HOST, LoopbackThread

Responder = Callable[["FakeRequest"], tuple[Canned | Fault, Canned]]
"""What to do with a request: how to answer or misbehave, and the answer that would be right."""

_DRIP_SECONDS = 0.02
_GATE_SECONDS = 0.02
_ABORT = struct.pack("ii", 1, 0)


@dataclass(frozen=True)
class FakeRequest:
    """A request that arrived; ``body`` is decoded JSON or a form, or None; ``target`` is path and query as sent.

    ``at`` is when, by the monotonic clock.
    """

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: object = None
    target: str = ""
    at: float = field(default_factory=time.monotonic, compare=False)


class Server:
    """Serves one loopback port until closed; pausing frees the port for a while."""

    def __init__(self, respond: Responder) -> None:
        self._respond = respond
        self._thread = LoopbackThread("fake-flink")
        self._held: socket.socket | None = None
        self.port = 0
        self.delay = 0.0
        self.gate: Callable[[FakeRequest], bool] | None = None
        self.most_at_once = 0
        self._at_once = 0

    @property
    def opened(self) -> int:
        """Connections so far."""
        return self._thread.opened

    def start(self) -> None:
        """Listen on a free port."""
        self._thread.__enter__()
        self.resume()

    def resume(self) -> None:
        """Listen, on the same port as before."""
        self._release()
        self.port = self._thread.listen(self._converse, self.port)

    def pause(self) -> None:
        """Stop listening and drop all connections; the port is held, so that nobody else answers there."""
        self._thread.drop()
        self._release()
        self._held = socket.socket()
        self._held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._held.bind((HOST, self.port))

    def _release(self) -> None:
        if self._held is not None:
            self._held.close()
        self._held = None

    def close(self) -> None:
        """Drop everything and end the thread."""
        self._release()
        self._thread.__exit__()

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while await self._serve(reader, writer):
            pass

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        first = await reader.readexactly(1)
        if not first.isalpha():  # a TLS handshake, for example
            return await _send(writer, Canned(b"", 400), Canned()) and False
        head = first + await reader.readuntil(b"\r\n\r\n")
        request = await parsed(head, reader)
        self._at_once += 1
        self.most_at_once = max(self.most_at_once, self._at_once)
        try:
            while self.gate is not None and self.gate(request):
                await asyncio.sleep(_GATE_SECONDS)
            behaviour, right = self._respond(request)
            if self.delay:
                await asyncio.sleep(self.delay)
            return await _send(writer, behaviour, right)
        finally:
            self._at_once -= 1


async def parsed(head: bytes, reader: asyncio.StreamReader) -> FakeRequest:
    """Return a request from its head, and its body from what follows."""
    first, *lines = head.decode("latin-1").split("\r\n")
    method, target, _ = first.split(" ")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines if line)}
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    parts = urlsplit(target)
    query = dict(parse_qsl(parts.query, keep_blank_values=True))
    is_form = headers.get("content-type", "").startswith("application/x-www-form-urlencoded")
    decoded = dict(parse_qsl(body.decode())) if is_form else json.loads(body) if body else None
    return FakeRequest(method, parts.path, query, headers, decoded, target)


async def _send(writer: asyncio.StreamWriter, behaviour: Canned | Fault, right: Canned) -> bool:
    """Write an answer or misbehave; return whether the connection goes on."""
    if isinstance(behaviour, Fault) and behaviour not in CANNED:
        return await _misbehave(writer, behaviour, right)
    canned = behaviour if isinstance(behaviour, Canned) else CANNED[behaviour]
    writer.write(_head(canned) + (_chunks(canned.body) if canned.chunked else canned.body))
    await writer.drain()
    return True


async def _misbehave(writer: asyncio.StreamWriter, fault: Fault, right: Canned) -> bool:
    if fault is Fault.RESET:
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _ABORT)
        writer.transport.abort()
    elif fault is Fault.HANG:
        await asyncio.Event().wait()
    elif fault is Fault.DRIP:
        writer.write(_head(right))
        for byte in right.body:
            writer.write(bytes([byte]))
            await writer.drain()
            await asyncio.sleep(_DRIP_SECONDS)
        return True
    elif fault is Fault.NOT_HTTP:
        writer.write(b"SSH-2.0-OpenSSH_9.2\r\n")
        await writer.drain()
    elif fault is Fault.HALF_CLOSE:
        writer.write(_head(right) + right.body[: len(right.body) // 2])
        await writer.drain()
    elif fault is Fault.TRUNCATED_JSON:
        return await _send(writer, Canned(right.body[: len(right.body) // 2]), right)
    return False


def _head(canned: Canned) -> bytes:
    headers = dict(canned.headers)
    if canned.content_type is not None:
        headers["Content-Type"] = canned.content_type
    headers |= {"Transfer-Encoding": "chunked"} if canned.chunked else {"Content-Length": str(len(canned.body))}
    lines = [f"HTTP/1.1 {canned.status} Answer", *(f"{name}: {value}" for name, value in headers.items())]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def _chunks(body: bytes, size: int = 65536) -> bytes:
    pieces = [body[start : start + size] for start in range(0, len(body), size)]
    return b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"
