from __future__ import annotations

import asyncio

from flink_autoscaler.clients.flink.rest import FlinkRestClient
from flink_autoscaler.core.errors import MissingMetricError
from flink_autoscaler.core.model.job import JobStatus
from flink_autoscaler.core.model.reading import JobReading
from flink_autoscaler.standalone.readiness.checks import JobFacts
from flink_autoscaler.standalone.readiness.inspection import read_job_facts, read_metrics
from testkit.builders.core import a_context
from testkit.fakes.flink import Canned, FakeFlink, chain


async def read(flink: FakeFlink, job_id: str, *, metric_timeout: float) -> tuple[JobReading, list[float]]:
    """Read the metrics of a job; returns what was told about waiting, too."""
    waited: list[float] = []
    client = FlinkRestClient(flink.endpoint())
    try:
        return await read_metrics(client, a_context(job_id=job_id), metric_timeout, waited.append), waited
    finally:
        await client.aclose()


async def facts_of(flink: FakeFlink, job_id: str, status: JobStatus = JobStatus.RUNNING) -> JobFacts:
    client = FlinkRestClient(flink.endpoint())
    try:
        return await read_job_facts(client, a_context(job_id=job_id, status=status), None, 60.0, lambda _: None)
    finally:
        await client.aclose()


def test_metrics_that_are_there_are_not_waited_for() -> None:
    with FakeFlink() as flink:
        job = flink.add_job("orders", chain(vertices=2))

        reading, waited = asyncio.run(read(flink, job.job_id, metric_timeout=60.0))

    assert reading.error is None
    assert all(reading.aggregates[vertex.vertex_id] for vertex in job.vertices)
    assert waited == []


def test_metrics_that_never_come_are_waited_for_no_longer_than_told() -> None:
    with FakeFlink() as flink:
        job = flink.add_job("orders", chain(vertices=2))
        flink.fault("/subtasks/metrics", Canned.json([]))

        reading, waited = asyncio.run(read(flink, job.job_id, metric_timeout=0.5))

    assert isinstance(reading.error, MissingMetricError)
    assert waited == [0.5]


def test_job_that_does_not_run_is_not_asked_for_metrics() -> None:
    with FakeFlink() as flink:
        job = flink.add_job("orders", chain(vertices=2))

        facts = asyncio.run(facts_of(flink, job.job_id, JobStatus.RESTARTING))

        assert (facts.reading, facts.topology is None) == (None, False)
        assert not any("metrics" in path for path in flink.paths())


def test_refusal_of_the_cluster_is_told_in_its_own_words() -> None:
    with FakeFlink() as flink:
        adaptive, other = flink.add_job("a"), flink.add_job("b", is_adaptive=False)

        told = [asyncio.run(facts_of(flink, job.job_id)).refusal for job in (adaptive, other)]

    assert told == ["", "Cannot access the resource requirements"]
