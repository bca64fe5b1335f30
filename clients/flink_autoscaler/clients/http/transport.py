"""Requests to a JobManager, bounded in time, size and number.

A GET goes over kept connections of our own, see :mod:`.pool`; a PUT goes by httpx, which the modules of this package
alone know.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from itertools import chain
from string import ascii_letters, digits
from typing import Final, NamedTuple, cast
from urllib.parse import quote, urlencode

import httpx
import stamina

from flink_autoscaler.clients.auth.authentication import (
    NEGOTIATE,
    KerberosAuthenticator,
    KerberosProof,
    authenticator_for,
    credential_kinds,
    requested_schemes,
)
from flink_autoscaler.clients.http.answers import APPROVAL, Response, error_from_response, json_of, whole_body
from flink_autoscaler.clients.http.connections import Address, Connections, CookieJar, base_address, put_address_of
from flink_autoscaler.clients.http.event_loop import run_all
from flink_autoscaler.clients.http.failures import is_transient, wrap_transport_error
from flink_autoscaler.clients.http.parsing import RawResponse
from flink_autoscaler.clients.http.pool import BatchWorker, ConnectionPool, RequestBatch
from flink_autoscaler.core.errors import AutoscalerError, ConnectError, FlinkRestError, NotLeaderError, ResponseError
from flink_autoscaler.core.model.job import Endpoint

_PLAIN: Final = (ascii_letters + digits + "_.,~-").encode("ascii")
"""What needs no quoting in a query."""

_PLAIN_PATH: Final = re.compile(r"(?:/(?!\.)[A-Za-z0-9_.,~-]*)+")
"""A path that httpx would send as it is."""

_LONGEST_TARGET: Final = 1 << 15


class HttpRequest(NamedTuple):
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


def url_of(sending: HttpRequest) -> httpx.URL:
    """Return the URL of a request. Raises ResponseError: A metric name of the cluster may be absurdly long."""
    try:
        return httpx.URL(sending.url)
    except httpx.InvalidURL as exc:
        raise ResponseError(
            f"{sending.method} {sending.address.url}: this URL cannot be sent ({exc}): {sending.url[:200]!r}"
        ) from exc


def target_of(sending: HttpRequest) -> str:
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


ATTEMPTS: Final = 3
"""Times that a GET is tried; one on a kept connection that turns out to be closed is repeated at once besides."""

MayWrite = Callable[[float], bool]
"""Tells whether something may be changed by a request that takes at most so many seconds."""

_LAST_MOMENTS: Final = ("http11.send_request_headers.started", "http11.send_request_body.started")
"""After them the bytes go to the socket at once; a PUT without its body is no request yet."""

_FIRST_WAIT: Final = 0.05
"""Seconds before a GET is tried for the second time; then comes the longer one of stamina."""

# A retry is no news: what fails in the end is reported by whoever asked.
stamina.instrumentation.set_on_retry_hooks(())
_retries = stamina.AsyncRetryingCaller(
    attempts=ATTEMPTS - 1, timeout=None, wait_initial=2 * _FIRST_WAIT, wait_max=0.5, wait_jitter=0.05
)


_Outcome = Response | AutoscalerError | None
"""What came of a request: an answer of whatever status, why there is none; None where it was not sent."""


class HttpTransport:
    """Speaks JSON with one JobManager.

    Belongs to the event loop that sends its first request. Connections are kept open between requests. Redirects
    are not followed: Flink sends none, and a proxy's lead to pages for people.

    Args:
        endpoint: The JobManager, and the limits of requests.
        may_write: Asked immediately before a request that changes something is sent.

    Attributes:
        url: Base URL without credentials.

    Raises:
        ConfigError: A URL is none, or a header cannot be sent.
    """

    def __init__(self, endpoint: Endpoint, *, may_write: MayWrite = lambda _: True) -> None:
        self._endpoint = endpoint
        self._may_write = may_write
        self._address = base_address(endpoint)
        self._put_address = put_address_of(endpoint)
        self.url = self._address.url
        self._base_path, self._head = head_of(self._address)
        self._slots = asyncio.Semaphore(endpoint.max_connections)
        self._lanes = 0  # that were opened where several connections were free
        self._opening = asyncio.Lock()
        self._connections: Connections | None = None
        self._cookies = CookieJar()
        self._answered: set[str] = set()
        self._authenticator: KerberosAuthenticator | None = None
        self._user = {"user.name": endpoint.user_name} if endpoint.user_name else {}

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
            ConnectError: No complete answer in time, or the server cannot be trusted.
            ResponseError: The answer is too large, not JSON or not decodable.
            RefusedError: An HTTP error status; :class:`JobGoneError` when the job is unknown.
            ConfigError: A file for TLS or Kerberos cannot be used.
        """
        sending = self._sending(path, params or {}, None, timeout)
        return json_of(await _in_time(sending, self._send_with_retries(sending)), sending.what)

    async def get_all_json(
        self, asked: Sequence[tuple[str, Mapping[str, str]]], *, timeout: float | None = None
    ) -> list[object]:
        """Return the decoded answers of several GETs, in the same order, for less than they would take one by one.

        They go over as many connections as are free, but over one at least. What is not answered at once, since it
        has failed, needs credentials or came after that, is asked for by itself as :meth:`get_json` does.

        Args:
            asked: Paths and query parameters.
            timeout: Seconds for each of them from when it is its turn; the endpoint's timeout when None.

        Raises:
            FlinkRestError: As for :meth:`get_json`, the first failure; what others would have answered is lost.
            ConfigError: As for :meth:`get_json`.
        """
        sendings = [self._sending(path, params, None, timeout) for path, params in asked]
        found: list[_Outcome] = await self._send_batch(sendings) if len(sendings) > 1 else [None] * len(sendings)
        late = {
            place: _in_time(sending, self._send_with_retries(sending, outcome))
            for place, (sending, outcome) in enumerate(zip(sendings, found, strict=True))
            if not self._is_final(outcome)
        }
        answers = {**dict(enumerate(found)), **(await run_all(late) if late else {})}
        return [json_of(cast("Response", answers[place]), sending.what) for place, sending in enumerate(sendings)]

    async def put_json(self, path: str, body: object, *, timeout: float | None = None) -> object:
        """Return the decoded answer of a PUT, None when it is empty.

        It is sent again only after an answer which tells that nothing was done: a question for credentials, YARN's
        warning page, or a proxy that carries no PUT.

        Args:
            path: As for :meth:`get_json`.
            body: Sent as JSON.
            timeout: As for :meth:`get_json`.

        Raises:
            FlinkRestError: As for :meth:`get_json`. After a ConnectError or ResponseError the change may have
                been accepted nevertheless.
            NotLeaderError: It may not be sent now, and was not.
            ConfigError: As for :meth:`get_json`.
        """
        # YARN's web proxy drops line breaks, and characters that are not ASCII.
        content = json.dumps(body, ensure_ascii=True, separators=(",", ":"), allow_nan=False).encode("ascii")
        sending = self._sending(path, {}, content, timeout)
        answer = await _in_time(sending, self._exchange(sending))
        return json_of(answer, sending.what) if answer.body else None

    async def aclose(self) -> None:
        """Close all connections. May be called more than once."""
        if self._connections is not None:
            await self._connections.aclose()

    def _sending(self, path: str, params: Mapping[str, str], body: bytes | None, timeout: float | None) -> HttpRequest:
        seconds = self._endpoint.timeout if timeout is None else timeout
        return HttpRequest(self._address, path, {**params, **self._user}, body, seconds)

    async def _send_batch(self, sendings: Sequence[HttpRequest]) -> list[_Outcome]:
        """Return what came of requests that were sent as one round.

        Raises:
            FlinkRestError: One of them has failed in a way that asking again does not mend, or too late for that.
        """
        connections = self._connections or await self._open()
        if self._authenticator is not None and not self._cookies.are_any:
            return [None] * len(sendings)  # each has to show who this side is
        round_ = RequestBatch([self._request_of(each) for each in sendings])
        await self._run_batch(connections.reading, round_, sendings)
        outcomes: list[_Outcome] = [
            None if received is None else self._answer_of(sending, received)
            for sending, received in zip(sendings, round_.received, strict=True)
        ]
        if round_.failure is not None:
            if round_.failure.is_final:
                raise round_.failure.error
            outcomes[round_.failure.place] = round_.failure.error
        return outcomes

    async def _run_batch(
        self, connections: ConnectionPool, round_: RequestBatch, sendings: Sequence[HttpRequest]
    ) -> None:
        """Send a round over the connections that are free; with many jobs that is one for each."""
        count = min(len(sendings), self._endpoint.max_connections - self._lanes)
        if count <= 1 or self._slots.locked():
            await self._run_worker(connections, round_, sendings)
            return
        self._lanes += count  # before the slots are taken: else rounds that begin together take all of them each
        lanes = [asyncio.ensure_future(self._run_worker(connections, round_, sendings)) for _ in range(count)]
        try:
            await round_.settled.wait()
            await asyncio.sleep(0)  # so that those which have had their answer keep their connection
        finally:
            self._lanes -= count
            unneeded = [lane for lane in lanes if not lane.done()]
            for lane in unneeded:
                lane.cancel()
            if unneeded:
                await asyncio.gather(*unneeded, return_exceptions=True)

    async def _run_worker(
        self, connections: ConnectionPool, round_: RequestBatch, sendings: Sequence[HttpRequest]
    ) -> None:
        seconds = sendings[0].seconds
        limit = asyncio.timeout(seconds)
        lane = BatchWorker(round_, limit, seconds)
        try:
            async with limit, self._slots:
                await connections.serve(lane)
        except Exception as error:  # the border of an endpoint, as in _send
            sending, is_late = sendings[lane.place or 0], limit.expired()
            failure = _too_late(sending) if is_late else self._failure(sending, error)
            failure.__cause__ = None if failure is error else error
            lane.fail(failure, is_final=is_late or not is_transient(failure))

    def _is_final(self, outcome: _Outcome) -> bool:
        """Tell whether an answer is what was asked for."""
        if not isinstance(outcome, Response) or outcome.status >= httpx.codes.MULTIPLE_CHOICES:
            return False
        return not (self._endpoint.approves_proxy and outcome.is_proxy_warning)

    async def _send_with_retries(self, sending: HttpRequest, first: _Outcome = None) -> Response:
        """Ask again while that may help. Retries are prepared when they are needed: that takes 20 µs per request.

        Args:
            sending: The request.
            first: What came of it already; None where it has not been sent.
        """
        try:
            if isinstance(first, AutoscalerError):
                raise first
            return await self._exchange(sending, first)
        except FlinkRestError as error:
            if not is_transient(error):
                raise
        await asyncio.sleep(_FIRST_WAIT)
        return await _retries(is_transient, self._exchange, sending)

    async def _exchange(self, sending: HttpRequest, answer: Response | None = None) -> Response:
        async with self._slots:
            answer = answer or await self._send(sending)
            while (again := await self._next_attempt(sending, answer)) is not None:
                sending = again
                answer = await self._send(sending)
                if sending.proof is not None:
                    sending.proof.check(answer.challenge)
        if answer.status >= httpx.codes.MULTIPLE_CHOICES:
            authorization = sending.address.headers.get("authorization", "")
            is_named = sending.is_own and self._endpoint.user_name is not None
            shown = credential_kinds(authorization, is_named=is_named, is_kerberos=sending.proof is not None)
            raise error_from_response(answer, sending.path, sending.what, shown=shown)
        return answer

    async def _next_attempt(self, sending: HttpRequest, answer: Response) -> HttpRequest | None:
        """Return how to send a request anew that did nothing so far; None when the answer is final."""
        if not sending.is_own:
            return None
        if answer.status == httpx.codes.UNAUTHORIZED:
            return await self._with_credentials(sending, answer)
        if answer.status == httpx.codes.METHOD_NOT_ALLOWED and sending.body is not None:
            return self._direct(sending)
        if self._endpoint.approves_proxy and answer.is_proxy_warning:
            return self._with_approval(sending)
        return None

    async def _with_credentials(self, sending: HttpRequest, answer: Response) -> HttpRequest | None:
        if (
            self._authenticator is None
            or sending.proof is not None
            or NEGOTIATE not in requested_schemes(answer.challenge)
        ):
            return None
        return sending._replace(proof=await self._authenticator.answer(sending.address.url, answer.challenge))

    def _direct(self, sending: HttpRequest) -> HttpRequest | None:
        """Return the same PUT past a proxy that carries none."""
        if self._put_address is None:
            return None
        return HttpRequest(self._put_address, sending.path, {}, sending.body, sending.seconds, is_own=False)

    def _with_approval(self, sending: HttpRequest) -> HttpRequest:
        """Confirm YARN's warning page, whose cookie has been kept."""
        if APPROVAL.keys() <= sending.query.keys():
            raise ResponseError(
                f"{sending.what}: the web proxy of YARN repeats its warning although it was confirmed; "
                "does something on the way drop its cookies?"
            )
        return sending._replace(query={**sending.query, **APPROVAL}, proof=None)

    async def _send(self, sending: HttpRequest) -> Response:
        connections = self._connections or await self._open()
        try:
            if sending.body is None:
                return await self._read(connections.reading, sending)
            return await self._write(connections.writing, sending)
        except AutoscalerError:
            raise
        except Exception as exc:  # the border of an endpoint: httpx, httpcore, ssl and zlib raise what they like
            raise self._failure(sending, exc) from exc

    def _failure(self, sending: HttpRequest, error: Exception) -> AutoscalerError:
        """Return what it means that a request has failed."""
        if isinstance(error, ResponseError):
            return ResponseError(f"{sending.what}: {error}")
        if isinstance(error, AutoscalerError):
            return error
        return wrap_transport_error(
            error,
            sending.what,
            is_tls_untried=sending.address.url not in self._answered and sending.address.url.startswith("https:"),
            has_certificate=self._endpoint.tls.certificate_file is not None,
        )

    async def _open(self) -> Connections:
        """Read files, once; other requests wait meanwhile."""
        async with self._opening:
            if self._connections is None:
                self._authenticator = authenticator_for(self._endpoint)
                self._connections = await Connections.open(self._endpoint)
        return self._connections

    def _request(self, sending: HttpRequest) -> httpx.Request:
        """Make a PUT."""
        url, headers = url_of(sending), sending.address.headers
        request = httpx.Request(sending.method, url, headers=headers, content=sending.body)
        request.headers.update(self._own_headers(sending))
        request.headers["Content-Type"] = "application/json"
        request.extensions["trace"] = self._guard(sending)
        return request

    def _own_headers(self, sending: HttpRequest) -> dict[str, str]:
        """Return the headers of a request that are not the same for all: proof of who this side is, and cookies."""
        headers = {} if sending.proof is None else dict(sending.proof.headers)
        cookies = self._cookies.of(sending.url) if sending.is_own and self._cookies.are_any else ""
        return {**headers, "Cookie": cookies} if cookies else headers

    def _guard(self, sending: HttpRequest) -> Callable[[str, object], Awaitable[None]]:
        """Make what httpcore calls at each step: a process may have been paused since it was decided to send."""

        async def step(name: str, _: object) -> None:
            if name in _LAST_MOMENTS and not self._may_write(sending.seconds):
                raise NotLeaderError(f"{sending.what}: not sent, because this daemon is not the leader for certain")

        return step

    async def _read(self, connections: ConnectionPool, sending: HttpRequest) -> Response:
        """Send a GET and read its answer."""
        request = self._request_of(sending)
        try:
            received = await connections.get(request)
        except ResponseError as exc:
            raise self._failure(sending, exc) from exc
        return self._answer_of(sending, received)

    def _request_of(self, sending: HttpRequest) -> bytes:
        """Return a GET as it goes over the wire."""
        lines = "".join(f"{name}: {value}\r\n" for name, value in self._own_headers(sending).items())
        return f"GET {self._base_path}{target_of(sending)}{self._head}{lines}\r\n".encode("ascii")

    def _answer_of(self, sending: HttpRequest, received: RawResponse) -> Response:
        """Return what came, and keep its cookies."""
        head, body = received
        self._answered.add(sending.address.url)
        if cookies := head.texts(b"set-cookie"):
            self._cookies.take(cookies, sending.url)
        return Response(
            head.status, head.text(b"content-type"), body, head.text(b"location"), head.text(b"www-authenticate")
        )

    async def _write(self, transport: httpx.AsyncBaseTransport, sending: HttpRequest) -> Response:
        """Send a PUT and read its answer."""
        response = await transport.handle_async_request(self._request(sending))
        try:
            body = await whole_body(response, self._endpoint.max_response_bytes, sending.what)
        finally:
            await response.aclose()
        self._answered.add(sending.address.url)
        headers = response.headers
        if sending.is_own:
            self._cookies.take(headers.get_list("set-cookie"), sending.url)
        content_type, location = headers.get("content-type", ""), headers.get("location", "")
        return Response(response.status_code, content_type, body, location, headers.get("www-authenticate", ""))


async def _in_time(sending: HttpRequest, answer: Awaitable[Response]) -> Response:
    try:
        async with asyncio.timeout(sending.seconds):
            return await answer
    except TimeoutError as exc:
        raise _too_late(sending) from exc


def _too_late(sending: HttpRequest) -> ConnectError:
    return ConnectError(f"{sending.what}: no complete answer within {sending.seconds:g} s")
