"""Exceptions of the HTTP libraries, put into our tree and into words of an operator."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import aiohttp
import httpx

from flink_autoscaler.clients.auth import tls_failures
from flink_autoscaler.core.errors import ConnectError, FlinkRestError, RefusedError, ResponseError

FOREIGN_ERRORS: Final = (
    httpx.HTTPError,
    httpx.InvalidURL,
    httpx.StreamError,
    aiohttp.ClientError,
    OSError,
    ValueError,
)
"""What sending a request and reading its answer may raise."""

_UNREADABLE: Final = (httpx.DecodingError, aiohttp.ClientResponseError)
"""Not HTTP, or not compressed as announced."""

_CLOSED: Final = (
    aiohttp.ServerDisconnectedError,
    ConnectionResetError,
    BrokenPipeError,
    httpx.ReadError,
    httpx.WriteError,
)
"""The other side has ended the connection."""

_TRANSIENT_STATUSES: Final = frozenset({502, 503, 504})


def is_transient(error: Exception) -> bool:
    """Whether asking again at once may help."""
    if isinstance(error, ConnectError):
        return not any(isinstance(each, ssl.SSLCertVerificationError) for each in _chain(error))
    return isinstance(error, RefusedError) and error.status in _TRANSIENT_STATUSES


def wrapped(error: Exception, what: str, *, is_tls_untried: bool, has_certificate: bool) -> FlinkRestError:
    """Make our error of one of ``FOREIGN_ERRORS``.

    Args:
        error: As caught.
        what: Method and URL, for messages.
        is_tls_untried: Whether the connection is one with TLS to a server that has never answered so far.
        has_certificate: Whether a client certificate is offered there.
    """
    chain = list(_chain(error))
    if any(isinstance(each, _UNREADABLE) for each in chain):
        return ResponseError(f"{what}: the answer cannot be read ({_described(chain[-1])})")
    for each in chain:
        # aiohttp's own subclasses of ssl.SSLError lack the details.
        if isinstance(each, ssl.SSLError) and not isinstance(each, aiohttp.ClientError):
            return ConnectError(f"{what}: {tls_failures.explained(each, has_certificate=has_certificate)}")
    hint = (
        tls_failures.closed_by_server(has_certificate=has_certificate) if is_tls_untried and _is_closed(chain) else ""
    )
    return ConnectError(f"{what}: {_cause(chain)}{hint}")


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _is_closed(chain: Iterable[BaseException]) -> bool:
    return any(isinstance(each, _CLOSED) or _is_hang_up(each) for each in chain)


def _is_hang_up(error: BaseException) -> bool:
    """Whether httpcore says, in words only, that the server ended the connection instead of answering."""
    return isinstance(error, httpx.RemoteProtocolError) and "disconnected" in str(error)


def _is_cut_off(error: BaseException) -> bool:
    """Whether httpcore says, in words only, that the answer ended early."""
    return isinstance(error, httpx.RemoteProtocolError) and "peer closed connection" in str(error)


def _cause(chain: Sequence[BaseException]) -> str:
    known = next(filter(None, map(_known_cause, chain)), "")
    return known or ("the connection was closed" if _is_closed(chain) else _described(chain[-1]))


def _known_cause(error: BaseException) -> str:
    if isinstance(error, ConnectionRefusedError):
        return "connection refused"
    if isinstance(error, socket.gaierror):
        return f"the host name is not known ({error.strerror})"
    if isinstance(error, ConnectionResetError | BrokenPipeError):
        return "the connection was reset by the server"
    if isinstance(error, aiohttp.ServerDisconnectedError) or _is_hang_up(error):
        return "the connection was closed without an answer"
    if isinstance(error, aiohttp.ClientPayloadError) or _is_cut_off(error):
        return "the connection was closed in the middle of the answer"
    return ""


def _described(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split()) or 'no details'}"
