"""One client per endpoint, for as long as it is used, and how many jobs they read at the same time."""

from __future__ import annotations

import asyncio
import resource
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from typing import Final

from flink_autoscaler.clients.flink.rest import FlinkRestClient
from flink_autoscaler.clients.flink.rest_source import RestMetricSource
from flink_autoscaler.clients.http.event_loop import EventLoopThread
from flink_autoscaler.clients.http.transport import HttpTransport, MayWrite
from flink_autoscaler.clients.prometheus.source import PrometheusMetricSource
from flink_autoscaler.core.model.job import Endpoint
from flink_autoscaler.core.ports.metric_source import MetricSource

IDLE_SECONDS: Final = 600.0
"""Time unused after which a client goes: a YARN application has a new URL after every restart, a cluster another
endpoint when its token was replaced. Longer than any request, so that nobody uses a client that is closed."""

MAX_CLIENTS: Final = 4096
"""Clients that are kept, whatever is in use; the one unused longest goes first."""

MAX_CONNECTIONS: Final = 4096
"""Connections of all clients together, where the system allows so many open files."""

SHARE_OF_FILES: Final = 4
"""Of as many files that may be open at most one is a connection of ours."""

JOBS_AT_ONCE: Final = 64
"""Jobs under way, whatever the number of endpoints. At ten vertices and 0.5 ms per answer the loop is 0.3 s behind
with so many; with a thousand of them requests time out because nobody gets round to their answers."""

GRACE_SECONDS: Final = 2.0
"""Seconds after which a job no longer counts: it waits for its cluster, and jobs of others shall not wait with it."""

LOOP_LAG_LIMIT: Final = 0.25
"""Seconds that the loop has to be late for a job to count on: then it waits for us, not for its cluster."""


class ConcurrencyLimiter:
    """Lets jobs in one after the other. Belongs to one event loop.

    ``async with admission():`` waits until fewer than so many jobs are under way. A job that is under way for longer
    than ``GRACE_SECONDS`` goes on without being counted, so that clusters that hang hold others up but briefly.
    """

    def __init__(self, *, jobs: int = JOBS_AT_ONCE, patience: float = GRACE_SECONDS) -> None:
        self._places = asyncio.Semaphore(jobs)
        self._patience = patience

    def __call__(self) -> AbstractAsyncContextManager[None]:
        """Return what holds a place while a job is read."""
        return _Permit(self._places, self._patience)


class _Permit:
    """A place of one job, until it ends or no longer counts."""

    __slots__ = ("_due", "_late", "_loop", "_patience", "_places")

    def __init__(self, places: asyncio.Semaphore, patience: float) -> None:
        self._places = places
        self._patience = patience
        self._loop = asyncio.get_running_loop()
        self._due = 0.0
        self._late: asyncio.TimerHandle | None = None

    async def __aenter__(self) -> None:
        await self._places.acquire()
        self._wait()

    async def __aexit__(self, *_: object) -> None:
        if self._late is not None:  # else the place has been given back
            self._late.cancel()
            self._places.release()

    def _wait(self) -> None:
        self._due = self._loop.time() + self._patience
        self._late = self._loop.call_later(self._patience, self._give_back)

    def _give_back(self) -> None:
        """Give the place back if the job waits for its cluster."""
        if self._loop.time() - self._due > LOOP_LAG_LIMIT:
            self._wait()
        else:
            self._late = None
            self._places.release()


@dataclass(slots=True)
class _CachedClient:
    client: FlinkRestClient
    connections: int
    used_at: float
    source: MetricSource

    async def aclose(self) -> None:
        await self.source.aclose()
        await self.client.aclose()


class ClientCache:
    """One client per endpoint, so that connections stay open from pass to pass. Belongs to one event loop.

    The number of connections is bounded: where many endpoints are in use, each of them gets fewer than it asks for.

    Attributes:
        admission: Bounds how many jobs are read at the same time.
    """

    def __init__(
        self,
        loop: EventLoopThread,
        *,
        may_write: MayWrite = lambda _: True,
        most_connections: int | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Make an empty cache.

        Args:
            loop: Where the requests run.
            may_write: Asked before a request that changes something, with the seconds that it may take.
            most_connections: Of all clients together; None takes what the system allows.
            clock: Seconds of a clock that never goes back.
        """
        self.admission = ConcurrencyLimiter()
        self._loop = loop
        self._may_write = may_write
        self._most_connections = most_connections or _allowed_connections()
        self._clock = clock
        self._clients: OrderedDict[Endpoint, _CachedClient] = OrderedDict()
        self._retired: deque[_CachedClient] = deque()

    async def get(self, endpoint: Endpoint) -> FlinkRestClient:
        """Return the client of an endpoint.

        Raises:
            ConfigError: The endpoint is not usable as it is described.
        """
        kept = self._clients.get(endpoint)
        if kept is None or not self._is_fit(kept):
            kept = self._replace(endpoint)
        kept.used_at = self._clock()
        self._clients.move_to_end(endpoint)
        for outdated in self._take_unused():
            await outdated.aclose()
        return kept.client

    def __call__(self, endpoint: Endpoint) -> FlinkRestClient:
        """Return the client of an endpoint, from any thread but the loop's."""
        return self._loop.run(self.get(endpoint))

    def metrics(self, endpoint: Endpoint) -> MetricSource | None:
        """Return where the metrics of the jobs behind an endpoint come from; None where it has no client yet."""
        kept = self._clients.get(endpoint)
        return None if kept is None else kept.source

    def connections(self, endpoint: Endpoint) -> int:
        """Return how many requests to an endpoint may be under way at the same time."""
        kept = self._clients.get(endpoint)
        return endpoint.max_connections if kept is None else kept.connections

    def __len__(self) -> int:
        """Return how many endpoints have a client."""
        return len(self._clients)

    def close(self) -> None:
        """Close all connections; the loop stays."""
        self._loop.run(self._aclose())

    def _replace(self, endpoint: Endpoint) -> _CachedClient:
        """Make a client; one that others may still be using is closed later."""
        if endpoint in self._clients:
            self._retired.append(self._clients.pop(endpoint))
        connections = min(endpoint.max_connections, self._share(len(self._clients) + 1))
        transport = HttpTransport(replace(endpoint, max_connections=connections), may_write=self._may_write)
        client = FlinkRestClient(endpoint, transport)
        self._clients[endpoint] = kept = _CachedClient(client, connections, self._clock(), _source_of(client))
        return kept

    def _is_fit(self, kept: _CachedClient) -> bool:
        """Tell whether a client's limit still is right; it is too low only where twice as many endpoints had more."""
        wanted = kept.client.endpoint.max_connections
        highest, lowest = (min(wanted, self._share(factor * len(self._clients))) for factor in (1, 2))
        return lowest <= kept.connections <= highest

    def _share(self, endpoints: int) -> int:
        """Return the connections of one of so many endpoints: a power of two, so that it seldom changes."""
        return 1 << (max(1, self._most_connections // max(1, endpoints)).bit_length() - 1)

    def _take_unused(self) -> list[_CachedClient]:
        """Take out the clients that nobody uses any more."""
        oldest = self._clock() - IDLE_SECONDS
        clients = []
        while self._retired and self._retired[0].used_at < oldest:
            clients.append(self._retired.popleft())
        while len(self._clients) > MAX_CLIENTS or next(iter(self._clients.values())).used_at < oldest:
            clients.append(self._clients.popitem(last=False)[1])
        return clients

    async def _aclose(self) -> None:
        kept = [*self._retired, *self._clients.values()]
        self._retired.clear()
        self._clients.clear()
        for each in kept:
            await each.aclose()


def _source_of(client: FlinkRestClient) -> MetricSource:
    """Return where the metrics of the jobs of a client come from. May raise :class:`ConfigError`."""
    prometheus = client.endpoint.prometheus
    return RestMetricSource(client) if prometheus is None else PrometheusMetricSource(prometheus, client)


def _allowed_connections() -> int:
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MAX_CONNECTIONS if files == resource.RLIM_INFINITY else min(MAX_CONNECTIONS, files // SHARE_OF_FILES)
