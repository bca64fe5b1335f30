"""Requests to a JobManager, bounded in time, size and number. The only module that knows httpx."""

from __future__ import annotations

import asyncio
import base64
import socket
import ssl
from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Final
from urllib.parse import quote, unquote, urlencode, urlsplit, urlunsplit

import aiohttp
import httpx
import stamina
from httpx_aiohttp import AiohttpTransport

from flink_autoscaler.clients.answers import Answer, json_of
from flink_autoscaler.clients.refusals import refusal
from flink_autoscaler.core.errors import (
    ConfigError,
    ConnectError,
    FlinkRestError,
    NotLeaderError,
    RefusedError,
    ResponseError,
)
from flink_autoscaler.core.job import Endpoint

ATTEMPTS: Final = 3
"""Times that a GET is tried; aiohttp itself repeats one at once when a kept connection turns out to be closed."""

KEEP_ALIVE: Final = 60.0
"""Seconds that an idle connection is kept: longer than a usual pass interval, shorter than Flink's five minutes."""

MayWrite = Callable[[float], bool]
"""Tells whether something may be changed by a request that takes at most so many seconds."""

_LAST_MOMENTS: Final = ("http11.send_request_headers.started", "http11.send_request_body.started")
"""After them the bytes go to the socket at once; a PUT without its body is no request yet."""

_TRANSIENT_STATUSES: Final = frozenset({502, 503, 504})
_FOREIGN_ERRORS: Final = (
    httpx.HTTPError,
    httpx.InvalidURL,
    httpx.StreamError,
    aiohttp.ClientError,
    OSError,
    ValueError,
)
_UNREADABLE: Final = (httpx.DecodingError, aiohttp.ClientResponseError)
"""Not HTTP, or not compressed as announced."""

_retries = stamina.AsyncRetryingCaller(
    attempts=ATTEMPTS, timeout=None, wait_initial=0.05, wait_max=0.5, wait_jitter=0.05
)


class HttpTransport:
    """Speaks JSON with one JobManager.

    Belongs to the event loop that sends its first request. Connections are kept open between requests. Redirects
    are not followed: Flink sends none, and a proxy's lead to pages for people.

    Args:
        endpoint: The JobManager, and the limits of requests.
        may_write: Asked immediately before a request that changes something is sent.

    Attributes:
        url: Base URL without credentials.
    """

    def __init__(self, endpoint: Endpoint, *, may_write: MayWrite = lambda _: True) -> None:
        self._endpoint = endpoint
        self._may_write = may_write
        self.url, self._headers = _base_and_headers(endpoint)
        self._slots = asyncio.Semaphore(endpoint.max_connections)
        context = httpx.create_ssl_context() if self.url.startswith("https:") else False
        # The transports are used without httpx.AsyncClient: its redirects, cookies, authentication and log line per
        # request are not wanted here, and cost a third of the time of a request.
        self._reading = _KeptConnections(context)
        # aiohttp silently repeats a PUT after a lost connection, httpcore does not; and a fresh connection per PUT
        # cannot be one that the server is just about to close.
        self._writing = httpx.AsyncHTTPTransport(
            verify=context, trust_env=False, limits=httpx.Limits(max_keepalive_connections=0)
        )

    async def get_json(
        self, path: str, *, params: Mapping[str, str] | None = None, timeout: float | None = None
    ) -> object:
        """Return the decoded answer of a GET. Transient failures are retried twice within the deadline.

        Args:
            path: Below the base URL, with a slash in front, already quoted.
            params: Query parameters; commas in values stay as they are.
            timeout: Seconds for everything, also for waiting for a free connection and for retries; the endpoint's
                timeout when None.

        Raises:
            ConnectError: No complete answer in time.
            ResponseError: The answer is too large, not JSON or not decodable.
            RefusedError: An HTTP error status; :class:`JobGoneError` when the job is unknown.
        """
        url = f"{self.url}{path}?{urlencode(params, safe=',', quote_via=quote)}" if params else self.url + path
        request = self._request("GET", url)
        seconds = self._endpoint.timeout if timeout is None else timeout
        try:
            async with asyncio.timeout(seconds):
                answer = await _retries(_is_transient, self._exchange, self._reading, request, path)
        except TimeoutError as exc:
            raise ConnectError(f"{self._what(request, path)}: no complete answer within {seconds:g} s") from exc
        return json_of(answer, self._what(request, path))

    async def put_json(self, path: str, body: object, *, timeout: float | None = None) -> object:
        """Return the decoded answer of a PUT, None when it is empty. Never sent twice.

        Args:
            path: As for :meth:`get_json`.
            body: Sent as JSON.
            timeout: As for :meth:`get_json`.

        Raises:
            FlinkRestError: As for :meth:`get_json`. After a ConnectError or ResponseError the change may have
                been accepted nevertheless.
            NotLeaderError: It may not be sent now, and was not.
        """
        seconds = self._endpoint.timeout if timeout is None else timeout
        request = self._request("PUT", self.url + path, json=body)
        request.extensions["trace"] = self._guard(self._what(request, path), seconds)
        try:
            async with asyncio.timeout(seconds):
                answer = await self._exchange(self._writing, request, path)
        except TimeoutError as exc:
            raise ConnectError(f"{self._what(request, path)}: no complete answer within {seconds:g} s") from exc
        return json_of(answer, self._what(request, path)) if answer.body else None

    async def aclose(self) -> None:
        """Close all connections. May be called more than once."""
        await self._reading.aclose()
        await self._writing.aclose()

    def _guard(self, what: str, seconds: float) -> Callable[[str, object], Awaitable[None]]:
        """Make what httpcore calls at each step: a process may have been paused since it was decided to send."""

        async def step(name: str, _: object) -> None:
            if name in _LAST_MOMENTS and not self._may_write(seconds):
                raise NotLeaderError(f"{what}: not sent, because this daemon is not the leader for certain")

        return step

    def _request(self, method: str, url: str, json: object = None) -> httpx.Request:
        try:
            return httpx.Request(method, url, headers=self._headers, json=json)
        except httpx.InvalidURL as exc:  # a metric name of the cluster may be absurdly long
            raise ResponseError(f"{method} {self.url}: this URL cannot be sent ({exc}): {url[:200]!r}") from exc

    def _what(self, request: httpx.Request, path: str) -> str:
        return f"{request.method} {self.url}{path}"

    async def _exchange(self, transport: httpx.AsyncBaseTransport, request: httpx.Request, path: str) -> Answer:
        async with self._slots:
            try:
                answer = await self._read(transport, request, path)
            except _FOREIGN_ERRORS as exc:
                raise _wrapped(exc, self._what(request, path)) from exc
        if answer.status >= httpx.codes.MULTIPLE_CHOICES:
            raise refusal(answer, path, self._what(request, path))
        return answer

    async def _read(self, transport: httpx.AsyncBaseTransport, request: httpx.Request, path: str) -> Answer:
        response = await transport.handle_async_request(request)
        try:
            body = await self._body(response, self._what(request, path))
        finally:
            await response.aclose()
        headers = response.headers
        return Answer(response.status_code, headers.get("content-type", ""), body, headers.get("location", ""))

    async def _body(self, response: httpx.Response, what: str) -> bytes:
        """Read the whole body; the announced length may lie and a compressed body may grow, so bytes are counted."""
        limit = self._endpoint.max_response_bytes
        chunks = []
        size = 0
        async for chunk in response.aiter_bytes():
            size += len(chunk)
            if size > limit:
                raise ResponseError(f"{what}: the answer is longer than {limit} bytes")
            chunks.append(chunk)
        return b"".join(chunks)


class _KeptConnections(AiohttpTransport):
    """httpx's transport by aiohttp, without aiohttp's own limit and cookies."""

    def __init__(self, context: ssl.SSLContext | bool) -> None:
        super().__init__(verify=context, trust_env=False)

    def get_client(self) -> aiohttp.ClientSession:
        connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=KEEP_ALIVE, ssl=self.ssl_context)
        return aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar())


def _base_and_headers(endpoint: Endpoint) -> tuple[str, dict[str, str]]:
    """Split credentials off the URL, so that it can stand in messages."""
    try:
        parts = urlsplit(endpoint.url.rstrip("/"))
        host = httpx.URL(scheme=parts.scheme, host=parts.hostname or "", port=parts.port).host
    except (ValueError, httpx.InvalidURL):
        raise _no_url(endpoint) from None  # the cause may contain credentials
    if parts.scheme not in ("http", "https") or not host or "@" in parts.path:
        raise _no_url(endpoint)
    headers = {"accept": "application/json", "accept-encoding": "identity", **_checked(endpoint.headers)}
    _, at, address = parts.netloc.rpartition("@")
    if at:
        pair = f"{unquote(parts.username or '')}:{unquote(parts.password or '')}"
        headers["authorization"] = "Basic " + base64.b64encode(pair.encode()).decode("ascii")
    return urlunsplit((parts.scheme, address, parts.path, "", "")), headers


def _checked(headers: tuple[tuple[str, str], ...]) -> dict[str, str]:
    """Refuse values that the libraries would refuse with the value, which may be secret, in their message."""
    for name, value in headers:
        if not (value.isascii() and value.isprintable()):
            raise ConfigError(f"the value of the header {name} has characters that are not printable ASCII")
    return {name.lower(): value for name, value in headers}


def _no_url(endpoint: Endpoint) -> ConfigError:
    shown = endpoint.url.rpartition("@")[2]
    return ConfigError(f"{shown!r} is not a URL of a JobManager such as http://host:8081")


def _is_transient(error: Exception) -> bool:
    return isinstance(error, ConnectError) or (isinstance(error, RefusedError) and error.status in _TRANSIENT_STATUSES)


def _wrapped(error: Exception, what: str) -> FlinkRestError:
    """Put a library's exception into our tree, in words of an operator."""
    chain = list(_chain(error))
    if any(isinstance(each, _UNREADABLE) for each in chain):
        return ResponseError(f"{what}: the answer cannot be read ({_described(chain[-1])})")
    return ConnectError(f"{what}: {next(filter(None, map(_known_cause, chain)), None) or _described(chain[-1])}")


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def _known_cause(error: BaseException) -> str:
    if isinstance(error, ConnectionRefusedError):
        return "connection refused"
    if isinstance(error, socket.gaierror):
        return f"the host name is not known ({error.strerror})"
    if isinstance(error, ssl.SSLError):
        return f"TLS failed ({error})"
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return "the connection was closed without an answer"
    if isinstance(error, aiohttp.ClientPayloadError):
        return "the connection was closed in the middle of the answer"
    return ""


def _described(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split()) or 'no details'}"
