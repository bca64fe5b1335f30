"""The evaluation engine that runs in the daemon process."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Final

from flink_autoscaler.clients import EventLoopThread, FlinkRestClient
from flink_autoscaler.clients.collector import read_cluster
from flink_autoscaler.clients.passes import run_passes
from flink_autoscaler.clients.transport import HttpTransport, MayWrite
from flink_autoscaler.core.decision import PassOutcome, PassRequest
from flink_autoscaler.core.job import Endpoint
from flink_autoscaler.core.reading import ClusterReading

MOST_CLIENTS: Final = 256
"""Endpoints whose connections are kept; the one unused longest goes first (a YARN application has a new URL after
every restart, so that old ones have to go)."""


class ClientCache:
    """One client per endpoint, so that connections stay open from pass to pass. Belongs to one event loop.

    Args:
        loop: Where the requests run.
        may_write: Asked before a request that changes something, with the seconds that it may take.
    """

    def __init__(self, loop: EventLoopThread, *, may_write: MayWrite = lambda _: True) -> None:
        self._loop = loop
        self._may_write = may_write
        self._clients: OrderedDict[Endpoint, FlinkRestClient] = OrderedDict()

    async def get(self, endpoint: Endpoint) -> FlinkRestClient:
        """Return the client of an endpoint."""
        if endpoint not in self._clients:
            transport = HttpTransport(endpoint, may_write=self._may_write)
            self._clients[endpoint] = FlinkRestClient(endpoint, transport)
        self._clients.move_to_end(endpoint)
        if len(self._clients) > MOST_CLIENTS:
            _, oldest = self._clients.popitem(last=False)
            await oldest.aclose()
        return self._clients[endpoint]

    def __call__(self, endpoint: Endpoint) -> FlinkRestClient:
        """Return the client of an endpoint, from any thread but the loop's."""
        return self._loop.run(self.get(endpoint))

    def close(self) -> None:
        """Close all connections; the loop stays."""
        self._loop.run(self._aclose())

    async def _aclose(self) -> None:
        while self._clients:
            _, client = self._clients.popitem()
            await client.aclose()


class InlineEngine:
    """Polls and evaluates all jobs of a pass on one event loop of this process (an ``EvaluationEngine``).

    Loop and clients belong to the caller, who closes them after the engine.
    """

    def __init__(
        self,
        *,
        job_deadline: float,
        loop: EventLoopThread,
        clients: Callable[[Endpoint], FlinkRestClient],
        pass_deadline: float = math.inf,
    ) -> None:
        """Make an engine.

        Args:
            job_deadline: Seconds that reading one job may take.
            loop: Where the requests run.
            clients: Gives the client of an endpoint; called from the thread that calls ``evaluate``.
            pass_deadline: Seconds that reading all jobs may take; those not read by then have an error.
        """
        self._loop = loop
        self._clients = clients
        self._job_deadline = job_deadline
        self._pass_deadline = pass_deadline

    def evaluate(self, requests: Sequence[PassRequest]) -> Sequence[PassOutcome]:
        """Return one outcome per request, in the same order; all requests belong to one endpoint.

        Cluster-wide metrics are read once per call.

        Raises:
            ConnectError: The loop is closed.
        """
        return self.evaluate_jobs(requests, self.read_cluster(requests[0].context.endpoint)) if requests else []

    def read_cluster(self, endpoint: Endpoint) -> ClusterReading:
        """Return the cluster-wide metrics of a pass; failures are in ``error``."""
        return self._loop.run(read_cluster(self._clients(endpoint)))

    def evaluate_jobs(self, requests: Sequence[PassRequest], cluster: ClusterReading) -> Sequence[PassOutcome]:
        """Return one outcome per request, with cluster-wide metrics that were read before."""
        client = self._clients(requests[0].context.endpoint)
        passes = run_passes(
            client, requests, cluster, job_deadline=self._job_deadline, pass_deadline=self._pass_deadline
        )
        return self._loop.run(passes)

    def start(self) -> None:
        """Do nothing: there is nothing to wait for."""

    def close(self) -> None:
        """Do nothing: loop and clients belong to the caller."""
