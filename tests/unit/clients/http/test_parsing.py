"""Answers of HTTP/1.1, whole and in pieces, and what is none."""

from __future__ import annotations

import gzip

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flink_autoscaler.clients.http.parsing import LONGEST_HEAD, MAX_INTERIM, AnswerParser, RawResponse
from flink_autoscaler.core.errors import ResponseError

LIMIT = 10_000
ZIPPED = gzip.compress(b'{"a": 1}')


def parsed(data: bytes, *, size: int = 1 << 20, closes: bool = False) -> RawResponse | None:
    parser, received = AnswerParser(LIMIT), None
    for start in range(0, len(data), size):
        assert received is None
        received = parser.feed(data[start : start + size])
    return parser.end() if closes else received


def answer(*fields: str, body: bytes = b"", status: str = "200 OK", version: str = "1.1", end: str = "\r\n") -> bytes:
    return end.join([f"HTTP/{version} {status}", *fields, "", ""]).encode("latin-1") + body


ANSWERS = [
    pytest.param(answer("Transfer-Encoding: chunked", body=b"2\r\n{}\r\n0\r\n\r\n"), b"{}", True, id="one chunk"),
    pytest.param(answer("Content-Length: 2", body=b"{}"), b"{}", True, id="length"),
    pytest.param(answer("content-length:2", body=b"{}", end="\n"), b"{}", True, id="lines without carriage return"),
    pytest.param(answer("Content-Length: 2, 2", "Content-Length: 2", body=b"{}"), b"{}", True, id="one length, often"),
    pytest.param(answer("Content-Length: 0", status="200"), b"", True, id="no reason, no body"),
    pytest.param(answer(status="204 No Content"), b"", True, id="no content"),
    pytest.param(
        answer("Transfer-Encoding: Chunked", body=b"1\r\n{\r\n1;x=y\r\n}\r\n0\r\n\r\n"), b"{}", True, id="chunks"
    ),
    pytest.param(
        answer("Transfer-Encoding: chunked", body=b"2\n{}\n0\nDigest: x\n\n"), b"{}", True, id="fields after chunks"
    ),
    pytest.param(answer("Connection: Close", "Content-Length: 1", body=b"7"), b"7", False, id="the last answer"),
    pytest.param(answer("Content-Length: 1", body=b"7", version="1.0"), b"7", False, id="HTTP/1.0"),
    pytest.param(
        answer("Content-Length: 1", "Connection: keep-alive", body=b"7", version="1.0"), b"7", True, id="1.0, kept"
    ),
    pytest.param(
        answer("Content-Encoding: gzip", f"Content-Length: {len(ZIPPED)}", body=ZIPPED), b'{"a": 1}', True, id="gzip"
    ),
    pytest.param(
        answer(status="100 Continue") + answer("Link: x", status="103") + answer("Content-Length: 1", body=b"7"),
        b"7",
        True,
        id="behind interim answers",
    ),
]


@pytest.mark.parametrize(("data", "body", "is_kept"), ANSWERS)
@pytest.mark.parametrize("size", [1, 7, 1 << 20])
def test_an_answer_is_read_in_any_pieces(data: bytes, body: bytes, is_kept: bool, size: int) -> None:
    received = parsed(data, size=size)

    assert received is not None
    assert (received.body, received.head.is_kept) == (body, is_kept)


@pytest.mark.parametrize("size", [1, 1 << 20])
def test_an_answer_without_length_ends_with_its_connection(size: int) -> None:
    received = parsed(answer("Content-Type: application/json", body=b"{}"), size=size, closes=True)

    assert received is not None
    assert (received.body, received.head.is_kept) == (b"{}", False)


@pytest.mark.parametrize(
    "data",
    [answer("Content-Length: 3", body=b"{}"), answer("Transfer-Encoding: chunked", body=b"2\r\n{}\r\n"), b"HTTP/1.1 2"],
    ids=["length", "chunks", "head"],
)
def test_an_answer_that_is_cut_off_is_none(data: bytes) -> None:
    assert parsed(data, closes=True) is None


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"SSH-2.0-OpenSSH_9.2\r\n", id="another protocol"),
        pytest.param(b"HTTP/2 200\r\n\r\n", id="another version"),
        pytest.param(answer("Content-Length: 1", "Content-Length: 2", body=b"77"), id="two lengths"),
        pytest.param(answer("Content-Length: 1, 2", body=b"77"), id="two lengths in one field"),
        pytest.param(answer("Content-Length: -1"), id="less than nothing"),
        pytest.param(answer("Content-Length: +1", body=b"7"), id="length with a sign"),
        pytest.param(
            answer("Content-Length: 1", "Transfer-Encoding: chunked", body=b"0\r\n\r\n"), id="length and chunks"
        ),
        pytest.param(answer("Transfer-Encoding: gzip, chunked", body=b"0\r\n\r\n"), id="another transfer encoding"),
        pytest.param(answer("Transfer-Encoding: chunked", body=b"x\r\n"), id="chunk without length"),
        pytest.param(answer("Transfer-Encoding: chunked", body=b"-1\r\n"), id="chunk of less than nothing"),
        pytest.param(answer("Transfer-Encoding: chunked", body=b"1\r\n77\r\n"), id="chunk longer than announced"),
        pytest.param(answer("Transfer-Encoding: chunked", body=b"1;" + b"x" * 2000), id="chunk with a long line"),
        pytest.param(answer("Transfer-Encoding: chunked", body=b"0\r\n no field\r\n\r\n"), id="no field after chunks"),
        pytest.param(answer("X: a", " folded", "Content-Length: 0"), id="field in two lines"),
        pytest.param(answer("Content-Length : 0"), id="blank in a name"),
        pytest.param(answer("X: \0", "Content-Length: 0"), id="NUL"),
        pytest.param(answer("X: a\rb", "Content-Length: 0"), id="carriage return alone"),
        pytest.param(answer(f"X: {'x' * 9000}"), id="long line"),
        pytest.param(answer(*[f"X: {'x' * 8000}"] * 9), id="long head"),
        pytest.param(b"HTTP/1.1 200 " + b"x" * (LONGEST_HEAD + 1), id="head without end"),
        pytest.param(answer(status="101 Switching Protocols"), id="switching protocols"),
        pytest.param(answer(status="100 Continue") * (MAX_INTERIM + 1), id="interim answers without end"),
        pytest.param(answer("Content-Encoding: br", "Content-Length: 1", body=b"7"), id="encoding nobody asked for"),
    ],
)
@pytest.mark.parametrize("size", [1, 1 << 20])
def test_what_is_no_answer_is_refused(data: bytes, size: int) -> None:
    with pytest.raises(ResponseError):
        parsed(data, size=size)


def test_more_than_was_announced_is_refused() -> None:
    with pytest.raises(ResponseError, match="goes on after its end"):
        parsed(answer("Content-Length: 1", body=b"77"))


def test_a_refusal_that_goes_on_is_the_last_of_its_connection() -> None:
    found = parsed(answer("Content-Length: 1", body=b"77", status="301 Moved Permanently"))

    assert found is not None
    assert (found.head.status, found.body, found.head.is_kept) == (301, b"7", False)


@pytest.mark.parametrize(
    "data",
    [
        answer(f"Content-Length: {LIMIT + 1}"),
        answer("Transfer-Encoding: chunked", body=b"fffffff\r\n" + b"x" * (LIMIT + 1)),
        answer(body=b"x" * (LIMIT + 1)),
        answer(f"Content-Length: {LIMIT + 1}", body=b"x" * (LIMIT + 1)),
        answer("Transfer-Encoding: chunked", body=b"%x\r\n%b\r\n0\r\n\r\n" % (LIMIT + 1, b"x" * (LIMIT + 1))),
    ],
    ids=["announced", "in chunks", "without length", "whole", "whole in a chunk"],
)
def test_an_answer_that_is_too_long_is_given_up_at_once(data: bytes) -> None:
    with pytest.raises(ResponseError, match="longer than 10000 bytes"):
        parsed(data)


def test_fields_are_told_by_their_names_in_any_case() -> None:
    received = parsed(answer("SET-COOKIE: a=1 ", "Set-Cookie:\tb=2", "Location: /ä", "Content-Length: 0"))

    assert received is not None
    assert received.head.texts(b"set-cookie") == ["a=1", "b=2"]
    assert received.head.text(b"location") == "/ä"
    assert received.head.text(b"content-type") == ""


@given(st.binary(max_size=200), st.integers(1, 50))
def test_whatever_comes_is_an_answer_or_a_response_error(junk: bytes, size: int) -> None:
    for data in (junk, answer("Transfer-Encoding: chunked", body=junk), answer(body=b"") + junk):
        try:
            parsed(data, size=max(size, len(data) // 50), closes=True)
        except (ResponseError, AssertionError):  # the latter: it went on after its end
            continue
