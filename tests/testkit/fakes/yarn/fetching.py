"""Fetchers for a fake YARN cluster, and what they need."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from typing import Any

from flink_autoscaler.clients.flink.client_cache import ClientCache
from flink_autoscaler.clients.http.event_loop import EventLoopThread
from flink_autoscaler.core.model.job import Endpoint
from flink_autoscaler.core.ports.deployment import JobList
from flink_autoscaler.standalone.fetchers.yarn import YarnFetcher
from flink_autoscaler.standalone.settings.schema.clusters import ClusterSettings, EngineKind
from flink_autoscaler.standalone.settings.schema.settings import Cluster, JobKeyMode
from testkit.fakes.yarn.cluster import FakeYarn

FetcherOf = Callable[..., YarnFetcher]


class Clock:
    """Seconds that pass when the test says so."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@contextmanager
def fetchers_of(yarn: FakeYarn) -> Iterator[tuple[FetcherOf, ClientCache]]:
    """Give a function that makes fetchers, and the clients that they use; all are closed in the end.

    The function takes the options below ``yarn`` of the cluster entry as keywords, and besides ``cluster`` (the rest of
    the entry), ``timeout``, ``job_key`` and ``clock``.
    """
    with ExitStack() as open_ones:
        loop = EventLoopThread()
        open_ones.callback(loop.close)
        clients = ClientCache(loop)
        open_ones.callback(clients.close)

        def fetcher_of(
            *,
            cluster: dict[str, Any] | None = None,
            timeout: float = 5.0,
            job_key: JobKeyMode = JobKeyMode.NAME,
            clock: Clock | None = None,
            **options: Any,
        ) -> YarnFetcher:
            fetcher = YarnFetcher(
                a_cluster(yarn, timeout=timeout, entry=cluster or {}, **options),
                loop=loop,
                clients=clients,
                job_key=job_key,
                clock=clock or Clock(),
            )
            return open_ones.enter_context(closing(fetcher))

        yield fetcher_of, clients


def a_cluster(yarn: FakeYarn, *, timeout: float = 5.0, entry: dict[str, Any], **options: Any) -> Cluster:
    """Return a cluster entry named ``main`` for a fake YARN cluster."""
    values = {"name": "main", "type": "yarn", **entry, "yarn": {"url": yarn.urls, **options}}
    settings = ClusterSettings.model_validate(values)
    return Cluster("main", Endpoint("", timeout=timeout), 10.0, EngineKind.INLINE, {}, settings)


def keys(job_list: JobList) -> list[str]:
    """Return the keys of the jobs, in order."""
    return [context.job_key for context in job_list.jobs]
