from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest

from flink_autoscaler.core.errors import RealizeError
from flink_autoscaler.core.model.job import Endpoint, JobStatus
from flink_autoscaler.core.options.context import JobAutoScalerContext
from flink_autoscaler.core.ports.deployment import Realization, RealizeResult
from flink_autoscaler.realizers import RescaleApiRealizer
from testkit.builders.realizers import ADAPTIVE, Clients, Clock
from testkit.clusters.flink import FlinkCluster
from testkit.clusters.flink.job import WORK_VERTEX, ScalingJob, submit

pytestmark = pytest.mark.e2e


class Real(NamedTuple):
    """A running job of a real cluster."""

    cluster: FlinkCluster
    context: JobAutoScalerContext
    work: str


@pytest.fixture
def realizer() -> Iterator[RescaleApiRealizer]:
    clients = Clients()
    yield RescaleApiRealizer(clients, clients.loop, clock=Clock())
    clients.close()


@pytest.fixture(params=["2.3", "1.20"])
def real(request: pytest.FixtureRequest, flink_session_cluster: Callable[[str], FlinkCluster]) -> Iterator[Real]:
    cluster = flink_session_cluster(request.param)
    job_id = submit(cluster, ScalingJob(cost_micros=100))
    context = JobAutoScalerContext("c/job", job_id, JobStatus.RUNNING, ADAPTIVE, Endpoint(cluster.rest_url))
    yield Real(cluster, context, str(cluster.rest.vertices(job_id)[WORK_VERTEX]["id"]))
    if cluster.rest.job_state(job_id) == "RUNNING":
        cluster.cancel(job_id)


def test_flink_rescales_one_vertex_and_is_asked_once(real: Real, realizer: RescaleApiRealizer) -> None:
    job_id = str(real.context.job_id)

    first = realizer.realize_overrides(real.context, {real.work: 3})
    second = realizer.realize_overrides(real.context, {real.work: 3})

    assert (first.result, first.requested) == (RealizeResult.REQUESTED, {real.work: 3})
    assert second == Realization(RealizeResult.UNCHANGED)
    others = {name: 1 for name in real.cluster.rest.vertices(job_id) if name != WORK_VERTEX}
    real.cluster.wait_until(
        "the new parallelism", lambda: real.cluster.rest.parallelism(job_id) == {**others, WORK_VERTEX: 3}
    )


def test_flink_refuses_more_than_the_max_parallelism(real: Real, realizer: RescaleApiRealizer) -> None:
    with pytest.raises(RealizeError, match="exceeds its maximum parallelism 128"):
        realizer.realize_overrides(real.context, {real.work: 999})


def test_jobs_that_flink_does_not_know_or_that_have_ended_are_refused(real: Real, realizer: RescaleApiRealizer) -> None:
    unknown = dataclasses.replace(real.context, job_id="0" * 32)
    real.cluster.cancel(str(real.context.job_id))

    results = [realizer.realize_overrides(job, {real.work: 2}) for job in (unknown, real.context)]

    assert results == [Realization(RealizeResult.REFUSED)] * 2
