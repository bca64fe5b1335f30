"""Both metric sources keep the contract: over REST, and with the metrics of a Prometheus."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace

import pytest

from flink_autoscaler.clients.flink.rest import FlinkRestClient
from flink_autoscaler.clients.flink.rest_source import RestMetricSource
from flink_autoscaler.clients.prometheus.source import PrometheusMetricSource
from flink_autoscaler.clients.testing.metric_source_contract import MetricSourceContract, Site, read
from flink_autoscaler.core.model.job import Endpoint, JobStatus, PrometheusSource
from flink_autoscaler.core.model.state import EMPTY_STATE
from flink_autoscaler.core.options.context import JobAutoScalerContext
from flink_autoscaler.core.ports.metric_source import MetricSource
from flink_autoscaler.core.ports.passes import PassRequest
from testkit.fakes.flink import FakeFlink, chain
from testkit.fakes.prometheus import FakePrometheus


@dataclass
class FakeSite:
    """A fake cluster and, where it has one, a fake Prometheus."""

    flink: FakeFlink
    endpoint: Endpoint
    request: PassRequest
    source_id: str
    other_id: str
    prometheus: FakePrometheus | None = None

    async def make(self) -> MetricSource:
        client = FlinkRestClient(self.endpoint)
        source = self.endpoint.prometheus
        return _RestAlone(client) if source is None else _WithPrometheus(source, client)

    def vanish(self) -> None:
        (self.prometheus or self.flink).pause()


class _RestAlone(RestMetricSource):
    def __init__(self, client: FlinkRestClient) -> None:
        super().__init__(client)
        self._owned = client

    async def aclose(self) -> None:
        await self._owned.aclose()


class _WithPrometheus(PrometheusMetricSource):
    def __init__(self, source: PrometheusSource, client: FlinkRestClient) -> None:
        super().__init__(source, client)
        self._owned = client

    async def aclose(self) -> None:
        await super().aclose()
        await self._owned.aclose()


def a_site(flink: FakeFlink, prometheus: FakePrometheus | None) -> FakeSite:
    start_ms = time.time_ns() // 1_000_000 - 3_600_000
    job = flink.add_job("orders", chain(sources=1, vertices=2, parallelism=2), start_ms=start_ms)
    source, other = job.vertices
    source.metrics["Source__source_0.pendingRecords"] = 300.0
    reached = flink.endpoint(timeout=2.0, prometheus=None if prometheus is None else prometheus.source())
    configuration = {"job.autoscaler.enabled": "true"}
    context = JobAutoScalerContext("main/orders", job.job_id, JobStatus.RUNNING, configuration, reached, task_count=4)
    request = PassRequest(context, EMPTY_STATE, time.time_ns() // 1_000_000)
    return FakeSite(flink, reached, request, source.vertex_id, other.vertex_id, prometheus)


class TestRest(MetricSourceContract):
    def make_site(self) -> AbstractContextManager[Site]:
        @contextmanager
        def site() -> Iterator[Site]:
            with FakeFlink() as flink:
                yield a_site(flink, None)

        return site()


class TestPrometheus(MetricSourceContract):
    def make_site(self) -> AbstractContextManager[Site]:
        @contextmanager
        def site() -> Iterator[Site]:
            with FakeFlink() as flink, FakePrometheus(flink) as prometheus:
                yield a_site(flink, prometheus)

        return site()


@pytest.mark.parametrize(
    ("compat", "expected"), [pytest.param("improved", 2, id="improved"), pytest.param("reference", 4, id="reference")]
)
def test_prometheus_tells_the_partitions_that_a_dynamic_source_reads(compat: str, expected: int) -> None:
    with FakeFlink() as flink, FakePrometheus(flink) as prometheus:
        site = a_site(flink, prometheus)
        (job,) = flink.jobs.values()
        job.vertices[0].metrics["Source__source_0.DynamicKafkaSource.activeSplitCount"] = 1.0
        configuration = {**site.request.context.configuration, "job.autoscaler.compat": compat}
        request = replace(site.request, context=replace(site.request.context, configuration=configuration))

        reading = read(site, request)

    assert reading.memory.partitions == {site.source_id: expected}
