"""Flink's PrometheusReporter: its jar from Maven Central, and clusters whose processes export their metrics."""

from __future__ import annotations

import hashlib
import os
import socket
from pathlib import Path
from typing import Any, Final

import httpx

from testkit.clusters.flink.cache import cache_directory, make_once, say
from testkit.clusters.flink.cluster import FlinkCluster
from testkit.clusters.flink.configuration import LOOPBACK, free_ports
from testkit.clusters.flink.errors import HarnessError

REPOSITORY: Final = "https://repo1.maven.org/maven2"
_PATH: Final = "org/apache/flink/flink-metrics-prometheus/{0}/flink-metrics-prometheus-{0}.jar"
_JARS: Final = {
    "1.20": ("1.20.3", "fb6c9a1e7378a6ee9650991de50392605f0f4dfe860352f88d8138766994a985"),
    "2.3": ("2.3.0", "436e7fc627cfc10e933ac643cc27904774b17673d91d8cf5788d0488e6b8812e"),
}
"""Release and digest for each version of Flink; of 1.20 the newest one with a reporter."""


def reporter_jar(version: str) -> Path:
    """Return the reporter for a version of Flink, downloading it on first use.

    Raises:
        HarnessError: It is not in the cache, and cannot be fetched from ``$FLINK_AUTOSCALER_MAVEN`` or Maven Central.
    """
    release, digest = _JARS[version]
    name = f"flink-metrics-prometheus-{release}"
    return make_once(cache_directory() / name, lambda into: _download(release, digest, into)) / f"{name}.jar"


def _download(release: str, digest: str, into: Path) -> None:
    url = f"{os.environ.get('FLINK_AUTOSCALER_MAVEN', REPOSITORY).rstrip('/')}/{_PATH.format(release)}"
    say(f"downloading Flink's Prometheus reporter {release} (0.1 MB, once)")
    try:
        answer = httpx.get(url, timeout=60.0, follow_redirects=True).raise_for_status()
    except httpx.HTTPError as error:
        raise HarnessError(f"{url} cannot be fetched, and is not in the cache: {error}") from error
    if hashlib.sha256(answer.content).hexdigest() != digest:
        raise HarnessError(f"{url} is not the file that it was")
    (into / url.rpartition("/")[2]).write_bytes(answer.content)


class ReportingCluster(FlinkCluster):
    """A session cluster whose processes export their metrics for Prometheus, each on a port of its own.

    Attributes:
        targets: Host and port of each process that may run.
    """

    def __init__(self, version: str, *, taskmanagers: int, **more: Any) -> None:
        self._jar = reporter_jar(version)
        ports = _ports_in_a_row(taskmanagers + 1)
        self.targets = [f"{LOOPBACK}:{port}" for port in ports]
        config = {
            **more.pop("config", {}),
            "metrics.reporter.prom.factory.class": "org.apache.flink.metrics.prometheus.PrometheusReporterFactory",
            "metrics.reporter.prom.port": f"{ports[0]}-{ports[-1]}",
        }
        super().__init__(version, taskmanagers=taskmanagers, config=config, **more)

    def class_path(self) -> str:
        """Return Flink and the reporter."""
        return f"{super().class_path()}:{self._jar}"


def _ports_in_a_row(count: int) -> range:
    """Return free ports in a row: of the range that Flink is given, each process takes one."""
    for _ in range(50):
        (first,) = free_ports(1)
        wanted = range(first, first + count)
        if wanted[-1] < 1 << 16 and all(map(_is_free, wanted)):
            return wanted
    raise HarnessError(f"no {count} free ports in a row")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((LOOPBACK, port)) != 0
