"""Requests through a transport of their own, which is closed in the end."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from flink_autoscaler.clients.http.transport import HttpTransport
from flink_autoscaler.core.model.job import Endpoint


def exchange(endpoint: Endpoint, action: Callable[[HttpTransport], Awaitable[object]]) -> object:
    """Return what an action comes to that has a transport to an endpoint."""

    async def run() -> object:
        transport = HttpTransport(endpoint)
        try:
            return await action(transport)
        finally:
            await transport.aclose()

    return asyncio.run(run())
