from __future__ import annotations

import asyncio
import time

from core_builders import a_context, a_topology, a_vertex
from fake_flink import Canned, FakeFlink, chain

from flink_autoscaler.clients.flink.rest import FlinkRestClient
from flink_autoscaler.core.model.job import JobStatus
from flink_autoscaler.core.model.topology import build_topology
from flink_autoscaler.standalone.readiness.facts import ClusterFacts, JobFacts, MetricFacts
from flink_autoscaler.standalone.readiness.reading import patience_for, read_job_facts, read_metric_facts


async def read(flink: FakeFlink, job_id: str, *, patience: float) -> tuple[MetricFacts | None, list[float]]:
    """Read the metrics of a job; returns what was told about waiting, too."""
    waited: list[float] = []
    client = FlinkRestClient(flink.endpoint())
    try:
        topology = build_topology(await client.job_details(job_id))
        facts = JobFacts(a_context(job_id=job_id), topology=topology)
        return await read_metric_facts(client, facts, patience=patience, on_waiting=waited.append), waited
    finally:
        await client.aclose()


def test_metrics_that_are_there_are_not_waited_for() -> None:
    with FakeFlink() as flink:
        job = flink.add_job("orders", chain(vertices=2))

        metrics, waited = asyncio.run(read(flink, job.job_id, patience=60.0))

    assert metrics is not None
    assert all(metrics.values[vertex.vertex_id] for vertex in job.vertices)
    assert waited == []


def test_metrics_that_never_come_are_waited_for_no_longer_than_told() -> None:
    with FakeFlink() as flink:
        job = flink.add_job("orders", chain(vertices=2))
        flink.fault("/subtasks/metrics", Canned.json([]))
        started = time.monotonic()

        metrics, waited = asyncio.run(read(flink, job.job_id, patience=0.5))

    assert metrics == MetricFacts({vertex.vertex_id: () for vertex in job.vertices}, {})
    assert waited == [0.5]
    assert time.monotonic() - started < 10


def test_job_that_does_not_run_is_not_asked_for_metrics() -> None:
    with FakeFlink() as flink:
        facts = JobFacts(a_context(status=JobStatus.RESTARTING), topology=a_topology(a_vertex()))

        assert asyncio.run(read_metric_facts(FlinkRestClient(flink.endpoint()), facts, patience=60.0)) is None

        assert flink.requests == []


def test_patience_is_longer_than_flink_takes_and_none_where_it_gathers_nothing() -> None:
    assert (patience_for(10.0) > 10.0, patience_for(0.0)) == (True, 0.0)


def test_refusal_of_the_cluster_is_told_in_its_own_words() -> None:
    async def refusal(flink: FakeFlink, job_id: str) -> str | None:
        client = FlinkRestClient(flink.endpoint())
        try:
            return (await read_job_facts(client, a_context(job_id=job_id), ClusterFacts(), None)).refusal
        finally:
            await client.aclose()

    with FakeFlink() as flink:
        adaptive, other = flink.add_job("a"), flink.add_job("b", is_adaptive=False)

        told = [asyncio.run(refusal(flink, job.job_id)) for job in (adaptive, other)]

    assert told == ["", "Cannot access the resource requirements"]
