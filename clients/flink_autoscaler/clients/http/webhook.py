"""One POST to somebody who wants to be told something: bounded in time and size, straight or through a proxy."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, NamedTuple
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import httpx

from flink_autoscaler.clients.auth.tls import client_context
from flink_autoscaler.clients.http.connections import context_without_roots
from flink_autoscaler.clients.http.failures import FOREIGN_ERRORS, wrap_transport_error
from flink_autoscaler.core.errors import ConfigError, ConnectError, NotLeaderError
from flink_autoscaler.core.model.job import Endpoint

_LAST_MOMENTS: Final = ("http11.send_request_headers.started", "http11.send_request_body.started")
"""After them the bytes go to the socket at once; a POST without its body is no request yet."""

_SECONDS: Final = re.compile(r"\d{1,9}", re.ASCII)


class WebhookResponse(NamedTuple):
    """Result of a POST that was answered.

    Attributes:
        status: Of the answer.
        text: The beginning of the answer on one line, printable; may repeat what was sent.
        retry_after: Seconds that the receiver wants no request; None when it does not say.
    """

    status: int
    text: str
    retry_after: float | None


async def post_once(
    endpoint: Endpoint,
    content: bytes,
    headers: Mapping[str, str],
    *,
    may_send: Callable[[], bool] = lambda: True,
) -> WebhookResponse:
    """Send a POST once, over a connection of its own, and return the answer whatever its status is.

    Nothing is repeated and no redirect is followed. The environment variables for proxies count, as they do for other
    programs: the receiver may be anywhere.

    Args:
        endpoint: Its URL may have a query. Of the answer no more than ``max_response_bytes`` are read.
        content: Sent as it is.
        headers: Besides those of the endpoint.
        may_send: Asked immediately before the request is sent.

    Raises:
        ConnectError: No answer in time, or the receiver cannot be trusted; it may have arrived nevertheless.
        ResponseError: An answer that is not HTTP.
        NotLeaderError: It may not be sent any more, and was not.
        ConfigError: The URL, a header or a file for TLS cannot be used. No message shows more of the URL than its host.
    """
    request, what = _request(endpoint, content, headers)
    request.extensions = {"trace": _guard(may_send, what), "timeout": httpx.Timeout(endpoint.timeout).as_dict()}
    try:
        async with asyncio.timeout(endpoint.timeout):
            return await _send(endpoint, request)
    except TimeoutError as error:
        raise ConnectError(f"{what}: no complete answer within {endpoint.timeout:g} s") from error
    except FOREIGN_ERRORS as error:
        has_certificate = endpoint.tls.certificate_file is not None
        is_tls = request.url.scheme == "https"
        raise wrap_transport_error(error, what, is_tls_untried=is_tls, has_certificate=has_certificate) from error


def _request(endpoint: Endpoint, content: bytes, headers: Mapping[str, str]) -> tuple[httpx.Request, str]:
    """Return the request, and method, scheme and host for messages."""
    try:
        urlsplit(endpoint.url)  # more careful about brackets
        url = httpx.URL(endpoint.url)
    except (httpx.InvalidURL, ValueError):
        url = httpx.URL("")
    if url.scheme not in ("http", "https") or not url.host:
        raise ConfigError("not a URL that begins with http:// or https:// and names a host")  # which may be secret
    pairs = {"accept-encoding": "identity", "user-agent": "flink-autoscaler", **dict(endpoint.headers), **headers}
    if any(not (value.isascii() and value.isprintable()) for value in pairs.values()):
        raise ConfigError("the value of a header has characters that are not printable ASCII")
    plain = url.copy_with(username=None, password=None)
    request = httpx.Request("POST", plain, headers=pairs, content=content)
    if url.userinfo:
        request = next(httpx.BasicAuth(url.username, url.password).auth_flow(request))
    return request, f"POST {plain.scheme}://{plain.netloc.decode('ascii')}"


def _guard(may_send: Callable[[], bool], what: str) -> Callable[[str, object], Awaitable[None]]:
    """Make what httpcore calls at each step: a process may have been paused since it was decided to send."""

    async def step(name: str, _: object) -> None:
        if name in _LAST_MOMENTS and not may_send():
            raise NotLeaderError(f"{what}: not sent, because another daemon may send it by now")

    return step


async def _send(endpoint: Endpoint, request: httpx.Request) -> WebhookResponse:
    is_tls = request.url.scheme == "https"
    context = await asyncio.to_thread(client_context, endpoint.tls) if is_tls else context_without_roots()
    proxy = _proxy_for(endpoint.url)
    transport = httpx.AsyncHTTPTransport(
        verify=context, trust_env=False, proxy=proxy, limits=httpx.Limits(max_keepalive_connections=0)
    )
    try:
        response = await transport.handle_async_request(request)
        try:
            return await _read(response, endpoint.max_response_bytes)
        finally:
            await response.aclose()
    finally:
        await transport.aclose()


def _proxy_for(url: str) -> str | None:
    """Return the proxy that the environment names for a URL; None where it is reached straight."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    proxies = getproxies()
    return None if proxy_bypass(host) else proxies.get(parts.scheme) or proxies.get("all")


async def _read(response: httpx.Response, limit: int) -> WebhookResponse:
    """Read the beginning of an answer: that it was given is what counts."""
    body = b""
    async for piece in response.aiter_raw():
        body = (body + piece)[:limit]
        if len(body) >= limit:
            break
    text = " ".join(body.decode("utf-8", "replace").split())
    shown = "".join(character if character.isprintable() else "?" for character in text)
    after = response.headers.get("retry-after", "")
    return WebhookResponse(response.status_code, shown, float(after) if _SECONDS.fullmatch(after) else None)
