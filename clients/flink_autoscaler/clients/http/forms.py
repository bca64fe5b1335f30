"""Questions that are too long for a URL: a form is posted, and the answer is decoded while it comes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Final, Protocol, TypeVar

import httpx

from flink_autoscaler.clients.http.answers import Answer, refusal
from flink_autoscaler.clients.http.bounds import BodyReader
from flink_autoscaler.clients.http.connections import Connections, address_of
from flink_autoscaler.clients.http.failures import is_transient, wrapped
from flink_autoscaler.core.errors import AutoscalerError, ConnectError, FlinkRestError, ResponseError
from flink_autoscaler.core.model.job import Endpoint

LONGEST_REFUSAL: Final = 64 << 10
"""Bytes of an answer with an error status that are read."""

_WAIT: Final = 0.2
"""Seconds before a question that got no answer is asked for the second and last time."""


class BodySink(Protocol):
    """Takes the body of an answer."""

    def take(self, piece: bytes) -> None:
        """Take the next bytes. May raise :class:`ResponseError`."""
        ...


S = TypeVar("S", bound=BodySink)


_ESCAPES: Final = str.maketrans({each: f"%{ord(each):02X}" for each in "%&+;#=\r\n\t"} | {" ": "+"})


def _escaped(value: str) -> str:
    """Return a value as it stands in a form: what has a meaning there is escaped, which is all that servers ask for.

    The standard library's function looks at every character by itself, and a question names a thousand jobs.
    """
    return value.translate(_ESCAPES)


class FormTransport:
    """Posts forms to one server that only answers questions, so that asking twice does no harm.

    Belongs to the event loop that sends its first request. Each goes over a connection of its own: there are a handful
    per pass, whatever the number of jobs. Redirects are not followed.

    Args:
        endpoint: The server, and the limits of requests. Of an answer ``max_response_bytes`` are read at most.

    Attributes:
        url: Base URL without credentials.

    Raises:
        ConfigError: The URL is none, or a header cannot be sent.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._address = address_of(endpoint)
        self.url = self._address.url
        self._places = asyncio.Semaphore(endpoint.max_connections)
        self._opening = asyncio.Lock()
        self._connections: Connections | None = None
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
        content = "&".join(f"{name}={_escaped(value)}" for name, value in form.items()).encode("utf-8", "replace")
        try:
            async with asyncio.timeout(self._endpoint.timeout):
                return await self._patiently(path, what, content, sink)
        except TimeoutError as exc:
            raise ConnectError(f"{what}: no complete answer within {self._endpoint.timeout:g} s") from exc

    async def aclose(self) -> None:
        """Close all connections. May be called more than once."""
        if self._connections is not None:
            await self._connections.aclose()

    async def _patiently(self, path: str, what: str, content: bytes, sink: Callable[[], S]) -> S:
        try:
            return await self._exchange(path, what, content, sink())
        except FlinkRestError as error:
            if not is_transient(error):
                raise
        await asyncio.sleep(_WAIT)
        return await self._exchange(path, what, content, sink())

    async def _exchange(self, path: str, what: str, content: bytes, sink: S) -> S:
        async with self._places:
            connections = self._connections or await self._open()
            request = httpx.Request("POST", self.url + path, headers=self._address.headers, content=content)
            request.headers["Content-Type"] = "application/x-www-form-urlencoded"
            try:
                return await self._answered(connections, request, what, sink)
            except AutoscalerError:
                raise
            except Exception as exc:  # the border of a server: httpx, httpcore and zlib raise what they like
                is_untried = not self._has_answered and self.url.startswith("https:")
                has_certificate = self._endpoint.tls.certificate_file is not None
                raise wrapped(exc, what, is_tls_untried=is_untried, has_certificate=has_certificate) from exc

    async def _open(self) -> Connections:
        async with self._opening:
            if self._connections is None:
                self._connections = await Connections.open(self._endpoint)
        return self._connections

    async def _answered(self, connections: Connections, request: httpx.Request, what: str, sink: S) -> S:
        response = await connections.writing.handle_async_request(request)
        try:
            self._has_answered = True
            if response.status_code >= httpx.codes.MULTIPLE_CHOICES:
                raise await self._refused(response, request, what)
            await self._hand_on(response, what, sink)
        finally:
            await response.aclose()
        return sink

    async def _hand_on(self, response: httpx.Response, what: str, sink: BodySink) -> None:
        try:
            reader = self._reader(response, self._endpoint.max_response_bytes)
            async for piece in response.aiter_raw():
                reader.take(piece)
                sink.take(reader.taken())
            reader.whole()
        except ResponseError as exc:
            raise ResponseError(f"{what}: {exc}") from exc

    async def _refused(self, response: httpx.Response, request: httpx.Request, what: str) -> FlinkRestError:
        reader = self._reader(response, LONGEST_REFUSAL)
        async for piece in response.aiter_raw():
            reader.take(piece)
        headers = response.headers
        shown = request.headers.get("authorization", "").partition(" ")[0].lower()
        answer = Answer(
            response.status_code,
            headers.get("content-type", ""),
            reader.whole(),
            headers.get("location", ""),
            headers.get("www-authenticate", ""),
        )
        return refusal(answer, request.url.path, what, shown=[shown] if shown else [])

    @staticmethod
    def _reader(response: httpx.Response, limit: int) -> BodyReader:
        reader = BodyReader(response.headers.get_list("content-encoding", split_commas=True), limit)
        reader.announced(response.headers.get("content-length"))
        return reader
