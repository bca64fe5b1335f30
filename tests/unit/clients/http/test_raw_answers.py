"""Answers as bytes on the wire: what is taken, what is refused, and that nothing of one is left for the next."""

from __future__ import annotations

import asyncio
import gzip
from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flink_autoscaler.clients.http.transport import HttpTransport
from flink_autoscaler.core.errors import FlinkRestError, ResponseError
from flink_autoscaler.core.model.job import Endpoint

LIMIT: Final = 100_000
NEXT: Final = b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 6\r\n\r\n"next"'
ZIPPED: Final = gzip.compress(b"7")


class RawServer:
    """Answers the first request with the given bytes, in pieces, and closes where it should; then with ``"next"``.

    Attributes:
        connections: How many there were.
    """

    def __init__(self, data: bytes, *, pieces: int = 1, closes: bool = False) -> None:
        self._data: bytes | None = data
        self._size = max(1, len(data) // pieces)
        self._closes = closes
        self.connections = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while await reader.readuntil(b"\r\n\r\n"):
                data, self._data = self._data, None
                for start in range(0, len(data or NEXT), self._size):
                    writer.write((data or NEXT)[start : start + self._size])
                    await writer.drain()
                    await asyncio.sleep(0)
                if data is not None and self._closes:
                    break
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


def asked_twice(data: bytes, *, pieces: int = 1, closes: bool = False) -> tuple[object, object, int]:
    """Return the first answer, or why there is none; the second one; and how many connections it took."""

    async def run() -> tuple[object, object, int]:
        raw = RawServer(data, pieces=pieces, closes=closes)
        server = await asyncio.start_server(raw.serve, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        transport = HttpTransport(
            Endpoint(f"http://127.0.0.1:{port}", max_connections=1, max_response_bytes=LIMIT, timeout=30)
        )
        found: list[object] = []
        try:
            for path in ("/first", "/second"):
                try:
                    found.append(await transport.get_json(path))
                except FlinkRestError as error:
                    found.append(error)
            return found[0], found[1], raw.connections
        finally:
            await transport.aclose()
            server.close()

    return asyncio.run(run())


def answer(*fields: str, body: bytes = b"", status: str = "200 OK", version: str = "1.1") -> bytes:
    head = [f"HTTP/{version} {status}", "Content-Type: application/json", *fields, "", ""]
    return "\r\n".join(head).encode("latin-1") + body


@pytest.mark.parametrize("pieces", [1, 1000])
@pytest.mark.parametrize(
    ("data", "is_kept"),
    [
        pytest.param(answer("Content-Length: 1", body=b"7"), True, id="length"),
        pytest.param(answer("Transfer-Encoding: chunked", body=b"1\r\n7\r\n0\r\n\r\n"), True, id="one chunk"),
        pytest.param(answer("Transfer-Encoding: Chunked", body=b"1;x=y\r\n7\r\n0\r\n\r\n"), True, id="chunk extension"),
        pytest.param(answer("Connection: Close", "Content-Length: 1", body=b"7"), False, id="the last answer"),
        pytest.param(answer("Content-Length: 1", body=b"7", version="1.0"), False, id="HTTP/1.0"),
        pytest.param(
            answer("Content-Encoding: gzip", f"Content-Length: {len(ZIPPED)}", body=ZIPPED), True, id="compressed"
        ),
        pytest.param(answer(status="100 Continue") + answer("Content-Length: 1", body=b"7"), True, id="interim answer"),
    ],
)
def test_an_answer_is_read_in_any_pieces(data: bytes, is_kept: bool, pieces: int) -> None:
    assert asked_twice(data, pieces=pieces) == (7, "next", 1 if is_kept else 2)


def test_an_answer_without_length_ends_with_its_connection() -> None:
    assert asked_twice(answer(body=b"7"), closes=True) == (7, "next", 2)


@pytest.mark.parametrize("pieces", [1, 1000])
@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"SSH-2.0-OpenSSH_9.2\r\n", id="another protocol"),
        pytest.param(answer("Content-Length: 1", "Content-Length: 2", body=b"77"), id="two lengths"),
        pytest.param(answer("Content-Length: 1, 2", body=b"77"), id="two lengths in one field"),
        pytest.param(answer("Content-Length: -1"), id="less than nothing"),
        pytest.param(answer("Content-Length: 1", "Transfer-Encoding: chunked", body=b"0\r\n\r\n"), id="both lengths"),
        pytest.param(answer("Transfer-Encoding: chunked", body=b"x\r\n"), id="chunk without length"),
        pytest.param(answer("Transfer-Encoding: chunked", body=b"-1\r\n"), id="chunk of less than nothing"),
        pytest.param(answer("Transfer-Encoding: chunked", body=b"1\r\n77\r\n"), id="chunk longer than announced"),
        pytest.param(answer("Content-Length : 0"), id="blank in a name"),
        pytest.param(answer("X: \0", "Content-Length: 1", body=b"7"), id="NUL"),
        pytest.param(answer(f"X: {'x' * 9000}", "Content-Length: 1", body=b"7"), id="long line"),
        pytest.param(answer(*[f"X{n}: x" for n in range(1000)], "Content-Length: 1", body=b"7"), id="many fields"),
        pytest.param(b"HTTP/1.1 200 " + b"x" * 70_000, id="head without end"),
        pytest.param(answer("Content-Encoding: br", "Content-Length: 1", body=b"7"), id="encoding nobody asked for"),
        pytest.param(answer("Content-Length: 2", body=b"7"), id="less than announced"),
        pytest.param(answer("Transfer-Encoding: chunked", body=b"2\r\n7"), id="cut off in a chunk"),
        pytest.param(b"HTTP/1.1 2", id="cut off in the head"),
    ],
)
def test_what_is_no_answer_is_refused_and_its_connection_left(data: bytes, pieces: int) -> None:
    first, second, connections = asked_twice(data, pieces=pieces, closes=True)

    assert isinstance(first, FlinkRestError) or first == "next", first
    assert (second, connections > 1) == ("next", True)


@pytest.mark.parametrize(
    "data",
    [
        answer(f"Content-Length: {LIMIT + 1}"),
        answer("Transfer-Encoding: chunked", body=b"fffffff\r\n" + b"1" * (LIMIT + 1)),
        answer(body=b"1" * (LIMIT + 1)),
    ],
    ids=["announced", "in chunks", "without length"],
)
def test_an_answer_that_is_too_long_is_given_up_at_once(data: bytes) -> None:
    first, second, connections = asked_twice(data)

    assert isinstance(first, ResponseError)
    assert "longer than 100000 bytes" in str(first)
    assert (second, connections) == ("next", 2)


def test_what_goes_on_after_its_end_is_not_the_next_answer() -> None:
    extra = answer("Content-Length: 1", body=b"7") + answer("Content-Length: 8", body=b'"planted')

    assert asked_twice(extra) == (7, "next", 2)


@settings(max_examples=20, deadline=None)
@given(st.binary(max_size=200), st.sampled_from([1, 7, 1000]))
def test_whatever_comes_is_an_answer_or_an_error_of_ours(junk: bytes, pieces: int) -> None:
    for data in (junk, answer("Transfer-Encoding: chunked", body=junk), answer(body=junk)):
        first, second, _ = asked_twice(data, pieces=pieces, closes=True)

        assert isinstance(first, FlinkRestError | int | float | str | list | dict | bool | type(None))
        assert second == "next"
