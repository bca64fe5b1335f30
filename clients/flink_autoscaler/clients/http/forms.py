"""Questions that are too long for a URL: a form is posted, and the answer is decoded while it comes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, Protocol, TypeVar

import httpx

from flink_autoscaler.clients.http.answers import Response, error_from_response, read_body, whole_body
from flink_autoscaler.clients.http.connections import base_address, context_of, httpx_transport
from flink_autoscaler.clients.http.failures import is_transient, wrap_transport_error
from flink_autoscaler.core.errors import AutoscalerError, ConnectError, FlinkRestError
from flink_autoscaler.core.model.job import Endpoint

LONGEST_REFUSAL: Final = 64 << 10
"""Bytes of an answer with an error status that are read."""

_WAIT: Final = 0.2
"""Seconds before a question that got no answer is asked for the second and last time."""


class BodyConsumer(Protocol):
    """Takes the body of an answer."""

    def take(self, piece: bytes) -> None:
        """Take the next bytes. May raise :class:`ResponseError`."""
        ...


S = TypeVar("S", bound=BodyConsumer)


_ESCAPES: Final = (*((each, f"%{ord(each):02X}") for each in "%&+;#=\r\n\t"), (" ", "+"))
"""What has a meaning in a form, and what stands for it; the sign of an escape is escaped first."""


def _escape(value: str) -> str:
    """Return a value as it stands in a form: what has a meaning there is escaped, which is all that servers ask for.

    The standard library's function looks at every character by itself, and a question names a thousand jobs.
    """
    for character, escape in _ESCAPES:
        value = value.replace(character, escape)
    return value


class _Transports(NamedTuple):
    """Connections that are kept, and such that are used for one question."""

    kept: httpx.AsyncBaseTransport
    fresh: httpx.AsyncBaseTransport


class FormTransport:
    """Posts forms to one server that only answers questions, so that asking twice does no harm.

    Belongs to the event loop that sends its first request. As many connections as may be used at once are kept for the
    next pass, so that TLS shakes hands once; one that turns out to be closed is no failure: a question that got no
    answer is asked once more, over a new connection. Redirects are not followed.

    Args:
        endpoint: The server, and the limits of requests. Of an answer ``max_response_bytes`` are read at most.

    Attributes:
        url: Base URL without credentials.

    Raises:
        ConfigError: The URL is none, or a header cannot be sent.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._address = base_address(endpoint)
        self.url = self._address.url
        self._places = asyncio.Semaphore(endpoint.max_connections)
        self._opening = asyncio.Lock()
        self._transports: _Transports | None = None
        self._has_answered = False

    async def post(self, path: str, form: Mapping[str, str], sink: Callable[[], S]) -> S:
        """Post a form and return what took the body of the answer. Without any answer it is posted once more.

        Args:
            path: Below the base URL, with a slash in front.
            form: Fields and their values.
            sink: Makes what takes the body of a successful answer, decompressed and piece by piece.

        Raises:
            ConnectError: No complete answer in time, or the server cannot be trusted.
            ResponseError: The answer is too long, or the sink does not take it.
            RefusedError: An HTTP error status.
            ConfigError: A file for TLS cannot be used.
        """
        what = f"POST {self.url}{path}"
        content = "&".join(f"{name}={_escape(value)}" for name, value in form.items()).encode("utf-8", "replace")
        try:
            async with asyncio.timeout(self._endpoint.timeout):
                return await self._post_with_retry(path, what, content, sink)
        except TimeoutError as exc:
            raise ConnectError(f"{what}: no complete answer within {self._endpoint.timeout:g} s") from exc

    async def aclose(self) -> None:
        """Close all connections. May be called more than once."""
        if self._transports is not None:
            await self._transports.kept.aclose()
            await self._transports.fresh.aclose()

    async def _post_with_retry(self, path: str, what: str, content: bytes, sink: Callable[[], S]) -> S:
        async with self._places:
            transports = self._transports or await self._open()
            try:
                return await self._exchange(transports.kept, path, what, content, sink())
            except FlinkRestError as error:
                if not is_transient(error):
                    raise
        await asyncio.sleep(_WAIT)
        async with self._places:
            return await self._exchange(transports.fresh, path, what, content, sink())

    async def _exchange(self, over: httpx.AsyncBaseTransport, path: str, what: str, content: bytes, sink: S) -> S:
        request = httpx.Request("POST", self.url + path, headers=self._address.headers, content=content)
        request.headers["Content-Type"] = "application/x-www-form-urlencoded"
        try:
            return await self._read_response(over, request, what, sink)
        except AutoscalerError:
            raise
        except Exception as exc:  # the border of a server: httpx, httpcore and zlib raise what they like
            is_untried = not self._has_answered and self.url.startswith("https:")
            has_certificate = self._endpoint.tls.certificate_file is not None
            raise wrap_transport_error(exc, what, is_tls_untried=is_untried, has_certificate=has_certificate) from exc

    async def _open(self) -> _Transports:
        """Read files, once; other questions wait meanwhile."""
        async with self._opening:
            if self._transports is None:
                context = await context_of(self._endpoint)
                kept = httpx_transport(context, kept=self._endpoint.max_connections)
                self._transports = _Transports(kept, httpx_transport(context))
        return self._transports

    async def _read_response(self, over: httpx.AsyncBaseTransport, request: httpx.Request, what: str, sink: S) -> S:
        response = await over.handle_async_request(request)
        try:
            self._has_answered = True
            if response.status_code >= httpx.codes.MULTIPLE_CHOICES:
                raise await _refusal_error(response, request, what)
            await read_body(response, self._endpoint.max_response_bytes, what, sink.take)
        finally:
            await response.aclose()
        return sink


async def _refusal_error(response: httpx.Response, request: httpx.Request, what: str) -> FlinkRestError:
    body, headers = await whole_body(response, LONGEST_REFUSAL, what), response.headers
    shown = request.headers.get("authorization", "").partition(" ")[0].lower()
    answer = Response(
        response.status_code,
        headers.get("content-type", ""),
        body,
        headers.get("location", ""),
        headers.get("www-authenticate", ""),
    )
    return error_from_response(answer, request.url.path, what, shown=[shown] if shown else [])
