"""Ways in which the fake cluster misbehaves."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, auto


class Fault(Enum):
    """What happens to a request instead of an answer."""

    RESET = auto()
    """The connection is reset."""
    HANG_UP = auto()
    """The connection is closed without an answer."""
    HANG = auto()
    """No answer, the connection stays open."""
    DRIP = auto()
    """The head, then one byte of the body every 20 ms."""
    HALF_CLOSE = auto()
    """Half of the announced body, then the connection is closed."""
    TRUNCATED_JSON = auto()
    """A complete answer whose JSON is cut in half."""
    NOT_HTTP = auto()
    """The greeting of another protocol."""
    HTML = auto()
    """A page for people with status 200, as proxies send it."""
    HUGE = auto()
    """10 MB of valid JSON, announced."""
    HUGE_CHUNKED = auto()
    """10 MB of valid JSON in chunks, not announced."""
    GZIP_BOMB = auto()
    """10 MB of valid JSON, compressed to some kilobytes."""
    EMPTY = auto()
    """Status 200 and nothing else."""


@dataclass(frozen=True)
class Canned:
    """A fixed answer."""

    body: bytes = b"{}"
    status: int = 200
    content_type: str | None = "application/json; charset=UTF-8"
    headers: Mapping[str, str] = field(default_factory=dict)
    chunked: bool = False

    @classmethod
    def json(cls, value: object, status: int = 200) -> Canned:
        """Make an answer from a value."""
        return cls(json.dumps(value).encode(), status)


HUGE_JSON = b'"' + b"x" * 10_000_000 + b'"'

CANNED = {
    Fault.HTML: Canned(b"<!DOCTYPE html><html><body>Please log in</body></html>", content_type="text/html"),
    Fault.HUGE: Canned(HUGE_JSON),
    Fault.HUGE_CHUNKED: Canned(HUGE_JSON, chunked=True),
    Fault.GZIP_BOMB: Canned(gzip.compress(HUGE_JSON, 1), headers={"Content-Encoding": "gzip"}),
    Fault.EMPTY: Canned(b""),
}


def flink_error(status: int, *errors: str) -> Canned:
    """Make an error answer in Flink's shape."""
    return Canned.json({"errors": list(errors)}, status)
