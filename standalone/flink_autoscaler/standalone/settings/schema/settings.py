"""The settings of the daemon: typed, immutable, with every cluster's own values worked out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pydantic import Field

from flink_autoscaler.core.model.job import Endpoint
from flink_autoscaler.core.options.job import AutoscalerOptions
from flink_autoscaler.standalone.settings.schema.sections import (
    ClusterSettings,
    DaemonSettings,
    EngineKind,
    EngineSettings,
    HttpSettings,
    LogFormat,
    LogLevel,
    LogSettings,
    LoopSettings,
    StandaloneSettings,
)

ONLY_CLUSTER = "default"
"""Name of the cluster that is given by host and port."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """One cluster with everything that holds for it; nothing is left to look up elsewhere.

    Attributes:
        name: Unique name.
        endpoint: The first JobManager and the limits of requests, without credentials (see :mod:`.access`); its URL
            is empty where JobManagers are found elsewhere.
        interval: Seconds between the end of a pass and the start of the next.
        engine: Where its jobs are evaluated.
        job_defaults: Configuration of its jobs before what the cluster reports, flat, as text.
        settings: Everything else, as it was configured.
    """

    name: str
    endpoint: Endpoint
    interval: float
    engine: EngineKind
    job_defaults: Mapping[str, str] = field(repr=False)
    settings: ClusterSettings = field(repr=False)

    @property
    def shown_url(self) -> str:
        """Where it is, for people."""
        return ", ".join(self.settings.url or self.settings.yarn.url) or self.settings.type


class Settings(DaemonSettings):
    """Everything the daemon needs to know when it starts.

    ``Settings()`` holds the defaults. Build one from files and variables with
    :func:`flink_autoscaler.standalone.settings.loading.load_settings`.
    """

    job_defaults: Mapping[str, str] = Field(
        default_factory=dict,
        repr=False,
        description="What was set for jobs of all clusters: job.autoscaler.* and Flink's own keys, flat, as text.",
    )

    def effective_clusters(self) -> tuple[Cluster, ...]:
        """Return the configured clusters, or the one given by host and port where none is."""
        return tuple(self._effective(cluster) for cluster in self.clusters or (self._only_cluster(),))

    def _only_cluster(self) -> ClusterSettings:
        host = self.standalone.host
        shown = f"[{host}]" if ":" in host and not host.startswith("[") else host
        return ClusterSettings(name=ONLY_CLUSTER, url=(f"http://{shown}:{self.standalone.port}",))

    def _effective(self, cluster: ClusterSettings) -> Cluster:
        job_defaults = {**self.job_defaults, **cluster.options}
        endpoint = Endpoint(
            url=cluster.url[0] if cluster.url else "",
            timeout=cluster.timeout or AutoscalerOptions(job_defaults).rest_client_timeout.exact_seconds,
            max_connections=cluster.max_connections,
            max_response_bytes=cluster.max_response_bytes,
        )
        return Cluster(
            name=cluster.name,
            endpoint=endpoint,
            interval=cluster.interval or self.standalone.control_loop_interval,
            engine=cluster.engine or self.engine.kind,
            job_defaults=job_defaults,
            settings=cluster,
        )


__all__ = [
    "ONLY_CLUSTER",
    "Cluster",
    "ClusterSettings",
    "EngineKind",
    "EngineSettings",
    "HttpSettings",
    "LogFormat",
    "LogLevel",
    "LogSettings",
    "LoopSettings",
    "Settings",
    "StandaloneSettings",
]
