"""One request to a JobManager, and how it goes over the wire."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import chain
from string import ascii_letters, digits
from typing import Final, NamedTuple
from urllib.parse import quote, urlencode

import httpx

from flink_autoscaler.clients.auth.authentication import KerberosProof
from flink_autoscaler.clients.http.connections import Address
from flink_autoscaler.core.errors import ResponseError

_PLAIN: Final = (ascii_letters + digits + "_.,~-").encode("ascii")
"""What needs no quoting in a query."""

_PLAIN_PATH: Final = re.compile(r"(?:/(?!\.)[A-Za-z0-9_.,~-]*)+")
"""A path that httpx would send as it is."""

_LONGEST_TARGET: Final = 1 << 15


class Sending(NamedTuple):
    """One way to send a request.

    Attributes:
        address: Base URL and headers.
        path: Path below the base URL, quoted, without query.
        query: Parameters; commas in values stay as they are.
        body: JSON of a PUT; None for a GET.
        seconds: What the whole exchange may take.
        proof: Shows the server who this side is, after it has asked.
        is_own: Whether it goes to the endpoint's base URL, whose cookies and credentials are for it alone.
    """

    address: Address
    path: str
    query: Mapping[str, str]
    body: bytes | None
    seconds: float
    proof: KerberosProof | None = None
    is_own: bool = True

    @property
    def method(self) -> str:
        """GET or PUT."""
        return "GET" if self.body is None else "PUT"

    @property
    def what(self) -> str:
        """Method and URL without the query, for messages."""
        return f"{self.method} {self.address.url}{self.path}"

    @property
    def url(self) -> str:
        """All of the URL."""
        return f"{self.address.url}{self.target}"

    @property
    def target(self) -> str:
        """Path and query below the base URL."""
        return f"{self.path}?{_query(self.query)}" if self.query else self.path


def _query(query: Mapping[str, str]) -> str:
    """Return parameters as they stand in a URL; those of nearly all requests need no quoting."""
    if all(map(_is_plain, chain(query.keys(), query.values()))):
        return "&".join(f"{name}={value}" for name, value in query.items())
    return urlencode(query, safe=",", quote_via=quote)


def _is_plain(text: str) -> bool:
    return text.isascii() and not text.encode("ascii").translate(None, _PLAIN)


def url_of(sending: Sending) -> httpx.URL:
    """Return the URL of a request. Raises ResponseError: A metric name of the cluster may be absurdly long."""
    try:
        return httpx.URL(sending.url)
    except httpx.InvalidURL as exc:
        raise ResponseError(
            f"{sending.method} {sending.address.url}: this URL cannot be sent ({exc}): {sending.url[:200]!r}"
        ) from exc


def target_of(sending: Sending) -> str:
    """Return path and query as they go over the wire; httpx looks only at paths that are not plain."""
    target = sending.target
    if len(target) <= _LONGEST_TARGET and _PLAIN_PATH.fullmatch(sending.path):
        return target
    base = httpx.URL(sending.address.url).raw_path.rstrip(b"/")
    return url_of(sending).raw_path.removeprefix(base).decode("ascii")


def head_of(address: Address) -> tuple[str, str]:
    """Return what is the same in all GETs to an address: the beginning of the path, and what follows the path."""
    request = httpx.Request("GET", address.url, headers=address.headers)
    lines = "".join(f"{name.decode('ascii')}: {value.decode('ascii')}\r\n" for name, value in request.headers.raw)
    return request.url.raw_path.decode("ascii").rstrip("/"), f" HTTP/1.1\r\n{lines}"
