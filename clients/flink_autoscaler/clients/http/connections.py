"""The connections below the transport: kept ones for reading, fresh ones for writing."""

from __future__ import annotations

import asyncio
import ssl
from functools import cache
from typing import Final

import aiohttp
import httpx
from httpx_aiohttp import AiohttpTransport

from flink_autoscaler.clients.auth.tls import client_context
from flink_autoscaler.core.model.job import Endpoint

KEEP_ALIVE: Final = 60.0
"""Seconds that an idle connection is kept: longer than a usual pass interval, shorter than Flink's five minutes."""


class Connections:
    """Connections to one endpoint, by httpx's transports without ``httpx.AsyncClient``.

    The client's redirects, cookies, authentication and log line per request are not wanted here, and cost a third of
    the time of a request.

    Attributes:
        reading: For GET: connections are kept, and a request on one that turns out to be closed is silently repeated.
        writing: For PUT: a fresh connection each, which cannot be one that the server is just about to close. aiohttp
            would silently repeat a PUT after a lost connection, httpcore does not.
    """

    def __init__(self, context: ssl.SSLContext | None) -> None:
        # httpx would make a context of its own for each of them, which takes longer than a request.
        verify = context or _trusting_nobody()
        self.reading: httpx.AsyncBaseTransport = _KeptConnections(verify)
        self.writing: httpx.AsyncBaseTransport = httpx.AsyncHTTPTransport(
            verify=verify, trust_env=False, limits=httpx.Limits(max_keepalive_connections=0)
        )

    @classmethod
    async def open(cls, endpoint: Endpoint) -> Connections:
        """Prepare for connections, which are opened when they are needed. Files are read in another thread.

        Raises:
            ConfigError: A file of ``endpoint.tls`` cannot be used.
        """
        urls = (endpoint.url, endpoint.put_url or "")
        is_tls = any(url.startswith("https:") for url in urls)
        return cls(await asyncio.to_thread(client_context, endpoint.tls) if is_tls else None)

    async def aclose(self) -> None:
        """Close all. May be called more than once."""
        await self.reading.aclose()
        await self.writing.aclose()


@cache
def _trusting_nobody() -> ssl.SSLContext:
    """Return a context for where there is no TLS."""
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)


class _KeptConnections(AiohttpTransport):
    """httpx's transport by aiohttp, without aiohttp's own limit and cookies."""

    def __init__(self, verify: ssl.SSLContext) -> None:
        super().__init__(verify=verify, trust_env=False)

    def get_client(self) -> aiohttp.ClientSession:
        connector = aiohttp.TCPConnector(limit=0, keepalive_timeout=KEEP_ALIVE, ssl=self.ssl_context)
        return aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.DummyCookieJar())
