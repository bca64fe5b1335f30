"""Lists the jobs of clusters once, outside of passes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from typing import Final

from flink_autoscaler.core.errors import AutoscalerError, PluginError
from flink_autoscaler.core.ports.deployment import JobList, JobListFetcher
from flink_autoscaler.standalone.settings.schema.settings import Cluster

MOST_AT_ONCE: Final = 16
"""Clusters that are asked at the same time."""

FetcherOf = Callable[[Cluster], JobListFetcher]


def list_jobs(clusters: Sequence[Cluster], fetcher_of: FetcherOf) -> Iterator[tuple[Cluster, JobList]]:
    """Yield the jobs of every cluster, of at least one, in the order of the clusters; fetchers are closed here.

    A cluster that cannot be listed has its error among the problems of an empty list.
    """
    with ThreadPoolExecutor(min(len(clusters), MOST_AT_ONCE)) as pool:
        yield from zip(clusters, pool.map(partial(_listed, fetcher_of), clusters), strict=True)


def _listed(fetcher_of: FetcherOf, cluster: Cluster) -> JobList:
    try:
        with closing(fetcher_of(cluster)) as fetcher:
            return fetcher.fetch()
    except Exception as error:
        # The fetcher may be somebody else's.
        known = error if isinstance(error, AutoscalerError) else PluginError(f"{type(error).__name__}: {error}")
        return JobList((), problems={f"cluster {cluster.name}": known})
