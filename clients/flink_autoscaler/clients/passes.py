"""One pass over many jobs of one cluster: reading them concurrently, each handed to the core as soon as it is read."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from dataclasses import replace
from time import perf_counter
from typing import Final

from flink_autoscaler.clients.collector import read_job
from flink_autoscaler.clients.pass_plugins import installed_plugins
from flink_autoscaler.clients.rest import FlinkRestClient
from flink_autoscaler.core.cycle import advance, failed, without_reading
from flink_autoscaler.core.decision import PassOutcome, PassRequest
from flink_autoscaler.core.errors import ConnectError, PluginError
from flink_autoscaler.core.reading import ClusterReading, JobReading

JOBS_PER_CONNECTION: Final = 2
"""Jobs that are read at the same time, per connection: enough that no connection idles while a job is between two
requests, and few enough that no request waits for its connection until it times out."""

COLLECT: Final = "collect"
EVALUATE: Final = "evaluate"


async def run_passes(
    client: FlinkRestClient,
    requests: Sequence[PassRequest],
    cluster: ClusterReading,
    *,
    job_deadline: float,
    pass_deadline: float = math.inf,
) -> list[PassOutcome]:
    """Return one outcome per request, in the same order. Never raises: a job that fails has its error in the outcome.

    Args:
        client: Of the cluster that all requests belong to.
        requests: One per job.
        cluster: What was read about the cluster in this pass.
        job_deadline: Seconds that reading one job may take.
        pass_deadline: Seconds that all of it may take; jobs not read by then have an error.
    """
    end = perf_counter() + pass_deadline
    outcomes: dict[int, PassOutcome] = {}
    queue = iter(enumerate(requests))

    async def work() -> None:
        for index, request in queue:
            seconds = min(job_deadline, end - perf_counter())
            outcomes[index] = await _pass(client, request, cluster, seconds)

    workers = min(len(requests), JOBS_PER_CONNECTION * client.endpoint.max_connections)
    await asyncio.gather(*(work() for _ in range(workers)))
    return [outcomes[index] for index in range(len(requests))]


async def _pass(client: FlinkRestClient, request: PassRequest, cluster: ClusterReading, seconds: float) -> PassOutcome:
    started = perf_counter()
    try:
        outcome = without_reading(request)
        if outcome is not None:
            return outcome
        reading = await _reading(client, request, seconds)
        read = perf_counter()
        outcome = advance(request, reading, cluster, installed_plugins())
    except Exception as error:  # the border between jobs: a bug that one job brings to light stops no other
        return failed(request, PluginError(f"job {request.context.job_key}: {type(error).__name__}: {error}"))
    return replace(outcome, seconds={COLLECT: read - started, EVALUATE: perf_counter() - read})


async def _reading(client: FlinkRestClient, request: PassRequest, seconds: float) -> JobReading:
    try:
        async with asyncio.timeout(seconds):
            return await read_job(client, request)
    except TimeoutError:
        error = ConnectError(f"job {request.context.job_key}: not read within {max(seconds, 0.0):.3g} s")
        return JobReading(None, memory=request.memory, error=error)
