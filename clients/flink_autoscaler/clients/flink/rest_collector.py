"""The port ``MetricCollector`` over REST, for programs that embed the autoscaler."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Final

from flink_autoscaler.clients.flink.client_cache import ClientCache
from flink_autoscaler.clients.flink.passes import by_endpoint, passes_behind
from flink_autoscaler.clients.http.event_loop import EventLoopThread
from flink_autoscaler.core.model.job import Endpoint
from flink_autoscaler.core.ports.passes import PassOutcome, PassRequest

JOB_DEADLINE: Final = 30.0
"""Seconds that reading one job may take: what ``autoscaler.engine.job-deadline`` is without configuration."""


class RestMetricCollector:
    """Takes jobs one pass further, for callers in threads: what the inline engine of the daemon does.

    Each job is read with what tells how its last rescale goes, and handed to ``advance`` with the installed plug-ins.

    Args:
        loop: Where the requests run; it belongs to the caller, who closes it after the collector.
        job_deadline: Seconds that reading one job, or the metrics of one cluster, may take.
    """

    def __init__(self, loop: EventLoopThread, *, job_deadline: float = JOB_DEADLINE) -> None:
        self._loop = loop
        self._clients = ClientCache(loop)
        self._job_deadline = job_deadline

    def evaluate(self, requests: Sequence[PassRequest]) -> Sequence[PassOutcome]:
        """Return one outcome per request, in the same order; errors are in the outcomes.

        Raises:
            ConnectError: The loop is closed.
        """
        return self._loop.run(self._evaluate(requests))

    def close(self) -> None:
        """Close all connections; the loop stays."""
        self._clients.close()

    async def _evaluate(self, requests: Sequence[PassRequest]) -> list[PassOutcome]:
        places = by_endpoint(requests)
        answers = await asyncio.gather(
            *(self._behind(endpoint, [requests[each] for each in mine]) for endpoint, mine in places.items())
        )
        outcomes = {
            place: outcome
            for mine, found in zip(places.values(), answers, strict=True)
            for place, outcome in zip(mine, found, strict=True)
        }
        return [outcomes[place] for place in range(len(requests))]

    async def _behind(self, endpoint: Endpoint, requests: Sequence[PassRequest]) -> list[PassOutcome]:
        return await passes_behind(self._clients, endpoint, requests, job_deadline=self._job_deadline)
