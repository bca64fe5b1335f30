"""The tests that every metric source has to pass.

Needs pytest. Subclass the class in a test module and say how a cluster with one job is made, which the source reads::

    class TestPrometheus(MetricSourceContract):
        def make_site(self) -> AbstractContextManager[Site]: ...
"""

# ruff: noqa: S101, D102, PLR2004 - these are tests: they assert, and their names are their documentation

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Protocol, TypeVar

import pytest

from flink_autoscaler.core.errors import AutoscalerError
from flink_autoscaler.core.model.metrics import FlinkMetric
from flink_autoscaler.core.model.reading import ClusterReading, JobReading
from flink_autoscaler.core.observe import metric_names
from flink_autoscaler.core.ports.metric_source import MetricSource
from flink_autoscaler.core.ports.passes import PassRequest

T = TypeVar("T")

UNKNOWN_JOB = "f" * 32
SECONDS = 5.0


class Site(Protocol):
    """A cluster with one running job and a source that reads it.

    The job has a source and one more vertex, both of parallelism 2. The source has read 1000 records and written 1000,
    600 wait for it, and its subtasks are busy for 500 ms of a second; the other vertex has read 1000.
    """

    request: PassRequest
    source_id: str
    other_id: str

    async def make(self) -> MetricSource:
        """Make a source; it is closed afterwards."""
        ...

    def vanish(self) -> None:
        """Let whoever has the metrics be gone."""
        ...


class MetricSourceContract(ABC):
    """Contract of every :class:`MetricSource`."""

    @abstractmethod
    def make_site(self) -> AbstractContextManager[Site]:
        """Make the cluster, the job and the source."""

    @pytest.fixture
    def site(self) -> Iterator[Site]:
        with self.make_site() as site:
            yield site

    def test_counters_are_sums_over_the_subtasks(self, site: Site) -> None:
        reading = read(site, site.request)

        assert reading.error is None
        assert reading.details is not None
        source, other = (next(v for v in reading.details.vertices if v.vertex_id == x) for x in ids(site))
        assert (source.io.records_out, other.io.records_in) == (1000, 1000)
        assert source.io.is_complete
        assert other.io.is_complete

    def test_metrics_are_there_by_their_meaning(self, site: Site) -> None:
        reading = read(site, site.request)

        aggregates = reading.aggregates[site.source_id]
        assert aggregates[FlinkMetric.PENDING_RECORDS].total == pytest.approx(600)
        assert aggregates[FlinkMetric.BUSY_TIME].maximum == pytest.approx(500)
        assert aggregates[FlinkMetric.BUSY_TIME].average == pytest.approx(500)
        assert FlinkMetric.BUSY_TIME in reading.aggregates[site.other_id]

    def test_partitions_of_sources_are_remembered(self, site: Site) -> None:
        memory = read(site, site.request).memory

        assert memory.partitions == {site.source_id: 4}
        assert memory.topics.keys() == {site.source_id}

    def test_what_is_remembered_may_be_handed_back(self, site: Site) -> None:
        first = read(site, site.request)

        second = read(site, replace(site.request, memory=first.memory))

        assert second.error is None
        assert second.aggregates.keys() == first.aggregates.keys()

    def test_a_job_that_is_gone_has_an_error_and_others_none(self, site: Site) -> None:
        gone = replace(site.request, context=replace(site.request.context, job_id=UNKNOWN_JOB, job_key="gone"))

        lost, found = run(site, lambda source: _both(source, [gone, site.request]))

        assert isinstance(lost.error, AutoscalerError)
        assert found.error is None

    def test_the_cluster_tells_its_heap_and_its_slots(self, site: Site) -> None:
        cluster = read_cluster(site)

        assert cluster.error is None
        assert cluster.has_taskmanagers
        assert float(cluster.jobmanager[metric_names.SLOTS_TOTAL]) == 16

    def test_nobody_there_is_an_error_in_the_readings(self, site: Site) -> None:
        site.vanish()

        reading, cluster = read(site, site.request), read_cluster(site)

        assert isinstance(reading.error, AutoscalerError)
        assert isinstance(cluster.error, AutoscalerError)
        assert not reading.aggregates
        assert not cluster.has_taskmanagers


def ids(site: Site) -> tuple[str, str]:
    """Return the vertices of the job, the source first."""
    return site.source_id, site.other_id


def read(site: Site, request: PassRequest) -> JobReading:
    """Read one job."""
    return run(site, lambda source: _both(source, [request]))[0]


def read_cluster(site: Site) -> ClusterReading:
    """Read the cluster, without waiting for fresh metrics."""
    return run(site, lambda source: source.read_cluster(SECONDS, is_fresh=False))


def run(site: Site, use: Callable[[MetricSource], Awaitable[T]]) -> T:
    """Make a source, use it, and close it."""

    async def main() -> T:
        source = await site.make()
        try:
            return await use(source)
        finally:
            await source.aclose()

    return asyncio.run(main())


async def _both(source: MetricSource, requests: list[PassRequest]) -> list[JobReading]:
    reader = await source.prepare(requests, SECONDS)
    return [await reader(request) for request in requests]
