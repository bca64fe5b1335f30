"""The evaluation engine that runs in the daemon process."""

from __future__ import annotations

import math
from collections.abc import Sequence

from flink_autoscaler.clients.flink.client_cache import ClientCache
from flink_autoscaler.clients.http.event_loop import EventLoopThread
from flink_autoscaler.core.model.decision import PassOutcome, PassRequest
from flink_autoscaler.core.model.job import Endpoint
from flink_autoscaler.core.model.reading import ClusterReading
from flink_autoscaler.pipeline.inline.groups import Deadlines, evaluate_groups, grouped, read_clusters


class InlineEngine:
    """Polls and evaluates all jobs of a pass on one event loop of this process (an ``EvaluationEngine``).

    Loop and clients belong to the caller, who closes them after the engine.
    """

    def __init__(
        self,
        *,
        job_deadline: float,
        loop: EventLoopThread,
        clients: ClientCache,
        pass_deadline: float = math.inf,
    ) -> None:
        """Make an engine.

        Args:
            job_deadline: Seconds that reading one job, or the metrics of one cluster, may take.
            loop: Where the requests run.
            clients: Gives the client of an endpoint, and bounds how many jobs are read at once.
            pass_deadline: Seconds that reading all jobs may take; those not read by then have an error.
        """
        self._loop = loop
        self._clients = clients
        self._deadlines = Deadlines(job_deadline, pass_deadline)

    def evaluate(self, requests: Sequence[PassRequest]) -> Sequence[PassOutcome]:
        """Return one outcome per request, in the same order.

        Jobs behind different endpoints do not wait for each other. Cluster-wide metrics are read once per call and
        endpoint, where a job needs them.

        Raises:
            ConnectError: The loop is closed.
        """
        groups = grouped(enumerate(requests))
        outcomes = self._loop.run(evaluate_groups(self._clients, groups, self._deadlines)) if groups else {}
        return [outcomes[position] for position in range(len(requests))]

    def read_clusters(self, endpoints: Sequence[Endpoint]) -> dict[Endpoint, ClusterReading]:
        """Return the cluster-wide metrics behind each endpoint; failures are in ``error``."""
        return self._loop.run(read_clusters(self._clients, endpoints, self._deadlines)) if endpoints else {}

    def start(self) -> None:
        """Do nothing: there is nothing to wait for."""

    def close(self) -> None:
        """Do nothing: loop and clients belong to the caller."""


__all__ = ["ClientCache", "InlineEngine"]
