"""What a job of a real session cluster brings along itself counts, also while Flink does not know it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from flink_autoscaler.clients.flink.client_cache import ClientCache
from flink_autoscaler.clients.http.event_loop import EventLoopThread
from flink_autoscaler.core.model.job import Endpoint, JobStatus
from flink_autoscaler.core.options.context import JobAutoScalerContext
from flink_autoscaler.standalone.fetchers.flink import FlinkClusterFetcher
from flink_autoscaler.standalone.settings.schema.clusters import ClusterSettings, EngineKind
from flink_autoscaler.standalone.settings.schema.settings import Cluster
from testkit.clusters.flink import FlinkCluster, job
from testkit.clusters.flink.waiting import wait_until

pytestmark = pytest.mark.e2e

PARAMETERS = {
    "pipeline.global-job-parameters": "job.autoscaler.enabled:true,job.autoscaler.utilization.target:0.5,input:x"
}


@pytest.fixture(params=[pytest.param("1.20", marks=pytest.mark.suite(name="long")), "2.3"])
def flink(request: pytest.FixtureRequest) -> Iterator[FlinkCluster]:
    with FlinkCluster(request.param, taskmanagers=0) as cluster:
        yield cluster


@pytest.fixture
def fetcher(flink: FlinkCluster) -> Iterator[FlinkClusterFetcher]:
    loop = EventLoopThread()
    clients = ClientCache(loop)
    settings = ClusterSettings(name="main", url=(flink.rest_url,))
    cluster = Cluster("main", Endpoint(flink.rest_url), 10.0, EngineKind.INLINE, {}, settings)
    yield FlinkClusterFetcher(cluster, loop=loop, clients=clients)
    clients.close()
    loop.close()


def only(fetcher: FlinkClusterFetcher) -> JobAutoScalerContext:
    (context,) = fetcher.fetch().jobs
    return context


def test_a_job_enables_the_autoscaler_itself_through_all_of_its_life(
    flink: FlinkCluster, fetcher: FlinkClusterFetcher
) -> None:
    job_id = flink.upload_and_run(
        job.build(flink.version),
        entry_class=job.ENTRY_CLASS,
        args=job.ScalingJob().arguments(),
        config=PARAMETERS,
    )

    wait_until("the job to wait for slots", lambda: only(fetcher).status is JobStatus.CREATED, timeout=300)
    waiting = only(fetcher)
    flink.add_taskmanager()
    flink.wait_for_running(job_id)
    wait_until("the job to be known to run", lambda: only(fetcher).status is JobStatus.RUNNING, timeout=300)
    running = only(fetcher)
    flink.taskmanagers[0].kill()
    wait_until("the job to wait again", lambda: only(fetcher).status is JobStatus.CREATED, timeout=300)
    waiting_again = only(fetcher)

    # Flink itself answers as if the job had no parameters whenever it waits for slots.
    assert [context.options.enabled for context in (waiting, running, waiting_again)] == [True, True, True]
    assert [context.options.utilization_target for context in (running, waiting_again)] == [0.5, 0.5]
    assert "input" not in running.configuration
