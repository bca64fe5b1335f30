"""Passes in this process: of the daemon, and of programs that embed the autoscaler."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import Final

from flink_autoscaler.clients.flink.client_cache import ClientCache
from flink_autoscaler.clients.http.event_loop import EventLoopThread
from flink_autoscaler.core.model.job import Endpoint
from flink_autoscaler.core.model.reading import ClusterReading
from flink_autoscaler.core.ports.passes import EngineUse, PassOutcome, PassRequest
from flink_autoscaler.pipeline.engine.base import (
    CONFIGURED,
    INLINE,
    Deadlines,
    EvaluationResult,
    completed_outcomes,
    evaluate_pending,
    group_by_endpoint,
    with_engine,
)
from flink_autoscaler.pipeline.engine.run_pass import evaluate_groups, read_clusters

JOB_DEADLINE: Final = 30.0
"""Seconds that reading one job may take: what ``autoscaler.engine.job-deadline`` is without configuration."""


class InlineEngine:
    """Polls and evaluates all jobs of a pass on one event loop of this process (an ``EvaluationEngine``).

    Each job is read with what tells how its last rescale goes, and handed to ``advance`` with the installed plug-ins.
    The loop, and clients that were given, belong to the caller, who closes them after the engine.
    """

    def __init__(
        self,
        *,
        loop: EventLoopThread,
        job_deadline: float = JOB_DEADLINE,
        clients: ClientCache | None = None,
        pass_deadline: float = math.inf,
        reason: str = CONFIGURED,
    ) -> None:
        """Make an engine.

        Args:
            job_deadline: Seconds that reading one job, or the metrics of one cluster, may take.
            loop: Where the requests run.
            clients: Gives the client of an endpoint, and bounds how many jobs are read at once; None makes its own.
            pass_deadline: Seconds that reading all jobs may take; those not read by then have an error.
            reason: Why this engine was chosen.
        """
        self._loop = loop
        self._reason = reason
        # Closed by ``close`` only if they are its own: the daemon shares one cache among all clusters.
        self._own_clients = ClientCache(loop) if clients is None else None
        self._clients = clients or self._own_clients or ClientCache(loop)
        self._deadlines = Deadlines(job_deadline, pass_deadline)

    def evaluate(self, requests: Sequence[PassRequest]) -> Sequence[PassOutcome]:
        """Return one outcome per request, in the same order.

        Jobs behind different endpoints do not wait for each other. Cluster-wide metrics are read once per call and
        endpoint, where a job needs them.

        Raises:
            ConnectError: The loop is closed.
        """
        return evaluate_pending(requests, lambda open_: self.evaluate_unread(open_, self._reason))

    def evaluate_unread(self, requests: Sequence[PassRequest], reason: str) -> Sequence[PassOutcome]:
        """Do the same for jobs that all have to be read, for a reason of somebody else's choice."""
        return with_engine(EngineUse(INLINE, reason), completed_outcomes(self.evaluate_results(requests)))

    def evaluate_results(self, requests: Sequence[PassRequest]) -> list[EvaluationResult]:
        """Return what became of jobs that all have to be read, and how long their endpoints took; none is given up."""
        # Without a cut: nobody shares a task with anybody here, and the deadlines bound each job.
        answers = self._loop.run(evaluate_groups(self._clients, group_by_endpoint(requests), self._deadlines))
        return [answers[position] for position in range(len(requests))]

    def read_clusters(
        self, endpoints: Sequence[Endpoint], fresh: Collection[Endpoint]
    ) -> dict[Endpoint, ClusterReading]:
        """Return the cluster-wide metrics behind each endpoint; failures are in ``error``.

        Args:
            endpoints: Of the clusters.
            fresh: Where jobs are to be read afterwards from metrics that have just been gathered.
        """
        # Nothing to read, no hop to the other thread.
        return self._loop.run(read_clusters(self._clients, endpoints, fresh, self._deadlines)) if endpoints else {}

    def start(self) -> None:
        """Do nothing: there is nothing to wait for."""

    def close(self) -> None:
        """Close the connections that are its own; the loop stays."""
        if self._own_clients is not None:
            self._own_clients.close()
