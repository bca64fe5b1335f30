"""Fetchers for a fake YARN cluster, and what they need."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack, closing
from functools import cached_property
from typing import Any, Self

from flink_autoscaler.clients.flink.client_cache import ClientCache
from flink_autoscaler.clients.http.event_loop import EventLoopThread
from flink_autoscaler.core.model.job import Endpoint
from flink_autoscaler.core.ports.deployment import JobList
from flink_autoscaler.standalone.fetchers.yarn import YarnFetcher
from flink_autoscaler.standalone.settings.schema.clusters import ClusterSettings, EngineKind
from flink_autoscaler.standalone.settings.schema.settings import Cluster, JobKeyMode
from testkit.fakes.flink import FakeFlink
from testkit.fakes.yarn.application import FakeApplication
from testkit.fakes.yarn.cluster import FakeYarn


class Clock:
    """Seconds that pass when the test says so."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class YarnSite:
    """A fake YARN cluster, JobManagers for its applications, and fetchers of their jobs; a context manager.

    Args:
        managers: How many ResourceManagers.
        jobs: That every JobManager has from the beginning.
    """

    def __init__(self, managers: int = 1, *, jobs: Sequence[str] = ()) -> None:
        self.yarn = FakeYarn(managers)
        self._jobs = jobs
        self._open = ExitStack()
        self._loop = EventLoopThread()
        self._clients = ClientCache(self._loop)

    def __enter__(self) -> Self:
        self._open.callback(self._loop.close)
        self._open.callback(self._clients.close)
        self._open.enter_context(self.yarn)
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    def jobmanager(self) -> FakeFlink:
        """Start one more JobManager."""
        flink = self._open.enter_context(FakeFlink())
        for name in self._jobs:
            flink.add_job(name)
        return flink

    @cached_property
    def flink(self) -> FakeFlink:
        """The first JobManager."""
        return self.jobmanager()

    @cached_property
    def application(self) -> FakeApplication:
        """The application of the first JobManager."""
        return self.yarn.add("application", self.flink)

    def fetcher(
        self,
        *,
        cluster: dict[str, Any] | None = None,
        timeout: float = 30.0,
        job_key: JobKeyMode = JobKeyMode.NAME,
        clock: Clock | None = None,
        **options: Any,
    ) -> YarnFetcher:
        """Make a fetcher.

        Args:
            cluster: The entry of the cluster, but what is below ``yarn``.
            timeout: Of requests, seconds.
            job_key: What keys of jobs are made of.
            clock: Of the fetcher.
            options: Those below ``yarn``.
        """
        entry = a_cluster(self.yarn, timeout=timeout, entry=cluster or {}, **options)
        fetcher = YarnFetcher(entry, loop=self._loop, clients=self._clients, job_key=job_key, clock=clock or Clock())
        return self._open.enter_context(closing(fetcher))

    def fetch(self, **options: Any) -> JobList:
        """Return what a new fetcher finds; options as those of :meth:`fetcher`."""
        return self.fetcher(**options).fetch()


def a_cluster(yarn: FakeYarn, *, timeout: float = 30.0, entry: dict[str, Any], **options: Any) -> Cluster:
    """Return a cluster entry named ``main`` for a fake YARN cluster."""
    values = {"name": "main", "type": "yarn", **entry, "yarn": {"url": yarn.urls, **options}}
    settings = ClusterSettings.model_validate(values)
    return Cluster("main", Endpoint("", timeout=timeout), 10.0, EngineKind.INLINE, {}, settings)


def keys(job_list: JobList) -> list[str]:
    """Return the keys of the jobs, in order."""
    return [context.job_key for context in job_list.jobs]
