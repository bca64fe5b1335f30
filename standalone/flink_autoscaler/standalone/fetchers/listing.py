"""Lists the jobs of clusters by their fetchers, with no other part of a daemon."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, closing
from functools import partial
from typing import Final

from flink_autoscaler.clients.flink.client_cache import ClientCache
from flink_autoscaler.clients.http.event_loop import EventLoopThread
from flink_autoscaler.core.border import Border
from flink_autoscaler.core.errors import ConfigError, PluginError
from flink_autoscaler.core.options.option import nearest
from flink_autoscaler.core.ports.deployment import JobList, JobListFetcher
from flink_autoscaler.standalone.settings.plugins import PluginGroup, make_plugin
from flink_autoscaler.standalone.settings.schema.settings import Cluster, Settings

MOST_AT_ONCE: Final = 16
"""Clusters that are asked at the same time."""


class Listing(AbstractContextManager["Listing"]):
    """Resources for listing jobs; a context manager that closes them."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        with ExitStack() as undo:
            self.loop = EventLoopThread()
            undo.callback(self.loop.close)
            self.clients = ClientCache(self.loop)
            undo.callback(self.clients.close)
            self._open = undo.pop_all()

    def __exit__(self, *_: object) -> None:
        """Close everything."""
        self._open.close()

    def fetcher(self, cluster: Cluster) -> JobListFetcher:
        """Make the fetcher of a cluster; the caller closes it. May raise :class:`ConfigError`."""
        settings = self._settings
        offered = {"settings": settings, "loop": self.loop, "clients": self.clients, "job_key": settings.job_key}
        return build_fetcher(cluster, offered)

    def jobs(self, clusters: Sequence[Cluster]) -> Iterator[tuple[Cluster, JobList]]:
        """Yield the jobs of every cluster, as :func:`list_jobs` does."""
        return list_jobs(clusters, self.fetcher)


def build_fetcher(cluster: Cluster, offered: Mapping[str, object]) -> JobListFetcher:
    """Build the fetcher that a cluster asks for; ``cluster`` is offered besides. May raise :class:`ConfigError`."""
    offered = {**offered, "cluster": cluster}
    fetcher: JobListFetcher = make_plugin(PluginGroup.FETCHERS, cluster.settings.type, offered, cluster=cluster.name)
    return fetcher


def list_jobs(
    clusters: Sequence[Cluster], fetcher_of: Callable[[Cluster], JobListFetcher]
) -> Iterator[tuple[Cluster, JobList]]:
    """Yield the jobs of every cluster, of at least one, in the order of the clusters; fetchers are closed here.

    A cluster that cannot be listed has its error among the problems of an empty list.
    """
    with ThreadPoolExecutor(min(len(clusters), MOST_AT_ONCE)) as pool:
        yield from zip(clusters, pool.map(partial(_listed, fetcher_of), clusters), strict=True)


def _listed(fetcher_of: Callable[[Cluster], JobListFetcher], cluster: Cluster) -> JobList:
    with Border() as border, closing(fetcher_of(cluster)) as fetcher:  # the fetcher may be somebody else's
        return fetcher.fetch()
    return JobList((), problems={f"cluster {cluster.name}": border.error or PluginError("no list")})


def chosen_clusters(settings: Settings, name: str | None) -> tuple[Cluster, ...]:
    """Return the clusters with a name, or all of them without one.

    Raises:
        ConfigError: No cluster has the name.
    """
    clusters = settings.effective_clusters()
    known = [cluster.name for cluster in clusters]
    if name is not None and name not in known:
        raise ConfigError(f"there is no cluster '{name}'; known: {', '.join(known)}{nearest(name, known)}")
    return tuple(cluster for cluster in clusters if name in (None, cluster.name))
