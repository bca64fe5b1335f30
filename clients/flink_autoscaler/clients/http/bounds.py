"""Bounds on answers: bytes after every step of decoding, values, depth, entries."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable
from itertools import accumulate
from typing import Final

from flink_autoscaler.core.errors import ResponseError

DEEPEST: Final = 64
"""Arrays and objects inside each other. Flink's answers have fewer than ten; those of a ResourceManager grow with the
depth of its queues, by two for each."""

MOST_VALUES: Final = 1_000_000
"""Values in one answer: each takes about 60 bytes once it is decoded, however short its text is."""

MOST_ENTRIES: Final = 100_000
"""Entries of one list of objects."""

_GZIP: Final = ("gzip", "x-gzip")
_DEFLATE: Final = "deflate"
_GZIP_WINDOW: Final = 16 + zlib.MAX_WBITS
_ZLIB_METHOD: Final = 8
_ZLIB_CHECK: Final = 31
_GOES_ON: Final = "the answer cannot be read (it goes on after the end of what is compressed)"
_NO_BRACKETS: Final = bytes(set(range(256)) - set(b"[]{}"))
_STEPS: Final = bytes.maketrans(b"[]{}", b"\x01\xff\x01\xff")
"""1 for a bracket that opens, -1 for one that closes."""

_TEXT: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+(?:"|\\?\Z)', re.DOTALL)
"""A text of JSON; one without an end reaches to the end of all, so that nothing is looked at twice."""


class BodyReader:
    """Puts an answer together, piece by piece, and gives up as soon as it is too long.

    The request asks for no encoding at all. A proxy that compresses nevertheless is understood, once: what is
    compressed twice has no other use than to become long. Counted are the bytes as they come and the bytes that they
    become, so that neither may be more than the limit.

    Args:
        encodings: Of ``Content-Encoding``, in the order applied.
        limit: Bytes.

    Raises:
        ResponseError: More encodings than one, or one that is not known.
    """

    def __init__(self, encodings: Iterable[str], limit: int) -> None:
        self._encoding = _only_encoding(encodings)
        self._limit = limit
        self._received = 0
        self._size = 0
        self._parts: list[bytes] = []
        self._inflater: zlib._Decompress | None = None

    def take(self, piece: bytes) -> None:
        """Take the next bytes of the body.

        Raises:
            ResponseError: It is longer than the limit, or not what the encoding says.
        """
        self._received += len(piece)
        if self._received > self._limit:
            raise self._too_long()
        decoded = piece if self._encoding is None else self._inflated(piece)
        self._size += len(decoded)
        if self._size > self._limit:
            raise self._too_long()
        self._parts.append(decoded)

    def taken(self) -> bytes:
        """Return what has been taken since this was asked last, for those who decode an answer piece by piece."""
        parts, self._parts = self._parts, []
        return b"".join(parts)

    def announced(self, length: str | None) -> None:
        """Take the length that the answer announces. Raises ResponseError: That is longer than the limit."""
        if (
            length is not None
            and length.isdecimal()
            and (len(length) > len(str(self._limit)) or int(length) > self._limit)
        ):
            raise self._too_long()

    def whole(self) -> bytes:
        """Return the body. Raises ResponseError: It ends in the middle of what is compressed."""
        if self._inflater is not None and not self._inflater.eof:
            raise ResponseError("the answer cannot be read (it ends in the middle of what is compressed)")
        if self._inflater is not None and self._inflater.unused_data:
            raise ResponseError(_GOES_ON)
        return b"".join(self._parts)

    def _inflated(self, piece: bytes) -> bytes:
        if not piece:
            return b""
        if self._inflater is None:
            self._inflater = zlib.decompressobj(_window(self._encoding or "", piece))
        if self._inflater.eof:
            raise ResponseError(_GOES_ON)
        try:
            # One byte more than allowed, which is too long then; what is left of the piece needs no look.
            return self._inflater.decompress(piece, self._limit - self._size + 1)
        except zlib.error as exc:
            raise ResponseError(f"the answer cannot be read ({exc})") from exc

    def _too_long(self) -> ResponseError:
        return ResponseError(f"the answer is longer than {self._limit} bytes")


def _only_encoding(encodings: Iterable[str]) -> str | None:
    names = [known for each in encodings if (known := each.strip().lower()) not in ("", "identity")]
    if len(names) > 1:
        raise ResponseError(f"the answer is encoded {len(names)} times ({', '.join(names)!r:.60}); once is taken")
    name = names[0] if names else None
    if name is not None and name not in (*_GZIP, _DEFLATE):
        raise ResponseError(f"the answer has the content encoding {name!r:.40}, which was not asked for")
    return name


def _window(encoding: str, first: bytes) -> int:
    """Return what zlib is told about a format; ``deflate`` is sent with and without the head of zlib."""
    if encoding in _GZIP:
        return _GZIP_WINDOW
    has_head = first[0] & 15 == _ZLIB_METHOD and (len(first) == 1 or int.from_bytes(first[:2]) % _ZLIB_CHECK == 0)
    return zlib.MAX_WBITS if has_head else -zlib.MAX_WBITS


def check_json(body: bytes) -> None:
    """Refuse JSON that would take far more memory than its length, or that is nested without end, undecoded.

    Raises:
        ResponseError: It has more than ``MOST_VALUES`` values, or is nested more deeply than ``DEEPEST``.
    """
    if len(body) <= MOST_VALUES and body.count(b"[") + body.count(b"{") <= DEEPEST:
        return
    brackets = body.translate(None, _NO_BRACKETS)
    # Those in texts count as well, which only makes the bound a little lower for a text full of them.
    if len(brackets) // 2 + body.count(b",") > MOST_VALUES:
        raise ResponseError(f"the answer has more than {MOST_VALUES} values")
    if (
        len(brackets) > DEEPEST
        and _depth(brackets) > DEEPEST
        and _depth(_TEXT.sub(b"", body).translate(None, _NO_BRACKETS)) > DEEPEST
    ):
        raise ResponseError(f"the answer is nested too deeply, more than {DEEPEST} levels")


def _depth(brackets: bytes) -> int:
    """Return how deeply brackets are nested."""
    steps = memoryview(brackets.translate(_STEPS)).cast("b")
    return max(accumulate(steps), default=0)
