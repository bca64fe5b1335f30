"""Ways to answer over HTTP that are wrong, or right and rare."""

from __future__ import annotations

import asyncio
import gzip
import socket
import struct
import zlib
from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Final

from testkit.scenarios.hostile_flink.server import Play

_JSON: Final = "application/json; charset=UTF-8"
_ABORT: Final = struct.pack("ii", 1, 0)
_LATE: Final = 0.2
_DRIP: Final = 0.05
_HTML: Final = b"<!DOCTYPE html><html><body>Please log in</body></html>"
_BROKEN_HTML: Final = b"<!DOCTYPE html><html><![foo[<p title='a>Please log in<![</html>"
_BOMB: Final = 256 << 20


def _head(status: int, fields: Mapping[str, str]) -> bytes:
    lines = [f"HTTP/1.1 {status} Answer", *(f"{name}: {value}" for name, value in fields.items())]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def _whole(body: bytes, status: int = 200, content_type: str | None = _JSON, **fields: str) -> bytes:
    named = {name.replace("_", "-"): value for name, value in fields.items()}
    kind = {} if content_type is None else {"Content-Type": content_type}
    return _head(status, {**kind, "Content-Length": str(len(body)), **named}) + body


def _with_fields(body: bytes, fields: Mapping[str, str]) -> bytes:
    return _head(200, {"Content-Type": _JSON, "Content-Length": str(len(body)), **fields}) + body


def _sends(make: Callable[[bytes], bytes], *, stays: bool = True) -> Play:
    """Write what is made of the right body."""

    async def play(writer: asyncio.StreamWriter, body: bytes) -> bool:
        writer.write(make(body))
        await writer.drain()
        return stays

    return play


def _says(body: bytes | None, status: int = 200, content_type: str | None = _JSON, **fields: str) -> Play:
    return _sends(lambda right: _whole(right if body is None else body, status, content_type, **fields))


async def _reset(writer: asyncio.StreamWriter, body: bytes) -> bool:
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _ABORT)
    writer.transport.abort()
    return False


async def _hang(writer: asyncio.StreamWriter, body: bytes, *, first: bytes = b"") -> bool:
    writer.write(first)
    await asyncio.sleep(3600)
    return False


async def _hang_in_the_body(writer: asyncio.StreamWriter, body: bytes) -> bool:
    return await _hang(writer, body, first=_whole(body)[: -max(1, len(body) // 2)])


async def _drip(writer: asyncio.StreamWriter, body: bytes, *, whole: Callable[[bytes], bytes] = _whole) -> bool:
    for byte in whole(body):
        writer.write(bytes([byte]))
        await writer.drain()
        await asyncio.sleep(_DRIP)
    return True


async def _drip_body(writer: asyncio.StreamWriter, body: bytes) -> bool:
    writer.write(_head(200, {"Content-Type": _JSON, "Content-Length": str(len(body))}))
    return await _drip(writer, body, whole=bytes)


async def _late(writer: asyncio.StreamWriter, body: bytes) -> bool:
    await asyncio.sleep(_LATE)
    writer.write(_whole(body))
    await writer.drain()
    return True


async def _endless(writer: asyncio.StreamWriter, body: bytes, *, head: bytes, part: bytes) -> bool:
    writer.write(head)
    while True:
        writer.write(part)
        await writer.drain()
        await asyncio.sleep(0.001)


def _chunked(body: bytes, end: bytes = b"0\r\n\r\n", size: str | None = None) -> bytes:
    length = f"{len(body):x}" if size is None else size
    chunk = length.encode() + b"\r\n" + body + b"\r\n"
    return _head(200, {"Content-Type": _JSON, "Transfer-Encoding": "chunked"}) + chunk + end


@cache
def _bomb(encodings: int) -> bytes:
    packer = zlib.compressobj(6, zlib.DEFLATED, 31)
    part = b"x" * 2**20
    packed = b"".join((packer.compress(b'"'), *(packer.compress(part) for _ in range(_BOMB >> 20)), packer.flush()))
    for _ in range(encodings - 1):
        packed = gzip.compress(packed, 9)
    return _whole(packed, Content_Encoding=", ".join(["gzip"] * encodings))


def prepare() -> None:
    """Make what takes long, so that no answer waits for it."""
    _bomb(1)
    _bomb(2)


_STATUSES: Final = (
    *(199, 201, 202, 203, 204, 205, 206, 226, 299, 300, 304, 305, 400, 402, 403, 404, 405, 406, 408, 409, 410, 413),
    *(415, 418, 421, 422, 425, 429, 431, 451, 499, 500, 501, 502, 503, 504, 507, 511, 520, 599, 600, 999),
)
_REDIRECTS: Final = ("301", "302", "303", "307", "308")
_FLOOD: Final = {f"X-{number}": "y" * 80 for number in range(2000)}
_CHUNKED: Final = _head(200, {"Content-Type": _JSON, "Transfer-Encoding": "chunked"})
_ERROR: Final = b'{"errors":["org.apache.flink.runtime.rest.NotFoundException: Job not found"]}'

TRICKS: Final[dict[str, Play]] = {
    **{f"status-{status}": _says(None, status) for status in _STATUSES},
    **{f"status-{status}-html": _says(_HTML, int(status), "text/html") for status in ("200", "403", "500", "503")},
    **{
        f"status-{status}-broken-html": _says(_BROKEN_HTML, int(status), "text/html")
        for status in ("200", "404", "500")
    },
    **{f"status-{status}-error": _says(_ERROR, int(status)) for status in ("400", "404", "409", "500")},
    **{f"status-{status}-empty": _says(b"", int(status)) for status in ("200", "204", "404", "500")},
    **{f"redirect-{status}": _says(b"", int(status), Location="/jobs/overview") for status in _REDIRECTS},
    "redirect-abroad": _says(_HTML, 302, "text/html", Location="http://192.0.2.1:1/login"),
    "redirect-nowhere": _says(b"", 302, Location=""),
    "redirect-nonsense": _says(b"", 302, Location="http://[::1/\\%"),
    "basic": _says(b"", 401, WWW_Authenticate='Basic realm="x"'),
    "negotiate": _says(b"", 401, WWW_Authenticate="Negotiate YII="),
    "digest": _says(b"", 401, WWW_Authenticate='Digest realm="' + "x" * 5000),
    "retry-later": _says(b"", 503, Retry_After="1000000000"),
    "retry-nonsense": _says(b"", 429, Retry_After="-1e308"),
    "cookies": _sends(lambda body: _whole(body).replace(b"\r\n", b"\r\nSet-Cookie: a=" + b"c" * 4000 + b"\r\n", 1)),
    "cookie-nonsense": _says(None, Set_Cookie="=;;;\x01; Expires=never; Domain=.; Path=\xff"),
    "cookie-foreign": _says(None, Set_Cookie="a=\xff\xe9; Path=/"),
    "cookie-control": _says(None, Set_Cookie='a="b\x00\x7f; c=\x01"; Path=/'),
    "no-type": _says(None, 200, None),
    "type-text": _says(None, 200, "text/plain"),
    "type-html": _says(None, 200, "text/html"),
    "type-nonsense": _says(None, 200, ";;;charset==,"),
    "type-unknown-charset": _says(None, 200, "application/json; charset=klingon"),
    "utf-16": _sends(lambda body: _whole(body.decode().encode("utf-16"), 200, "application/json; charset=utf-16")),
    "utf-32": _sends(lambda body: _whole(body.decode().encode("utf-32"))),
    "byte-order-mark": _sends(lambda body: _whole(b"\xef\xbb\xbf" + body)),
    "not-utf-8": _sends(lambda body: _whole(body[:1] + b"\xff\xfe" + body[1:])),
    "gzip": _sends(lambda body: _whole(gzip.compress(body), Content_Encoding="gzip")),
    "gzip-twice": _sends(lambda body: _whole(gzip.compress(gzip.compress(body)), Content_Encoding="gzip, gzip")),
    "deflate": _sends(lambda body: _whole(zlib.compress(body), Content_Encoding="deflate")),
    "gzip-cut": _sends(lambda body: _whole(gzip.compress(body)[:-9], Content_Encoding="gzip")),
    "gzip-nonsense": _says(None, Content_Encoding="gzip"),
    "encoding-unknown": _says(None, Content_Encoding="br, zstd, klingon"),
    "encoding-identity": _says(None, Content_Encoding="identity"),
    "encoding-often": _says(None, Content_Encoding=", ".join(["gzip"] * 200)),
    "bomb": _sends(lambda _: _bomb(1)),
    "bomb-in-bomb": _sends(lambda _: _bomb(2)),
    "oversized": _sends(lambda _: _whole(b'"' + b"x" * 9_000_000 + b'"')),
    "oversized-chunked": _sends(lambda _: _chunked(b'"' + b"x" * 9_000_000 + b'"')),
    "half": _sends(lambda body: _whole(body)[: -max(1, len(body) // 2)], stays=False),
    "cut-json": _sends(lambda body: _whole(body[: len(body) // 2])),
    "length-too-small": _sends(lambda body: _whole(body, Content_Length=str(max(0, len(body) - 3)))),
    "length-too-large": _sends(lambda body: _whole(body, Content_Length=str(len(body) + 1000))),
    "length-huge": _sends(lambda body: _whole(body, Content_Length=str(10**18))),
    "length-negative": _sends(lambda body: _whole(body, Content_Length="-5")),
    "length-nonsense": _sends(lambda body: _whole(body, Content_Length="many")),
    "length-digits": _sends(lambda body: _whole(body, Content_Length="9" * 5000)),
    "length-twice": _sends(lambda body: _with_fields(body, {"Content-length": "1"})),
    "length-and-chunked": _sends(lambda body: _whole(body, Transfer_Encoding="chunked")),
    "no-length": _sends(lambda body: _head(200, {"Content-Type": _JSON}) + body, stays=False),
    "chunked": _sends(_chunked),
    "chunk-size-nonsense": _sends(partial(_chunked, size="xyz")),
    "chunk-size-negative": _sends(partial(_chunked, size="-1")),
    "chunk-size-huge": _sends(partial(_chunked, size="f" * 40)),
    "chunk-extension": _sends(lambda body: _chunked(body, size=f"{len(body):x};" + "a=b;" * 5000)),
    "chunks-without-end": _sends(partial(_chunked, end=b"")),
    "chunks-end-early": _sends(partial(_chunked, end=b""), stays=False),
    "trailers": _sends(partial(_chunked, end=b"0\r\n" + b"X: y\r\n" * 3000 + b"\r\n")),
    "endless-chunks": partial(_endless, head=_CHUNKED, part=b"1\r\n \r\n"),
    "endless-headers": partial(_endless, head=b"HTTP/1.1 200 OK\r\n", part=b"X-More: yes\r\n"),
    "endless-hints": partial(_endless, head=b"", part=b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"),
    "hints": _sends(lambda body: b"HTTP/1.1 100 Continue\r\n\r\n" * 50 + _whole(body)),
    "header-flood": _sends(lambda body: _with_fields(body, _FLOOD)),
    "header-long": _sends(lambda body: _whole(body, X="y" * 200_000)),
    "header-nonsense": _sends(lambda body: b"HTTP/1.1 200 OK\r\n: :\r\n\x00\xff: \x01\r\n\r\n" + body, stays=False),
    "two-answers": _sends(lambda body: _whole(body) + _whole(b'{"errors":["the answer to something else"]}')),
    "closes": _sends(lambda body: _whole(body, Connection="close"), stays=False),
    "closes-unsaid": _sends(_whole, stays=False),
    "says-close-and-stays": _says(None, Connection="close"),
    "http-1.0": _sends(lambda body: _whole(body).replace(b"HTTP/1.1", b"HTTP/1.0", 1), stays=False),
    "http-0.9": _sends(lambda body: body, stays=False),
    "http-9": _sends(lambda body: _whole(body).replace(b"HTTP/1.1", b"HTTP/9.9", 1)),
    "http-2": _sends(lambda _: b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\x00" * 50, stays=False),
    "status-text": _sends(lambda body: _whole(body).replace(b" 200 ", b" OK ", 1)),
    "status-long": _sends(lambda body: _whole(body).replace(b" 200 ", b" 2000000000 ", 1)),
    "status-negative": _sends(lambda body: _whole(body).replace(b" 200 ", b" -200 ", 1)),
    "reason-long": _sends(lambda body: _whole(body).replace(b"Answer", b"A" * 100_000, 1)),
    "not-http": _sends(lambda _: b"SSH-2.0-OpenSSH_9.2\r\n", stays=False),
    "tls-alert": _sends(lambda _: b"\x15\x03\x01\x00\x02\x02\x46", stays=False),
    "white": _says(b"  \r\n\t "),
    "json-and-more": _sends(lambda body: _whole(body + b"}{")),
    "json-twice": _sends(lambda body: _whole(body + body)),
    "json-lines": _sends(lambda body: _whole(b"\n" * 10_000 + body)),
    "json-comment": _sends(lambda body: _whole(b"/* hi */" + body)),
    "login": _says(b'<html><form action="/login"><input type="password"></form></html>', 200, "text/html"),
    "late": _late,
    "reset": _reset,
    "hang-up": _sends(lambda _: b"", stays=False),
    "hang": _hang,
    "hang-in-the-head": partial(_hang, first=b"HTTP/1.1 200 OK\r\nContent-Type:"),
    "hang-in-the-body": _hang_in_the_body,
    "drip": _drip,
    "drip-body": _drip_body,
}
"""Behaviours by name."""
