"""One pass over many jobs of one cluster: reading them concurrently, each handed to the core as soon as it is read."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import Final

from flink_autoscaler.clients.flink.client_cache import ClientCache
from flink_autoscaler.clients.flink.kept import wall_ms
from flink_autoscaler.clients.flink.pass_plugins import installed_plugins
from flink_autoscaler.clients.flink.rest import FlinkRestClient
from flink_autoscaler.clients.flink.rest_source import RestMetricSource
from flink_autoscaler.core.border import Border, attempted, awaited
from flink_autoscaler.core.cycle.advance import advance
from flink_autoscaler.core.cycle.outcome import failed, is_only_waiting, waiting, without_reading
from flink_autoscaler.core.cycle.recording import is_worth
from flink_autoscaler.core.errors import AutoscalerError, ConnectError
from flink_autoscaler.core.model.job import Endpoint
from flink_autoscaler.core.model.quick import replace
from flink_autoscaler.core.model.reading import ClusterReading, JobReading
from flink_autoscaler.core.ports.metric_source import MetricSource, ReadJob
from flink_autoscaler.core.ports.passes import PassInputs, PassOutcome, PassRequest

JOBS_PER_CONNECTION: Final = 2
"""Jobs that are read at the same time, per connection: enough that no connection idles while a job is between two
requests, and few enough that no request waits for its connection until it times out."""

Admit = Callable[[], AbstractAsyncContextManager[object, bool | None]]

COLLECT: Final = "collect"
EVALUATE: Final = "evaluate"


async def passes_behind(
    clients: ClientCache,
    endpoint: Endpoint,
    requests: Sequence[PassRequest],
    cluster: ClusterReading | None = None,
    *,
    job_deadline: float,
    pass_deadline: float = math.inf,
) -> list[PassOutcome]:
    """Return one outcome per request behind an endpoint, as :func:`run_passes` does. Never raises.

    What every job goes through: in the daemon, in a Spark task, and where a program embeds the autoscaler.
    """
    client = await client_of(clients, endpoint)
    if isinstance(client, AutoscalerError):
        outcomes = settled(requests)
        return [outcomes.get(index) or failed(request, client) for index, request in enumerate(requests)]
    return await run_passes(
        client,
        requests,
        cluster,
        job_deadline=job_deadline,
        pass_deadline=pass_deadline,
        admission=clients.admission,
        connections=clients.connections(endpoint),
        source=clients.metrics(endpoint),
    )


def by_endpoint(requests: Iterable[PassRequest]) -> dict[Endpoint, list[int]]:
    """Return the places of requests by the endpoint that their jobs are behind, in the order in which these appear."""
    places: dict[Endpoint, list[int]] = {}
    for place, request in enumerate(requests):
        places.setdefault(request.context.endpoint, []).append(place)
    return places


async def client_of(clients: ClientCache, endpoint: Endpoint) -> FlinkRestClient | AutoscalerError:
    """Return the client of an endpoint, or why there is none: its URL or its certificates are not as they should be."""
    return await awaited(clients.get(endpoint))


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
        requests: One per job.
        cluster: What was read about the cluster in this pass; None reads it here, where a job needs it.
        job_deadline: Seconds that reading one job, or the cluster's own metrics, may take.
        pass_deadline: Seconds that all of it may take; jobs not read by then have an error.
        admission: Gives what is held while a job is read; None does not bound what all clusters have under way.
        connections: Of the client; None takes those of its endpoint.
        source: Where the metrics come from; None asks the cluster for them.
    """
    end = None if math.isinf(pass_deadline) else asyncio.get_running_loop().time() + pass_deadline
    outcomes = settled(requests)
    source = source or RestMetricSource(client)
    waiting = [index for index in range(len(requests)) if index not in outcomes]
    if waiting:
        if cluster is None:
            needs_fresh = any(wants_fresh(requests[index]) for index in waiting)
            is_provable = all(requests[index].memory.task_ms is not None for index in waiting)
            cluster = await source.read_cluster(
                min(job_deadline, pass_deadline), is_fresh=needs_fresh, is_provable=is_provable
            )
        read = await source.prepare([requests[index] for index in waiting], min(job_deadline, pass_deadline))
        reading = _Reading(read, cluster, job_deadline, end, admission or nullcontext)
        queue = iter(waiting)

        async def work() -> None:
            for index in queue:
                outcomes[index] = await reading.outcome(requests[index])

        workers = min(len(waiting), JOBS_PER_CONNECTION * (connections or client.endpoint.max_connections))
        await asyncio.gather(*(work() for _ in range(workers)))
    return [outcomes[index] for index in range(len(requests))]


def settled(requests: Sequence[PassRequest]) -> dict[int, PassOutcome]:
    """Return the outcomes of the jobs that need no reading, by position."""
    outcomes = {}
    for index, request in enumerate(requests):
        found = attempted(partial(without_reading, request), what=_name(request))
        outcome = failed(request, found) if isinstance(found, AutoscalerError) else found
        if outcome is not None:
            outcomes[index] = outcome
    return outcomes


def wants_fresh(request: PassRequest) -> bool:
    """Tell whether a job is to be read from metrics that Flink has just gathered."""
    with Border():
        return request.context.options.is_improved
    return False


@dataclass(frozen=True, slots=True)
class _Reading:
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
            is_waiting = is_only_waiting(request)  # that is known without an answer
            outcome = waiting(request) if is_waiting else failed(request, self.cluster.error)
            return replace(outcome, inputs=self._inputs(request, outcome, None))
        rest_of_pass = asyncio.timeout_at(self.end)
        with Border(what=_name(request)) as border:
            async with rest_of_pass, self.admission():
                return await self._timed(request)
        if rest_of_pass.expired():
            return failed(request, _not_read(request, "before the end of the pass"))
        return failed(request, border.error or _not_read(request, "for no reason that is known"))

    async def _timed(self, request: PassRequest) -> PassOutcome:
        started = perf_counter()
        asked_ms = wall_ms()
        reading = replace(await self._read(request), asked_ms=asked_ms, read_ms=wall_ms())
        read = perf_counter()
        outcome = advance(request, reading, self.cluster, installed_plugins())
        seconds = {COLLECT: read - started, EVALUATE: perf_counter() - read}
        return replace(outcome, seconds=seconds, inputs=self._inputs(request, outcome, reading))

    def _inputs(self, request: PassRequest, outcome: PassOutcome, reading: JobReading | None) -> PassInputs | None:
        """Return what the cluster answered where the pass is to be recorded: it is a lot, and travels to the daemon."""
        return PassInputs(reading, self.cluster) if is_worth(request, outcome) else None

    async def _read(self, request: PassRequest) -> JobReading:
        try:
            async with asyncio.timeout(self.job_deadline):
                return await self.read(request)
        except TimeoutError:
            error = _not_read(request, f"within {self.job_deadline:.3g} s")
            return JobReading(None, memory=request.memory, error=error)


def _not_read(request: PassRequest, limit: str) -> ConnectError:
    return ConnectError(f"{_name(request)}: not read {limit}")


def _name(request: PassRequest) -> str:
    return f"job {request.context.job_key}"
