"""Fetchers of the jobs of fake clusters."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from flink_autoscaler.clients.flink.client_cache import ClientCache
from flink_autoscaler.clients.flink.rest import FlinkRestClient
from flink_autoscaler.clients.http.event_loop import EventLoopThread
from flink_autoscaler.core.model.job import Endpoint
from flink_autoscaler.standalone.fetchers.flink import FlinkClusterFetcher
from flink_autoscaler.standalone.settings.schema.clusters import ClusterSettings, EngineKind
from flink_autoscaler.standalone.settings.schema.settings import Cluster
from testkit.fakes.flink.cluster import FakeFlink

MakeFetcher = Callable[..., FlinkClusterFetcher]


@contextmanager
def flink_fetchers() -> Iterator[MakeFetcher]:
    """Give what makes a fetcher for a cluster ``main`` of some JobManagers.

    It takes the options of the cluster's entry as keywords, and besides ``timeout``, ``job_defaults``, ``parts``
    (further arguments of the fetcher) and ``meanwhile``, which is called before every pass over a JobManager.
    """
    loop = EventLoopThread()
    clients = ClientCache(loop)

    def make(
        *flinks: FakeFlink,
        timeout: float = 30.0,
        job_defaults: Mapping[str, str] | None = None,
        parts: Mapping[str, Any] | None = None,
        meanwhile: Callable[[], object] = lambda: None,
        **settings: Any,
    ) -> FlinkClusterFetcher:
        def clients_of(endpoint: Endpoint) -> FlinkRestClient:
            meanwhile()
            return clients(endpoint)

        urls = settings.pop("url", tuple(flink.url for flink in flinks))
        entry = ClusterSettings(name="main", url=urls, **settings)
        place = Endpoint(urls[0], timeout=timeout)
        cluster = Cluster("main", place, 10.0, EngineKind.INLINE, job_defaults or {}, entry)
        return FlinkClusterFetcher(cluster, loop=loop, clients=clients_of, **(parts or {}))

    yield make
    clients.close()
    loop.close()
