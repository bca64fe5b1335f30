"""Reads what the checks go by over REST, with requests that change nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from flink_autoscaler.clients.flink.capacity import read_capacity
from flink_autoscaler.clients.flink.decode import JobOverview
from flink_autoscaler.clients.flink.rest import FlinkRestClient
from flink_autoscaler.core.errors import AutoscalerError, FlinkRestError, MissingMetricError, RefusedError
from flink_autoscaler.core.model.job import Capacity, JobStatus
from flink_autoscaler.core.model.metrics import FlinkMetric
from flink_autoscaler.core.model.reading import MetricNames
from flink_autoscaler.core.model.rescale_facts import CheckpointFacts
from flink_autoscaler.core.model.topology import JobDetails, JobTopology, Vertex, build_topology
from flink_autoscaler.core.observe.metric_names import by_meaning, choose_names
from flink_autoscaler.core.options.context import JobAutoScalerContext
from flink_autoscaler.standalone.readiness.facts import ClusterFacts, JobFacts, MetricFacts
from flink_autoscaler.standalone.settings.sources.job_layers import own_options

T = TypeVar("T")
Waiting = Callable[[float], None]
"""Told the seconds that metrics are waited for at most, once, when the first answer had none."""

_BACKPRESSURE: Final = "backPressuredTimeMsPerSecond"

BEYOND_INTERVAL: Final = 5.0
"""Seconds: Flink gathers metrics when asked, at most once per interval, and answers with what it had before."""

AGAIN_AFTER: Final = 1.0
AFTER_NAMES: Final = 6.0
"""Seconds that values, or names that are still missing, get after the first names: a rate takes 5 s to have one."""

_NOT_FOUND: Final = 404


async def read_cluster_facts(client: FlinkRestClient, *, has_provider: bool = False) -> ClusterFacts:
    """Return what is to be known about a cluster; what cannot be read is None."""
    version, configuration, capacity = await asyncio.gather(
        _or_none(client.flink_version()), _or_none(client.cluster_configuration()), read_capacity(client)
    )
    known = capacity if isinstance(capacity, Capacity) else None
    return ClusterFacts(version, configuration, known, has_provider)


async def read_job_facts(
    client: FlinkRestClient, context: JobAutoScalerContext, cluster: ClusterFacts, listed: JobOverview | None
) -> JobFacts:
    """Return what is to be known about a job, without metrics; what cannot be read is None."""
    job_id = context.job_id or ""
    reported, user, details, refusal, checkpoints = await asyncio.gather(
        _or_none(client.job_configuration(job_id)),
        _or_none(client.job_user_config(job_id)),
        _or_none(client.job_details(job_id)),
        _refusal(client, job_id),
        _or_none(_checkpoints(client, job_id)),
    )
    return JobFacts(
        context,
        cluster,
        reported=reported,
        own=None if user is None else own_options(user),
        job_type=None if listed is None else listed.job_type,
        scheduler=None if listed is None else listed.scheduler_type,
        topology=_topology(details),
        refusal=refusal,
        checkpoints=checkpoints,
        age=_age(details),
    )


def patience_for(interval: float) -> float:
    """Return how long it takes at most until Flink has gathered metrics; ``interval`` is 0 where it gathers none."""
    return interval + BEYOND_INTERVAL if interval > 0 else 0.0


async def read_metric_facts(
    client: FlinkRestClient, facts: JobFacts, *, patience: float, on_waiting: Waiting = lambda _: None
) -> MetricFacts | None:
    """Return the metrics of a job that runs, None of another one and where they cannot be read.

    Flink gathers metrics when it is asked for some, so that its first answer is empty. Then it is asked again until
    all are there, for as long as it takes to gather them.

    Args:
        client: Of the JobManager.
        facts: Of the job.
        patience: Seconds to wait at most; 0 asks once.
        on_waiting: Told when the first answer is not complete.
    """
    if facts.topology is None or facts.context.status is not JobStatus.RUNNING:
        return None
    loop = asyncio.get_running_loop()
    end, has_names = loop.time() + patience, False
    while True:
        try:
            metrics = await _metrics(client, facts.context.job_id or "", facts.topology)
        except AutoscalerError:
            return None
        if _is_complete(metrics, facts.topology) or loop.time() >= end:
            return metrics
        if not has_names and all(metrics.offered.values()):
            has_names, end = True, min(end, loop.time() + AFTER_NAMES)
        on_waiting(patience)
        await asyncio.sleep(AGAIN_AFTER)


async def _metrics(client: FlinkRestClient, job_id: str, topology: JobTopology) -> MetricFacts:
    vertices = [vertex for vertex in topology.vertices.values() if not vertex.is_finished]
    offered = await client.all_vertex_metric_names(job_id, [v.vertex_id for v in vertices])
    chosen = {v.vertex_id: _names(v, offered[v.vertex_id]) for v in vertices}
    answers = await client.all_vertex_metrics(job_id, {key: tuple(names) for key, names in chosen.items() if names})
    return MetricFacts(offered, {key: by_meaning(chosen[key], answer) for key, answer in answers.items()})


def _names(vertex: Vertex, offered: tuple[str, ...]) -> MetricNames:
    try:
        names = choose_names(vertex, offered)
    except MissingMetricError:
        return {}
    # Passes need it of sources alone; people want to see which vertex is held up.
    shown = {_BACKPRESSURE: FlinkMetric.BACKPRESSURE_TIME} if _BACKPRESSURE in offered else {}
    return {**names, **shown}


def _is_complete(metrics: MetricFacts, topology: JobTopology) -> bool:
    """Tell whether every vertex reports all that is required of it."""
    return all(
        bool(metrics.values.get(vertex_id)) and bool(_names(topology.vertices[vertex_id], offered))
        for vertex_id, offered in metrics.offered.items()
    )


async def _or_none(answer: Awaitable[T]) -> T | None:
    try:
        return await answer
    except FlinkRestError:
        return None


async def _refusal(client: FlinkRestClient, job_id: str) -> str | None:
    """Return why requirements are not told; empty when they are, None when that says nothing about the job."""
    try:
        await client.resource_requirements(job_id)
    except RefusedError as error:
        return _headline(error.body) if "UnsupportedOperationException" in error.body else None
    except FlinkRestError:
        return None
    return ""


def _headline(body: str) -> str:
    """Return the text of Flink's exception, without its class and stack."""
    lines = (line.partition("UnsupportedOperationException") for line in body.splitlines())
    return next((rest.lstrip(": ").strip() for _, found, rest in lines if found), "") or "not supported"


async def _checkpoints(client: FlinkRestClient, job_id: str) -> CheckpointFacts:
    try:
        interval_ms = await client.checkpoint_interval(job_id)
    except RefusedError as error:
        if error.status != _NOT_FOUND:
            raise
        interval_ms = None
    return CheckpointFacts(interval_ms=interval_ms, is_enabled=interval_ms is not None)


def _topology(details: JobDetails | None) -> JobTopology | None:
    try:
        return None if details is None else build_topology(details)
    except AutoscalerError:
        return None


def _age(details: JobDetails | None) -> float | None:
    if details is None or details.now_ms is None or details.running_at_ms is None:
        return None
    return max(0.0, (details.now_ms - details.running_at_ms) / 1000)
