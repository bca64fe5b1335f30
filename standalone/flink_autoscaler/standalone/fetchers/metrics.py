"""Which server has the metrics of a cluster, with the credentials for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from flink_autoscaler.core.model.job import Endpoint, PrometheusSource
from flink_autoscaler.standalone.settings.credentials import Access
from flink_autoscaler.standalone.settings.schema.clusters import ClusterSettings

MOST_CONNECTIONS: Final = 4
"""Queries under way at the same time: each takes the server as much work as many of a dashboard."""

_REPLICA_LABELS: Final[Mapping[str, tuple[str, ...]]] = {
    "reporter": ("prometheus_replica", "replica"),
    "kubernetes-operator": ("prometheus_replica", "prometheus"),
    "pushgateway": ("prometheus_replica", "replica"),
}


class MetricAccess:
    """Puts into endpoints where the metrics of their jobs are. Called once per pass, as :class:`Access` is.

    Args:
        settings: Of the cluster.
        keys: Put before the names of options in messages, such as ``cluster 'x': ``.
    """

    def __init__(self, settings: ClusterSettings, keys: str) -> None:
        self._settings = settings.metrics
        self._access = Access(settings.metrics.prometheus, f"{keys}metrics.prometheus.")

    def sourced(self, endpoint: Endpoint) -> Endpoint:
        """Return the endpoint with its source of metrics; an equal one if nothing was replaced.

        Raises:
            ConfigError: A secret is not where the settings say.
        """
        if self._settings.source == "rest":
            return endpoint
        settings = self._settings.prometheus
        server = Endpoint(
            settings.url[0],
            timeout=settings.timeout,
            max_connections=MOST_CONNECTIONS,
            max_response_bytes=settings.max_response_bytes,
        )
        replicas = settings.replica_labels
        source = PrometheusSource(
            self._access.secured(server),
            max_age=settings.max_age,
            selector=tuple(sorted(settings.selector.items())),
            names=tuple(sorted(settings.names.items())),
            labels=tuple(sorted(settings.labels.items())),
            replica_labels=_REPLICA_LABELS[settings.preset] if replicas is None else replicas,
            is_pushed=settings.preset == "pushgateway",
        )
        return replace(endpoint, prometheus=source)
