"""Addresses of requests, the connections they go over, and the cookies they carry."""

from __future__ import annotations

import asyncio
import base64
import re
import ssl
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Final, NamedTuple
from urllib.parse import unquote, urlsplit, urlunsplit

import httpx

from flink_autoscaler.clients.auth.tls import client_context
from flink_autoscaler.clients.http.kept import KEEP_ALIVE, KeptConnections, Server
from flink_autoscaler.core.errors import ConfigError
from flink_autoscaler.core.model.job import Endpoint

MOST_COOKIES: Final = 20
LONGEST_COOKIE: Final = 4096
"""Characters of name and value; Hadoop's signed ``hadoop.auth`` has about 200, gateways' tokens up to 4,000."""


_NO_DATE: Final = re.compile(r";\s*(?:expires=[^;]*[0-9]{5}|max-age=[^;]*[0-9]{10})[^;]*", re.IGNORECASE)
"""A time with a year of five digits, and one that is decades away."""


class Address(NamedTuple):
    """Address that requests go to.

    Attributes:
        url: Base URL without credentials and without a slash at the end; can stand in messages.
        headers: Sent with every request; may be secret.
    """

    url: str
    headers: httpx.Headers


def address_of(endpoint: Endpoint) -> Address:
    """Return where requests go.

    Raises:
        ConfigError: The URL is none, or a header cannot be sent; the message shows no credentials.
    """
    return _address(endpoint.url, endpoint.headers)


def put_address_of(endpoint: Endpoint) -> Address | None:
    """Return where a PUT goes that the base URL does not carry; None when there is no such place.

    Headers may be credentials for the service at the base URL, such as a ResourceManager. They are not shown to
    anybody else: a JobManager of YARN belongs to the user who started it.

    Raises:
        ConfigError: As for :func:`address_of`.
    """
    if endpoint.put_url is None:
        return None
    is_same = _origin(endpoint.put_url) == _origin(endpoint.url)
    return _address(endpoint.put_url, endpoint.headers if is_same else ())


def _address(url: str, headers: Iterable[tuple[str, str]]) -> Address:
    try:
        parts = urlsplit(url.rstrip("/"))
        host = httpx.URL(scheme=parts.scheme, host=parts.hostname or "", port=parts.port).host
    except (ValueError, httpx.InvalidURL):
        raise _no_url(url) from None  # the cause may contain credentials
    if parts.scheme not in ("http", "https") or not host or "@" in parts.path:
        raise _no_url(url)
    all_headers = {"accept": "application/json", "accept-encoding": "identity", **_checked(headers)}
    _, at, host_and_port = parts.netloc.rpartition("@")
    if at:
        pair = f"{unquote(parts.username or '')}:{unquote(parts.password or '')}"
        all_headers["authorization"] = "Basic " + base64.b64encode(pair.encode()).decode("ascii")
    return Address(urlunsplit((parts.scheme, host_and_port, parts.path, "", "")), httpx.Headers(all_headers))


def _origin(url: str) -> tuple[str, str]:
    parts = urlsplit(url)
    return parts.scheme, parts.netloc.rpartition("@")[2]


def _checked(headers: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Refuse values that the libraries would refuse with the value, which may be secret, in their message."""
    for name, value in headers:
        if not (value.isascii() and value.isprintable()):
            raise ConfigError(f"the value of the header {name} has characters that are not printable ASCII")
    return {name.lower(): value for name, value in headers}


def _no_url(url: str) -> ConfigError:
    return ConfigError(f"{url.rpartition('@')[2]!r} is not a URL of a JobManager such as http://host:8081")


class Connections:
    """Connections to one endpoint.

    Attributes:
        reading: For GET: connections are kept, and a request on one that turns out to be closed is silently repeated.
        writing: For PUT: a fresh connection each, which cannot be one that the server is just about to close, by
            httpx's transport without ``httpx.AsyncClient``, whose redirects, cookies and authentication are not wanted.
    """

    def __init__(self, endpoint: Endpoint, context: ssl.SSLContext | None) -> None:
        self.reading = KeptConnections(_server(endpoint, context), limit=endpoint.max_response_bytes)
        self.writing = httpx_transport(context)

    @classmethod
    async def open(cls, endpoint: Endpoint) -> Connections:
        """Prepare for connections, which are opened when they are needed. Files are read in another thread.

        Raises:
            ConfigError: A file of ``endpoint.tls`` cannot be used.
        """
        return cls(endpoint, await context_of(endpoint))

    async def aclose(self) -> None:
        """Close all. May be called more than once."""
        await self.reading.aclose()
        await self.writing.aclose()


async def context_of(endpoint: Endpoint) -> ssl.SSLContext | None:
    """Return the context of TLS, None where no URL needs one. Files are read in another thread.

    Raises:
        ConfigError: A file of ``endpoint.tls`` cannot be used.
    """
    is_tls = any(url.startswith("https:") for url in (endpoint.url, endpoint.put_url or ""))
    return await asyncio.to_thread(client_context, endpoint.tls) if is_tls else None


def httpx_transport(context: ssl.SSLContext | None, *, kept: int = 0) -> httpx.AsyncBaseTransport:
    """Make connections that httpx uses, of which so many are kept while they are idle."""
    # httpx would make a context of its own, which takes longer than a request.
    verify = context or trusting_nobody()
    limits = httpx.Limits(max_keepalive_connections=kept, keepalive_expiry=KEEP_ALIVE)
    return httpx.AsyncHTTPTransport(verify=verify, trust_env=False, limits=limits)


def _server(endpoint: Endpoint, context: ssl.SSLContext | None) -> Server:
    url = httpx.URL(address_of(endpoint).url)
    is_tls = url.scheme == "https"
    return Server(url.raw_host.decode("ascii"), url.port or (443 if is_tls else 80), context if is_tls else None)


@cache
def trusting_nobody() -> ssl.SSLContext:
    """Return a context for where there is no TLS."""
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


class KeptCookies:
    """Few and short cookies that a server has set, such as ``hadoop.auth``, so that it need not be convinced again.

    Attributes:
        are_any: Whether there are any, for whatever URL.
    """

    def __init__(self) -> None:
        self._cookies = httpx.Cookies()
        self.are_any = False

    def take(self, cookies: Sequence[str], url: str) -> None:
        """Keep what the answer of a URL sets and forget what it takes back."""
        if not cookies:
            return
        self._cookies.extract_cookies(_with_dates(cookies, url))
        kept = 0
        for cookie in list(self._cookies.jar):
            if kept < MOST_COOKIES and len(cookie.name) + len(cookie.value or "") <= LONGEST_COOKIE:
                kept += 1
            else:
                self._cookies.delete(cookie.name, cookie.domain, cookie.path)
        self.are_any = kept > 0

    def of(self, url: str) -> str:
        """Return the cookies that are meant for a URL, as a header; empty where there are none."""
        if not self.are_any:
            return ""
        request = httpx.Request("GET", url)
        self._cookies.set_cookie_header(request)
        return str(request.headers.get("cookie", ""))


def _with_dates(cookies: Sequence[str], url: str) -> httpx.Response:
    """Return the cookies of an answer as Python's cookie jar takes them: in ASCII, without times that are no dates."""
    kept = [("set-cookie", _NO_DATE.sub("", cookie)) for cookie in cookies if cookie.isascii()]
    return httpx.Response(httpx.codes.OK, headers=kept, request=httpx.Request("GET", url))
