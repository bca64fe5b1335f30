"""Job details that are older than the list of jobs, as Flink serves them for 3 s after a rescale."""

import asyncio
from dataclasses import replace

import pytest

from flink_autoscaler.clients.flink.collector import read_job
from flink_autoscaler.clients.flink.rest import FlinkRestClient
from flink_autoscaler.core.errors import NotReadyError
from flink_autoscaler.core.model.job import JobStatus
from flink_autoscaler.core.model.reading import JobReading
from flink_autoscaler.core.model.state import EMPTY_STATE
from flink_autoscaler.core.options.context import JobAutoScalerContext
from flink_autoscaler.core.ports.passes import PassRequest
from testkit.fakes.flink import Canned, FakeFlink, chain
from testkit.fakes.flink.answers import details

TASKS = 4
"""Two vertices of parallelism 2."""


def read(flink: FakeFlink, job_id: str, *, task_count: int | None, compat: str = "improved") -> JobReading:
    options = {"job.autoscaler.compat": compat}
    context = JobAutoScalerContext("t/job", job_id, JobStatus.RUNNING, options, flink.endpoint())
    request = PassRequest(replace(context, task_count=task_count), EMPTY_STATE, 1_000_000)

    async def run() -> JobReading:
        client = FlinkRestClient(flink.endpoint())
        try:
            return await read_job(client, request)
        finally:
            await client.aclose()

    return asyncio.run(run())


def readings_of_details(flink: FakeFlink, job_id: str) -> int:
    return sum(request.path == f"/jobs/{job_id}" for request in flink.requests)


def test_details_that_agree_are_read_once(flink: FakeFlink) -> None:
    job = flink.add_job("job", chain(sources=1, vertices=2, parallelism=2))

    reading = read(flink, job.job_id, task_count=TASKS)

    assert reading.error is None
    assert readings_of_details(flink, job.job_id) == 1


def test_details_of_the_execution_before_are_read_again_by_the_next_pass(flink: FakeFlink) -> None:
    job = flink.add_job("job", chain(sources=1, vertices=2, parallelism=1))
    old = Canned.json(details(job))
    job.rescale({vertex.vertex_id: 2 for vertex in job.vertices})
    flink.fault(f"/jobs/{job.job_id}", old, times=1)

    first, second = (read(flink, job.job_id, task_count=TASKS) for _ in range(2))

    assert isinstance(first.error, NotReadyError)
    assert second.details is not None
    assert [node.parallelism for node in second.details.plan] == [2, 2]


def test_contradicting_details_are_mixed_with_nothing_and_waited_for_by_nobody(flink: FakeFlink) -> None:
    job = flink.add_job("job", chain(sources=1, vertices=2, parallelism=1))

    reading = read(flink, job.job_id, task_count=TASKS)

    assert isinstance(reading.error, NotReadyError)
    assert (reading.details, reading.aggregates) == (None, {})
    assert readings_of_details(flink, job.job_id) == 1


@pytest.mark.parametrize(
    ("task_count", "compat"),
    [pytest.param(None, "improved", id="count not known"), pytest.param(TASKS, "reference", id="as the reference")],
)
def test_details_are_believed(flink: FakeFlink, task_count: int | None, compat: str) -> None:
    job = flink.add_job("job", chain(sources=1, vertices=2, parallelism=1))

    reading = read(flink, job.job_id, task_count=task_count, compat=compat)

    assert reading.error is None
