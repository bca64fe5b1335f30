"""For notebooks: the clusters of the daemon's configuration as options of the data source ``flink_metrics``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from flink_autoscaler.clients.flink.client_cache import ClientCache
from flink_autoscaler.clients.http.event_loop import EventLoopThread
from flink_autoscaler.core.errors import ConfigError, FlinkRestError
from flink_autoscaler.core.model.job import Endpoint
from flink_autoscaler.pipeline.data_source import endpoint_options
from flink_autoscaler.standalone.fetchers.flink import JobManagers
from flink_autoscaler.standalone.fetchers.listing import build_fetcher
from flink_autoscaler.standalone.settings.credentials import Credentials
from flink_autoscaler.standalone.settings.loading import SettingsLoader
from flink_autoscaler.standalone.settings.schema.settings import Cluster


def metrics_options(config: str | Path | None, overrides: Sequence[str] = ()) -> dict[str, str]:
    """Return options for ``spark.read.format("flink_metrics").options(**...)``.

    Credentials are read now, and the JobManagers that answer now are the ones that will be asked: call it anew where
    either may have changed. The options hold credentials in one value, which Spark hides; do not print them.

    Args:
        config: The configuration file; None takes the environment and the defaults only, as the daemon does.
        overrides: Further options, each ``key=value``, as after ``--set``.

    Raises:
        ConfigError: The configuration or a credential cannot be used.
        AutoscalerError: A cluster other than of type flink could not be listed.
    """
    settings, _ = SettingsLoader(None if config is None else Path(config), overrides).load()
    loop = EventLoopThread()
    clients = ClientCache(loop)
    offered = {"settings": settings, "loop": loop, "clients": clients, "job_key": settings.job_key}
    found: dict[str, Endpoint] = {}
    try:
        for cluster in settings.effective_clusters():
            if cluster.settings.type == "flink":
                found[cluster.name] = _session_endpoint(cluster, loop, clients)
            else:
                found |= _application_endpoints(cluster, offered)
    finally:
        clients.close()
        loop.close()
    if not found:
        raise ConfigError("no cluster of the configuration has jobs at the moment")
    return endpoint_options(found)


def _session_endpoint(cluster: Cluster, loop: EventLoopThread, clients: ClientCache) -> Endpoint:
    try:
        return JobManagers(cluster, loop=loop, clients=clients).list_jobs().client.endpoint
    except FlinkRestError:  # the data source says so, or leaves it out
        return Credentials(cluster.settings, f"cluster '{cluster.name}': ").with_credentials(cluster.endpoint)


def _application_endpoints(cluster: Cluster, offered: Mapping[str, Any]) -> dict[str, Endpoint]:
    """Return the JobManagers that run jobs at the moment, such as one per YARN application."""
    with closing(build_fetcher(cluster, offered)) as fetcher:
        jobs = fetcher.fetch().jobs
    endpoints = {job.endpoint: job.labels.get("yarn_application_id", job.endpoint.url) for job in jobs}
    return {f"{cluster.name}/{name}": endpoint for endpoint, name in endpoints.items()}
