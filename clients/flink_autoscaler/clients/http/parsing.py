"""Answers of HTTP/1.1, read from the bytes of one connection. Nothing is guessed.

What does not clearly tell where it ends is refused: two lengths that differ, a length beside chunks, another transfer
encoding than ``chunked``; and so is a head that is none, such as one with a field folded into two lines. A line may end
without its carriage return.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, NamedTuple, Protocol

from flink_autoscaler.clients.http.bounds import BodyReader
from flink_autoscaler.core.errors import ResponseError

LONGEST_LINE: Final = 8190
"""Bytes of the status line, and of one field of the head."""

LONGEST_HEAD: Final = 1 << 16
"""Bytes of a head, and of the fields that may follow a body in chunks."""

MOST_INTERIM: Final = 16
"""Answers ahead of the real one, which only tell that it is on its way."""

_LONGEST_CHUNK_LINE: Final = 1024
_KEPT_HEADS: Final = 64
_SWITCHING: Final = 101
_FINAL: Final = 200
_WITHOUT_BODY: Final = (204, 304)

_FIELDS: Final = rb"((?:[!#$%&'*+\-.^_`|~0-9A-Za-z]++:[^\r\n\0]*+\r?\n)*+)\r?\n"
_HEAD: Final = re.compile(rb"HTTP/1\.([01]) ([1-9][0-9]{2})(?: [^\r\n\0]*+)?\r?\n" + _FIELDS)
_AFTER_CHUNKS: Final = re.compile(_FIELDS)
_FIELD: Final = re.compile(rb"^([^:\n]++):[ \t]*+([^\r\n]*)", re.MULTILINE)
_END_OF_HEAD: Final = re.compile(rb"\n\r?\n")
_PLAIN_END: Final = b"\r\n\r\n"
_LAST_CHUNK: Final = b"\r\n0\r\n\r\n"
_LONG_LINE: Final = re.compile(rb"[^\n]{%d}" % (LONGEST_LINE + 1))
_CHUNK: Final = re.compile(rb"([0-9A-Fa-f]{1,15})[ \t]*+(?:;[^\r\n\0]*+)?\r?\n")
_LINE_END: Final = re.compile(rb"\r?\n")
_LENGTH: Final = re.compile(r"[0-9]{1,18}")

_READ: Final = frozenset(
    {
        b"connection",
        b"content-encoding",
        b"content-length",
        b"content-type",
        b"location",
        b"set-cookie",
        b"transfer-encoding",
        b"www-authenticate",
    }
)
"""Fields of the head that mean something here."""


REFUSALS: Final = 300
"""Status from which on an answer is no data."""


class Head(NamedTuple):
    """The head of an answer, which answers have in common: it is not to be changed.

    Attributes:
        status: The code of HTTP.
        fields: Those that mean something here, by name in lower case; the values as they were sent.
        is_kept: Whether the connection goes on after the answer.
    """

    status: int
    fields: dict[bytes, list[bytes]]
    is_kept: bool

    def text(self, name: bytes) -> str:
        """Return a field as a text, several joined by commas; empty where there is none."""
        values = self.fields.get(name)
        return "" if values is None else _text(b", ".join(values))

    def texts(self, name: bytes) -> list[str]:
        """Return a field as often as it was sent."""
        return [_text(value) for value in self.fields.get(name, ())]


class Received(NamedTuple):
    """A complete answer; the body is decompressed."""

    head: Head
    body: bytes


class AnswerParser:
    """Reads one answer. Bytes beyond it, which nobody has asked for, are an error, or the end after a refusal.

    Args:
        limit: Bytes of the body at most, as sent and decompressed.
    """

    __slots__ = ("_begun", "_buffer", "_interim", "_limit")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._buffer = b""
        self._begun: _Begun | None = None
        self._interim = 0

    @property
    def is_begun(self) -> bool:
        """True once any part of an answer has arrived."""
        return bool(self._buffer or self._interim or self._begun)

    def feed(self, data: bytes) -> Received | None:
        """Take the next bytes; return the answer when it is complete.

        Raises:
            ResponseError: They are none of an answer, or it is too long.
        """
        if not self.is_begun and (plain := _in_one_piece(data, self._limit)) is not None:
            return plain
        known = len(self._buffer)
        self._buffer = self._buffer + data if known else data
        if self._begun is None:
            self._begun = self._read_head(known)
            if self._begun is None:
                return None
        head, body, framing = self._begun
        self._buffer, is_complete = framing.read(self._buffer, body)
        if not is_complete:
            return None
        if not self._buffer:
            return Received(head, body.whole())
        if head.status < REFUSALS:
            raise unreadable("it goes on after its end")
        return Received(
            head._replace(is_kept=False), body.whole()
        )  # as Flink sends whoever speaks HTTP to its TLS away

    def end(self) -> Received | None:
        """Return the answer where it ends with the connection; None where it is cut off by that.

        Raises:
            ResponseError: It ends in the middle of what is compressed.
        """
        if self._begun is None or not isinstance(self._begun.framing, _Unended):
            return None
        return Received(self._begun.head, self._begun.body.whole())

    def _read_head(self, known: int) -> _Begun | None:
        """Read heads up to that of the real answer; return None while that is not there.

        Of what was there before, ``known`` bytes, nothing is looked at twice but the start and the end.
        """
        while (end := _END_OF_HEAD.search(self._buffer, max(0, known - 2))) is not None:
            head, known = _head(self._buffer[: end.end()]), 0
            if head is None:
                break
            self._buffer = self._buffer[end.end() :]
            if head.status >= _FINAL:
                return _begin(head, self._limit)
            self._interim += 1
            if head.status == _SWITCHING or self._interim > MOST_INTERIM:
                raise unreadable(f"HTTP {head.status} is no answer")
        _check_beginning(self._buffer)
        return None


class _Framing(Protocol):
    """Tells where a body ends."""

    def read(self, data: bytes, body: BodyReader) -> tuple[bytes, bool]:
        """Hand on what belongs to the body; return what is left, and whether the body is complete."""
        ...


class _Begun(NamedTuple):
    """An answer whose head is known."""

    head: Head
    body: BodyReader
    framing: _Framing


class _Sized:
    """The head has told the length."""

    __slots__ = ("_left",)

    def __init__(self, length: int) -> None:
        self._left = length

    def read(self, data: bytes, body: BodyReader) -> tuple[bytes, bool]:
        """See :class:`_Framing`."""
        piece = data[: self._left]
        body.take(piece)
        self._left -= len(piece)
        return data[len(piece) :], self._left == 0


class _Unended:
    """The body ends with the connection."""

    __slots__ = ()

    def read(self, data: bytes, body: BodyReader) -> tuple[bytes, bool]:
        """See :class:`_Framing`."""
        body.take(data)
        return b"", False


class _Chunked:
    """The body comes in pieces, each behind its length; the last one is empty."""

    __slots__ = ("_is_last", "_left")

    def __init__(self) -> None:
        self._left: int | None = None  # of the piece that is read; 0 where the end of its line is to come
        self._is_last = False

    def read(self, data: bytes, body: BodyReader) -> tuple[bytes, bool]:
        """See :class:`_Framing`."""
        at = 0
        while not self._is_last:
            after = self._step(data, at, body)
            if after == at:
                return data[at:], False
            at = after
        return self._read_rest(data[at:])

    def _step(self, data: bytes, at: int, body: BodyReader) -> int:
        """Read a length, a piece or the end of its line; return where to go on, the same place for want of bytes."""
        if self._left is None:
            return self._read_length(data, at)
        if self._left:
            piece = data[at : at + self._left]
            body.take(piece)
            self._left -= len(piece)
            return at + len(piece)
        found = _LINE_END.match(data, at)
        if found is None:
            if data[at : at + 2] not in (b"", b"\r"):
                raise unreadable("a piece of it is longer than announced")
            return at
        self._left = None
        return found.end()

    def _read_length(self, data: bytes, at: int) -> int:
        found = _CHUNK.match(data, at)
        if found is None:
            if len(data) - at > _LONGEST_CHUNK_LINE or b"\n" in data[at:]:
                raise unreadable("a piece of it has no length")
            return at
        self._left = int(found[1], 16)
        self._is_last = self._left == 0
        return found.end()

    @staticmethod
    def _read_rest(data: bytes) -> tuple[bytes, bool]:
        """Pass over the fields after the last piece."""
        found = _AFTER_CHUNKS.match(data)
        if found is not None:
            return data[found.end() :], True
        if len(data) > LONGEST_HEAD or _END_OF_HEAD.search(data):
            raise unreadable("what follows its last piece is none of it")
        return data, False


def _in_one_piece(data: bytes, limit: int) -> Received | None:
    """Return an answer that came at once and is as plain as nearly all are; None for any other."""
    start = data.find(_PLAIN_END) + len(_PLAIN_END)
    plain = _plain_head(data[:start])
    if plain is None:
        return None
    if plain.length is None:
        return _in_one_chunk(plain.head, data, start, limit)
    return Received(plain.head, data[start:]) if len(data) - start == plain.length <= limit else None


def _in_one_chunk(head: Head, data: bytes, start: int, limit: int) -> Received | None:
    """Return an answer whose body, from ``start`` on, is one chunk; None for any other."""
    line = _CHUNK.match(data, start)
    if line is None:
        return None
    length, start = int(line[1], 16), line.end()
    is_whole = 0 < length <= limit and data[start + length :] == _LAST_CHUNK
    return Received(head, data[start : start + length]) if is_whole else None


class _PlainHead(NamedTuple):
    """The head of data that are sent as they are, and how many bytes follow; None for chunks."""

    head: Head
    length: int | None


@lru_cache(_KEPT_HEADS)
def _plain_head(data: bytes) -> _PlainHead | None:
    """Return what the bytes of a head say; None where they are none, or anything is to be done with what follows."""
    head = _head(data)
    if head is None or not _FINAL <= head.status < REFUSALS or head.status in _WITHOUT_BODY:
        return None
    length, coding = head.text(b"content-length"), head.text(b"transfer-encoding").lower()
    if head.text(b"content-encoding"):
        return None
    if coding == "chunked" and not length:
        return _PlainHead(head, None)
    return None if coding or _LENGTH.fullmatch(length) is None else _PlainHead(head, int(length))


def unreadable(why: str) -> ResponseError:
    """Make the error for what is no answer."""
    return ResponseError(f"the answer cannot be read ({why})")


def _begin(head: Head, limit: int) -> _Begun:
    body = BodyReader(head.text(b"content-encoding").split(","), limit)
    framing = _framing(head, body)
    return _Begun(head._replace(is_kept=False) if isinstance(framing, _Unended) else head, body, framing)


def _framing(head: Head, body: BodyReader) -> _Framing:
    """Return what tells where the body of an answer ends."""
    coding, length = head.text(b"transfer-encoding").lower(), head.text(b"content-length")
    if head.status in _WITHOUT_BODY:
        return _Sized(0)
    if coding:
        if coding != "chunked" or length:
            raise unreadable("it does not tell clearly where it ends")
        return _Chunked()
    if not length:
        return _Unended()
    [known, *others] = {each.strip() for each in length.split(",")}
    body.announced(known)
    if others or _LENGTH.fullmatch(known) is None:
        raise unreadable("it does not tell clearly how long it is")
    return _Sized(int(known))


@lru_cache(_KEPT_HEADS)
def _head(data: bytes) -> Head | None:
    """Return what the bytes of a head say; None where they are none. Many answers have the same."""
    found = _HEAD.fullmatch(data)
    if found is None:
        return None
    _check_lines(data)
    fields: dict[bytes, list[bytes]] = {}
    for name, value in _FIELD.findall(found[3]):
        lower = name.lower()
        if lower in _READ:
            fields.setdefault(lower, []).append(value.rstrip())
    connection = b",".join(fields.get(b"connection", ())).lower()
    is_kept = b"close" not in connection and (found[1] == b"1" or b"keep-alive" in connection)
    return Head(int(found[2]), fields, is_kept)


def _check_lines(data: bytes) -> None:
    if len(data) > LONGEST_HEAD:
        raise unreadable(f"its head has more than {LONGEST_HEAD} bytes")
    if len(data) > LONGEST_LINE and _LONG_LINE.search(data):
        raise unreadable(f"a line of its head has more than {LONGEST_LINE} bytes")


def _check_beginning(data: bytes) -> None:
    """Refuse what will never be a head, however it goes on."""
    if len(data) > LONGEST_HEAD:
        raise unreadable(f"its head has more than {LONGEST_HEAD} bytes")
    if not data.startswith(b"HTTP/1."[: len(data)]) or _END_OF_HEAD.search(data):
        raise unreadable("it is no HTTP")


def _text(value: bytes) -> str:
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        return value.decode("latin-1")
