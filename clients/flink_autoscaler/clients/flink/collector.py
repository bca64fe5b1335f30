"""Reading the metrics of clusters and jobs."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Final

from flink_autoscaler.clients.flink.remembered_names import current_memory, forget_unanswered, remember, vertices_to_ask
from flink_autoscaler.clients.flink.rest import FlinkRestClient
from flink_autoscaler.clients.http.blocking import EventLoopThread
from flink_autoscaler.clients.http.client_cache import ClientCache
from flink_autoscaler.clients.http.concurrent import run_all, run_both
from flink_autoscaler.core.errors import AutoscalerError, NotReadyError
from flink_autoscaler.core.model.decision import PassRequest
from flink_autoscaler.core.model.job import Endpoint, JobAutoScalerContext
from flink_autoscaler.core.model.metrics import Aggregate, VertexId
from flink_autoscaler.core.model.reading import ClusterReading, JobReading, MetricNames, VertexAggregates
from flink_autoscaler.core.model.topology import JobDetails, build_topology
from flink_autoscaler.core.observe.metric_names import (
    JOBMANAGER_METRICS,
    TASKMANAGER_METRICS,
    TASKMANAGER_METRICS_WITH_GC,
    by_meaning,
)

READINGS: Final = 5
READ_AGAIN_AFTER: Final = 0.8
"""Seconds between readings of contradicting details; all of them outlast the 3 s that Flink caches details."""


async def read_cluster(client: FlinkRestClient) -> ClusterReading:
    """Return cluster-wide metrics; failures are in ``error``. Never raises.

    TaskManager metrics without garbage collection are asked for only when those with it are not all there.
    """
    try:
        jobmanager, (with_gc, without_gc) = await run_both(
            client.jobmanager_metrics(JOBMANAGER_METRICS), _taskmanager_metrics(client)
        )
    except AutoscalerError as error:
        return ClusterReading(error=error)
    return ClusterReading(jobmanager, with_gc, without_gc)


async def _taskmanager_metrics(client: FlinkRestClient) -> tuple[dict[str, Aggregate], dict[str, Aggregate]]:
    with_gc = await client.taskmanager_metrics(TASKMANAGER_METRICS_WITH_GC)
    return with_gc, {} if with_gc else await client.taskmanager_metrics(TASKMANAGER_METRICS)


async def read_job(client: FlinkRestClient, request: PassRequest) -> JobReading:
    """Return what the cluster says about one job; failures are in ``error``. Never raises.

    Requests: the details, then the names of the vertices that need them, then the values of all vertices that have
    not finished. What was read before a failure is in the reading.
    """
    details: JobDetails | None = None
    memory = request.memory
    try:
        options = request.context.options
        is_cached = options.improves(options.cached_metric_names)
        details = await _details(client, request)
        memory = current_memory(request, details)
        topology = build_topology(details)
        asked = vertices_to_ask(topology, memory, now_ms=request.now_ms, is_cached=is_cached)
        offered = await run_all({v: client.vertex_metric_names(details.job_id, v) for v in asked})
        memory, missing = remember(topology, memory, offered, now_ms=request.now_ms, is_cached=is_cached)
        if missing is not None:
            raise missing
        aggregates = await _values(client, details.job_id, memory.names)
    except AutoscalerError as error:
        return JobReading(details, memory=memory, error=error)
    if is_cached:
        memory = forget_unanswered(memory, aggregates, asked)
    return JobReading(details, aggregates, memory)


async def _details(client: FlinkRestClient, request: PassRequest) -> JobDetails:
    """Return the details of the job as it is now.

    After a rescale Flink serves a copy of the details that is up to 3 s old. Details that contradict the list of
    jobs are read again, so that the graph of one execution is not mixed with the metrics of another.

    Raises:
        NotReadyError: The job has not started, or the details still contradict the list.
        FlinkRestError: They could not be read.
    """
    context = request.context
    if context.job_id is None:
        raise NotReadyError(f"job {context.job_key} has not started yet")
    timeout = context.options.rest_client_timeout.exact_seconds
    is_checked = context.options.improves(context.options.consistent_answers)
    for _ in range(READINGS):
        details = await client.job_details(context.job_id, timeout=timeout)
        if not is_checked or _is_consistent(details, context):
            return details
        await asyncio.sleep(READ_AGAIN_AFTER)
    raise NotReadyError(f"job {context.job_id}: its details and the list of jobs contradict each other")


def _is_consistent(details: JobDetails, context: JobAutoScalerContext) -> bool:
    """Tell whether the details agree with themselves and have as many tasks as the list of jobs says."""
    parallelism = {vertex.vertex_id: vertex.parallelism for vertex in details.vertices}
    agrees = all(parallelism.get(node.vertex_id, node.parallelism) == node.parallelism for node in details.plan)
    tasks = sum(node.parallelism for node in details.plan)
    return agrees and (not details.plan or context.task_count is None or context.task_count == tasks)


async def _values(
    client: FlinkRestClient, job_id: str, names: Mapping[VertexId, MetricNames]
) -> dict[VertexId, VertexAggregates]:
    answers = await run_all({v: client.vertex_metrics(job_id, v, tuple(chosen)) for v, chosen in names.items()})
    return {vertex_id: by_meaning(names[vertex_id], answer) for vertex_id, answer in answers.items()}


class RestMetricCollector:
    """The port ``MetricCollector`` over REST, for callers in threads."""

    def __init__(self, loop: EventLoopThread) -> None:
        self._loop = loop
        self._clients = ClientCache(loop)

    def read_cluster(self, context: JobAutoScalerContext) -> ClusterReading:
        """Return cluster-wide metrics; failures are in ``error``. Never raises."""
        try:
            return self._loop.run(self._read_cluster(context.endpoint))
        except AutoscalerError as error:
            return ClusterReading(error=error)

    def read_job(self, request: PassRequest) -> JobReading:
        """Return what the cluster says about one job; failures are in ``error``. Never raises."""
        try:
            return self._loop.run(self._read_job(request))
        except AutoscalerError as error:
            return JobReading(None, memory=request.memory, error=error)

    def close(self) -> None:
        """Close all connections; the loop stays."""
        self._clients.close()

    async def _read_cluster(self, endpoint: Endpoint) -> ClusterReading:
        return await read_cluster(await self._clients.get(endpoint))

    async def _read_job(self, request: PassRequest) -> JobReading:
        return await read_job(await self._clients.get(request.context.endpoint), request)
