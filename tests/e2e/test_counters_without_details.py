"""Passes over a real job that has not changed: its counters come with the metrics of its vertices, not by details."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial

import pytest

from flink_autoscaler.clients.flink.collector import SETTLED_MS, read_job
from flink_autoscaler.clients.flink.rest import FlinkRestClient
from flink_autoscaler.core.model.job import Endpoint, JobStatus
from flink_autoscaler.core.model.reading import EMPTY_MEMORY, CollectorMemory
from flink_autoscaler.core.model.state import EMPTY_STATE
from flink_autoscaler.core.model.topology import VertexDetails
from flink_autoscaler.core.options.context import JobAutoScalerContext
from flink_autoscaler.core.ports.passes import PassRequest
from testkit.clusters.flink import FlinkCluster
from testkit.clusters.flink.job import WORK_VERTEX, ScalingJob, submit

pytestmark = pytest.mark.e2e

TIMEOUT = 60.0


@pytest.fixture(params=["2.3", pytest.param("1.20", marks=pytest.mark.suite(name="long"))])
def running(
    request: pytest.FixtureRequest, flink_session_cluster: Callable[[str], FlinkCluster]
) -> Iterator[tuple[FlinkCluster, str]]:
    cluster = flink_session_cluster(request.param)
    job_id = submit(cluster, ScalingJob(name="counted", cost_micros=100))
    yield cluster, job_id
    cluster.cancel(job_id)


def a_request(cluster: FlinkCluster, job_id: str, modified_ms: int, memory: CollectorMemory) -> PassRequest:
    context = JobAutoScalerContext(
        "e2e/counted", job_id, JobStatus.RUNNING, {}, Endpoint(cluster.rest_url), modified_ms=modified_ms
    )
    return PassRequest(context, EMPTY_STATE, time.time_ns() // 1_000_000, memory)


async def modified_ms(client: FlinkRestClient, job_id: str) -> int:
    return next(each.last_modification_ms for each in await client.jobs_overview() if each.job_id == job_id)


async def compared(cluster: FlinkCluster, job_id: str) -> tuple[tuple[VertexDetails, ...], tuple[VertexDetails, ...]]:
    """Return the vertices of a pass that read no details, and those of details that were the same before and after."""
    client, until = FlinkRestClient(Endpoint(cluster.rest_url)), time.monotonic() + TIMEOUT
    memory = EMPTY_MEMORY
    try:
        while time.monotonic() < until:
            before = await client.job_details(job_id)
            request = a_request(cluster, job_id, await modified_ms(client, job_id), memory)
            reading = await read_job(client, request)
            after = await client.job_details(job_id)
            memory, found = reading.memory, reading.details
            is_old = (before.now_ms or 0) > (request.context.modified_ms or 0) + SETTLED_MS
            was_kept = request.memory.kept is not None and memory.kept is request.memory.kept
            if found is not None and is_old and was_kept and before.vertices == after.vertices:
                return found.vertices, after.vertices
            await asyncio.sleep(0.5)
        raise AssertionError(f"no pass read its counters from metrics within {TIMEOUT:g} s: {memory}")
    finally:
        await client.aclose()


def runs_with(cluster: FlinkCluster, job_id: str, wanted: Mapping[str, int]) -> bool:
    return cluster.rest.parallelism(job_id) == wanted


def test_counters_of_metrics_are_those_of_the_details_before_and_after_a_rescale(
    running: tuple[FlinkCluster, str],
) -> None:
    cluster, job_id = running
    others = dict.fromkeys(cluster.rest.vertices(job_id), 1)

    for parallelism in (3, 1):
        wanted = {**others, WORK_VERTEX: parallelism}
        cluster.rest.require(job_id, wanted)
        cluster.wait_until("the new parallelism", partial(runs_with, cluster, job_id, wanted))
        from_metrics, from_details = asyncio.run(compared(cluster, job_id))

        assert from_metrics == from_details
        assert all(vertex.io.is_complete for vertex in from_metrics)
        assert any(vertex.io.records_in > 0 for vertex in from_metrics)
