"""Reading the jobs of a pass, endpoint by endpoint and many at once, each handed to the core as soon as it is read.

What every job goes through: in the daemon, in a Spark task, and where a program embeds the autoscaler.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass
from time import perf_counter
from typing import Final

from flink_autoscaler.clients.flink.client_cache import ClientCache
from flink_autoscaler.clients.flink.collector import wall_ms
from flink_autoscaler.clients.flink.pass_plugins import installed_plugins
from flink_autoscaler.clients.flink.rest import FlinkRestClient
from flink_autoscaler.clients.flink.rest_source import RestMetricSource
from flink_autoscaler.core.cycle.advance import advance
from flink_autoscaler.core.cycle.outcome import failed_outcome, waiting_outcome, waits_only_for_slots
from flink_autoscaler.core.cycle.recording import should_record
from flink_autoscaler.core.error_boundary import ErrorBoundary, try_await
from flink_autoscaler.core.errors import AutoscalerError, ConnectError
from flink_autoscaler.core.model.job import Endpoint
from flink_autoscaler.core.model.reading import ClusterReading, JobReading
from flink_autoscaler.core.model.value import replace
from flink_autoscaler.core.ports.metric_source import MetricSource, ReadJob
from flink_autoscaler.core.ports.passes import PassInputs, PassOutcome, PassRequest
from flink_autoscaler.pipeline.engine.base import Deadlines, EndpointGroup, EvaluationResult, job_label

JOBS_PER_CONNECTION: Final = 2
"""Jobs that are read at the same time, per connection: enough that no connection idles while a job is between two
requests, and few enough that no request waits for its connection until it times out."""

Admit = Callable[[], AbstractAsyncContextManager[object, bool | None]]

COLLECT: Final = "collect"
EVALUATE: Final = "evaluate"


async def evaluate_groups(
    clients: ClientCache, groups: Sequence[EndpointGroup], deadlines: Deadlines, cut_after: float = math.inf
) -> dict[int, EvaluationResult]:
    """Return what became of all jobs by position. Never raises: a job that fails has its error in the outcome.

    Endpoints that take longer than ``cut_after`` seconds are given up; their jobs have no outcome.
    """
    results = await asyncio.gather(*(_evaluate_group(clients, group, deadlines, cut_after) for group in groups))
    return {position: answer for answers in results for position, answer in answers.items()}


async def _evaluate_group(
    clients: ClientCache, group: EndpointGroup, deadlines: Deadlines, cut_after: float
) -> dict[int, EvaluationResult]:
    started = perf_counter()
    outcomes: Sequence[PassOutcome | None]
    # Made outside the boundary, which swallows the TimeoutError that tells both apart.
    cut = asyncio.timeout(None if math.isinf(cut_after) else cut_after)
    outcomes = [None] * len(group.positions)
    with ErrorBoundary(what=group.endpoint.url) as boundary:
        async with cut:
            outcomes = await _outcomes(clients, group, deadlines)
    # A group that was cut off has no outcome: its jobs are read again elsewhere, and an error would end them.
    if boundary.error is not None and not cut.expired():
        outcomes = [failed_outcome(request, boundary.error) for request in group.requests]
    seconds = perf_counter() - started
    return {
        position: EvaluationResult(outcome, seconds)
        for position, outcome in zip(group.positions, outcomes, strict=True)
    }


async def _outcomes(clients: ClientCache, group: EndpointGroup, deadlines: Deadlines) -> list[PassOutcome]:
    client = await client_of(clients, group.endpoint)
    if isinstance(client, AutoscalerError):
        return [failed_outcome(request, client) for request in group.requests]
    return await run_passes(
        client,
        group.requests,
        group.cluster,
        job_deadline=deadlines.job,
        pass_deadline=deadlines.pass_,
        admission=clients.admission,
        connections=clients.connections(group.endpoint),
        source=clients.metrics(group.endpoint),
    )


async def client_of(clients: ClientCache, endpoint: Endpoint) -> FlinkRestClient | AutoscalerError:
    """Return the client of an endpoint, or why there is none: its URL or its certificates are not as they should be."""
    return await try_await(clients.get(endpoint))


async def read_clusters(
    clients: ClientCache, endpoints: Sequence[Endpoint], fresh: Collection[Endpoint], deadlines: Deadlines
) -> dict[Endpoint, ClusterReading]:
    """Return the cluster-wide metrics behind each endpoint; failures are in ``error``. Never raises."""
    readings = await asyncio.gather(
        *(_read_cluster(clients, each, deadlines, is_fresh=each in fresh) for each in endpoints)
    )
    return dict(zip(endpoints, readings, strict=True))


async def _read_cluster(
    clients: ClientCache, endpoint: Endpoint, deadlines: Deadlines, *, is_fresh: bool
) -> ClusterReading:
    client = await client_of(clients, endpoint)
    if isinstance(client, AutoscalerError):
        return ClusterReading(error=client)
    source = clients.metrics(endpoint) or RestMetricSource(client)
    return await source.read_cluster(min(deadlines.job, deadlines.pass_), is_fresh=is_fresh)


async def run_passes(
    client: FlinkRestClient,
    requests: Sequence[PassRequest],
    cluster: ClusterReading | None = None,
    *,
    job_deadline: float,
    pass_deadline: float = math.inf,
    admission: Admit | None = None,
    connections: int | None = None,
    source: MetricSource | None = None,
) -> list[PassOutcome]:
    """Return one outcome per request, in the same order. Never raises: a job that fails has its error in the outcome.

    A cluster that cannot be reached for its own metrics is not asked for those of its jobs.

    Args:
        client: Of the cluster that all requests belong to.
        requests: One per job, all of which have to be read; not empty.
        cluster: What was read about the cluster in this pass; None reads it here.
        job_deadline: Seconds that reading one job, or the cluster's own metrics, may take.
        pass_deadline: Seconds that all of it may take; jobs not read by then have an error.
        admission: Gives what is held while a job is read; None does not bound what all clusters have under way.
        connections: Of the client; None takes those of its endpoint.
        source: Where the metrics come from; None asks the cluster for them.
    """
    # One instant for all jobs: a deadline per job would let a queue of slow ones outlast the pass.
    end = None if math.isinf(pass_deadline) else asyncio.get_running_loop().time() + pass_deadline
    source = source or RestMetricSource(client)
    if cluster is None:
        needs_fresh = any(map(needs_fresh_metrics, requests))
        is_provable = all(request.memory.task_ms is not None for request in requests)
        cluster = await source.read_cluster(
            min(job_deadline, pass_deadline), is_fresh=needs_fresh, is_provable=is_provable
        )
    read = await source.prepare(requests, min(job_deadline, pass_deadline))
    reading = _ClusterReader(read, cluster, job_deadline, end, admission or nullcontext)
    outcomes: dict[int, PassOutcome] = {}
    # One iterator for all workers: whoever is free takes the next job, and no job waits behind a slow one.
    queue = iter(enumerate(requests))

    async def work() -> None:
        for index, request in queue:
            outcomes[index] = await reading.outcome(request)

    workers = min(len(requests), JOBS_PER_CONNECTION * (connections or client.endpoint.max_connections))
    await asyncio.gather(*(work() for _ in range(workers)))
    return [outcomes[index] for index in range(len(requests))]


def needs_fresh_metrics(request: PassRequest) -> bool:
    """Tell whether a job is to be read from metrics that Flink has just gathered."""
    with ErrorBoundary():
        return request.context.options.is_improved
    return False


@dataclass(frozen=True, slots=True)
class _ClusterReader:
    """Reads jobs of one cluster.

    Attributes:
        read: Reads one of them.
        end: When the pass has to end, by the clock of the event loop; None never.
    """

    read: ReadJob
    cluster: ClusterReading
    job_deadline: float
    end: float | None
    admission: Admit

    async def outcome(self, request: PassRequest) -> PassOutcome:
        if self.cluster.is_away and self.cluster.error is not None:
            is_waiting = waits_only_for_slots(request)  # that is known without an answer
            outcome = waiting_outcome(request) if is_waiting else failed_outcome(request, self.cluster.error)
            return replace(outcome, inputs=self._inputs(request, outcome, None))
        rest_of_pass = asyncio.timeout_at(self.end)
        with ErrorBoundary(what=job_label(request)) as boundary:
            # In this order: waiting for admission counts as time of the pass.
            async with rest_of_pass, self.admission():
                return await self._timed_outcome(request)
        if rest_of_pass.expired():
            return failed_outcome(request, _not_read_error(request, "before the end of the pass"))
        return failed_outcome(request, boundary.error or _not_read_error(request, "for no reason that is known"))

    async def _timed_outcome(self, request: PassRequest) -> PassOutcome:
        started = perf_counter()
        # By the wall clock, not the pass's: a job may have waited minutes for its turn.
        asked_ms = wall_ms()
        reading = replace(await self._read(request), asked_ms=asked_ms, read_ms=wall_ms())
        read = perf_counter()
        # On the event loop: it takes a millisecond, and a thread would cost more than it saves.
        outcome = advance(request, reading, self.cluster, installed_plugins())
        seconds = {COLLECT: read - started, EVALUATE: perf_counter() - read}
        return replace(outcome, seconds=seconds, inputs=self._inputs(request, outcome, reading))

    def _inputs(self, request: PassRequest, outcome: PassOutcome, reading: JobReading | None) -> PassInputs | None:
        """Return what the cluster answered where the pass is to be recorded: it is a lot, and travels to the daemon."""
        return PassInputs(reading, self.cluster) if should_record(request, outcome) else None

    async def _read(self, request: PassRequest) -> JobReading:
        try:
            async with asyncio.timeout(self.job_deadline):
                return await self.read(request)
        except TimeoutError:
            error = _not_read_error(request, f"within {self.job_deadline:.3g} s")
            return JobReading(None, memory=request.memory, error=error)


def _not_read_error(request: PassRequest, limit: str) -> ConnectError:
    return ConnectError(f"{job_label(request)}: not read {limit}")
