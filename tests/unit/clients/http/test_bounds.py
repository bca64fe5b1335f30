"""How much of an answer is taken."""

from __future__ import annotations

import gzip
import json
import time
import zlib

import pytest

from flink_autoscaler.clients.http.bounds import DEEPEST, MAX_VALUES, BodyReader, check_json
from flink_autoscaler.core.errors import ResponseError

LIMIT = 10_000
TEXT = json.dumps({"text": "x" * 5000}).encode()


def read(body: bytes, *encodings: str, piece: int = 1 << 20, limit: int = LIMIT) -> bytes:
    reader = BodyReader(encodings, limit)
    for start in range(0, len(body), piece):
        reader.take(body[start : start + piece])
    return reader.whole()


def raw_deflate(body: bytes) -> bytes:
    deflater = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return deflater.compress(body) + deflater.flush()


@pytest.mark.parametrize("piece", [1, 7, 1 << 20])
@pytest.mark.parametrize(
    ("body", "encodings"),
    [
        pytest.param(TEXT, (), id="no header"),
        pytest.param(TEXT, ("identity",), id="identity"),
        pytest.param(gzip.compress(TEXT), ("gzip",), id="gzip"),
        pytest.param(gzip.compress(TEXT), ("identity", " X-GZIP "), id="gzip by its other name"),
        pytest.param(zlib.compress(TEXT), ("deflate",), id="deflate as it should be"),
        pytest.param(raw_deflate(TEXT), ("deflate",), id="deflate as many send it"),
    ],
)
def test_a_body_is_read_in_any_pieces(body: bytes, encodings: tuple[str, ...], piece: int) -> None:
    assert read(body, *encodings, piece=piece) == TEXT


@pytest.mark.parametrize(
    ("encodings", "message"),
    [
        pytest.param(("gzip", "gzip"), "encoded 2 times", id="twice"),
        pytest.param(("deflate", "identity", "gzip"), "encoded 2 times", id="two kinds"),
        pytest.param(("br",), "content encoding 'br', which was not asked for", id="not known"),
        pytest.param(("x" * 9000,), "content encoding 'xxxxx", id="no name at all"),
    ],
)
def test_other_encodings_are_refused_before_anything_is_decoded(encodings: tuple[str, ...], message: str) -> None:
    with pytest.raises(ResponseError, match=message) as raised:
        BodyReader(encodings, LIMIT)

    assert len(str(raised.value)) < 200


@pytest.mark.parametrize(
    ("body", "encodings"),
    [
        pytest.param(b"x" * (LIMIT + 1), (), id="plain"),
        pytest.param(gzip.compress(b"x" * (LIMIT + 1)), ("gzip",), id="once decompressed"),
        pytest.param(gzip.compress(b"x" * 100_000_000, 1), ("gzip",), id="ten thousand times as long"),
        pytest.param(
            raw_deflate(b"")[:-2] + b"\x00\x00\x00\xff\xff" * LIMIT, ("deflate",), id="without ever an output"
        ),
    ],
)
def test_a_body_that_is_too_long_is_given_up_at_once(body: bytes, encodings: tuple[str, ...]) -> None:
    started = time.process_time()

    with pytest.raises(ResponseError):
        read(body, *encodings)

    assert time.process_time() - started < 1.0


def test_a_body_of_exactly_the_limit_is_read() -> None:
    assert len(read(gzip.compress(b"x" * LIMIT), "gzip")) == LIMIT


@pytest.mark.parametrize("length", ["10001", "9" * 5000])
def test_an_announced_length_beyond_the_limit_is_not_waited_for(length: str) -> None:
    with pytest.raises(ResponseError, match="longer than 10000 bytes"):
        BodyReader((), LIMIT).check_announced(length)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(gzip.compress(TEXT)[:-9], id="ends early"),
        pytest.param(gzip.compress(TEXT) + b"more", id="goes on"),
        pytest.param(gzip.compress(TEXT) + gzip.compress(TEXT), id="another one behind"),
        pytest.param(b"junk", id="not gzip"),
    ],
)
@pytest.mark.parametrize("piece", [1, 1 << 20])
def test_broken_gzip_cannot_be_read(body: bytes, piece: int) -> None:
    with pytest.raises(ResponseError, match="cannot be read"):
        read(body, "gzip", piece=piece)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"[" * (DEEPEST + 1) + b"]" * (DEEPEST + 1), id="arrays"),
        pytest.param(b'{"a":' * (DEEPEST + 1) + b"1" + b"}" * (DEEPEST + 1), id="objects"),
        pytest.param(b"[" * 200_000, id="without an end"),
    ],
)
def test_deep_json_is_refused(body: bytes) -> None:
    with pytest.raises(ResponseError, match="nested too deeply"):
        check_json(body)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"[" * DEEPEST + b"]" * DEEPEST, id="as deep as allowed"),
        pytest.param(json.dumps(["[" * 5000, {'"\\[': "\\" * 9 + "{" * 5000}]).encode(), id="brackets in texts"),
        pytest.param(b"7", id="a number"),
        pytest.param(b"", id="nothing"),
    ],
)
def test_json_that_is_not_deep_is_taken(body: bytes) -> None:
    check_json(body)


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(b"[" + b"[]," * MAX_VALUES + b"[]]", id="arrays"),
        pytest.param(b"[" + b"0," * (MAX_VALUES + 1) + b"0]", id="numbers"),
    ],
)
def test_too_many_values_are_refused_before_they_are_decoded(body: bytes) -> None:
    with pytest.raises(ResponseError, match="more than 1000000 values"):
        check_json(body)
