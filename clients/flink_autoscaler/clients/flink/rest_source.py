"""The metric source that asks the JobManager itself."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Final

from flink_autoscaler.clients.flink.collector import read_cluster, wall_ms
from flink_autoscaler.clients.flink.facts import read_with_rescale_status
from flink_autoscaler.clients.flink.rest import FlinkRestClient
from flink_autoscaler.core.errors import ConnectError
from flink_autoscaler.core.model.reading import ClusterReading
from flink_autoscaler.core.ports.metric_source import ReadJob
from flink_autoscaler.core.ports.passes import PassRequest

_SHARE_OF_WAITING: Final = 0.5
"""Of the time for reading a cluster, what waiting for its metrics may take."""

_FRESH: Final = 1.0
"""Seconds for which what a cluster has gathered is as of now."""


class RestMetricSource:
    """Reads jobs over Flink's REST API (a ``MetricSource``): each one for itself, all its vertices at once.

    Args:
        client: Of the JobManager; it belongs to the caller.
    """

    def __init__(self, client: FlinkRestClient) -> None:
        self._client = client

    async def read_cluster(self, seconds: float, *, is_fresh: bool = True, is_provable: bool = False) -> ClusterReading:
        """Return cluster-wide metrics (see :func:`read_cluster_within`)."""
        return await read_cluster_within(self._client, seconds, is_fresh=is_fresh, is_provable=is_provable)

    async def prepare(self, requests: Sequence[PassRequest], seconds: float) -> ReadJob:  # noqa: ARG002 - the port's
        """Return what reads a job; there is nothing that many jobs could be asked for at once."""
        return partial(read_with_rescale_status, self._client)

    async def aclose(self) -> None:
        """Do nothing: the client belongs to the caller."""


async def read_cluster_within(
    client: FlinkRestClient, seconds: float, *, is_fresh: bool = True, is_provable: bool = False
) -> ClusterReading:
    """Return cluster-wide metrics; failures are in ``error``. Never raises.

    Args:
        client: Of the JobManager.
        seconds: That this may take.
        is_fresh: Whether Flink is asked to gather metrics before, and waited for; that it has not is ``doubt``.
        is_provable: Whether the jobs can tell how old is what is read about them.
    """
    try:
        async with asyncio.timeout(seconds):
            if not is_fresh:
                return await read_cluster(client)
            store = await client.store.refresh(client, seconds * _SHARE_OF_WAITING, is_provable=is_provable)
            read_ms = wall_ms()
            return replace(
                await read_cluster(client),
                doubt=store.doubt or "",
                waited_ms=round(1000 * store.waited),
                read_ms=read_ms,
                age_ms=round(1000 * store.age) if store.age > _FRESH else 0,
                interval_ms=round(1000 * store.interval),
            )
    except TimeoutError:
        error = ConnectError(f"the metrics of the cluster were not read within {seconds:.3g} s")
        return ClusterReading(error=error, is_away=True)
