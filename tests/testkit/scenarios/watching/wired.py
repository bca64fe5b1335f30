"""A daemon's own parts, as the settings wire them, for tests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from flink_autoscaler.standalone.daemon.cluster_pass import ClusterPass
from flink_autoscaler.standalone.daemon.wiring import Wiring
from flink_autoscaler.standalone.settings.loading import load_settings
from flink_autoscaler.standalone.settings.schema.settings import Settings
from flink_autoscaler.standalone.settings.sources.configuration import load_configuration
from testkit.fakes.flink import FakeFlink


def settings_of(values: Mapping[str, str]) -> Settings:
    """Return the settings that options on the command line make, without a file or variables."""
    overrides = [f"{key}={value}" for key, value in values.items()]
    return load_settings(load_configuration(file=None, environment={}, overrides=overrides))


@contextmanager
def passes_of(flink: FakeFlink, **options: str) -> Iterator[ClusterPass]:
    """Give the passes over a cluster, evaluated inline, with everything kept in memory."""
    values = {
        "autoscaler.clusters.0.name": "main",
        "autoscaler.clusters.0.url": flink.url,
        "autoscaler.engine.kind": "inline",
        "autoscaler.standalone.state-store.type": "heap",
        "autoscaler.standalone.event-handler.type": "logging",
        "job.autoscaler.enabled": "true",
        "job.autoscaler.stabilization.interval": "0 s",
    }
    settings = settings_of(values | options)
    with Wiring(settings) as wiring:
        yield wiring.cluster_pass(settings.effective_clusters()[0])
