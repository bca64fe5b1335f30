"""The daemon and its commands, pointed at a YARN cluster."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from flink_autoscaler.stores.sql.database.database import DatabaseSettings
from testkit.clusters.yarn.cluster import YarnCluster
from testkit.clusters.yarn.configuration import TIMEOUT
from testkit.scenarios.runner.process import DaemonProcess

UNHURRIED = {
    "job.autoscaler.metrics.window": "6 s",
    "job.autoscaler.stabilization.interval": "2 s",
    "job.autoscaler.restart.time": "3 s",
    "job.autoscaler.catch-up.duration": "30 s",
    "job.autoscaler.vertex.max-parallelism": "6",
    "job.autoscaler.metrics.busy-time.aggregator": "AVG",
    "job.autoscaler.flink.rest-client.timeout": "10 s",
    "autoscaler.standalone.control-loop.interval": "1 s",
    "autoscaler.standalone.event-handler.type": "LOGGING",
}
"""Containers start within seconds, and Flink has new metrics every two."""


class Autoscaling:
    """Runs the daemon and its commands for the Flink applications of one YARN cluster.

    Settings below ``autoscaler.clusters.0.yarn`` are keyword arguments, a list as ``"a;b"``.
    """

    def __init__(self, cluster: YarnCluster, folder: Path) -> None:
        """Start nothing; database and logs go to a folder."""
        self._cluster = cluster
        self._folder = folder
        self._daemons = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._daemons.close()

    def jobs(self, **yarn: str) -> dict[str, dict[str, Any]]:
        """Return what ``flink-autoscaler jobs`` lists, by the name of the job, which is the end of its key."""
        result = self._list_jobs(yarn)
        assert result.returncode == 0, result.stderr
        return {job["job_key"].removeprefix("yarn/"): job for job in json.loads(result.stdout)["jobs"]}

    def problem(self, **yarn: str) -> str:
        """Return what ``flink-autoscaler jobs`` complains about."""
        result = self._list_jobs(yarn)
        assert result.returncode == 1, result.stdout
        return result.stderr

    def daemon(self, options: Mapping[str, str] | None = None, **yarn: str) -> DaemonProcess:
        """Start a daemon; it ends with this object."""
        database = DatabaseSettings(f"jdbc:sqlite:{self._folder / 'autoscaler.db'}")
        settings = {**UNHURRIED, **self._options(yarn), **(options or {})}
        daemon = DaemonProcess(self._folder, database=database, cluster_url="", options=settings)
        self._daemons.enter_context(daemon)
        daemon.start(wait=False)
        daemon.wait_for("passes", lambda: "watching 1 cluster" in daemon.text(), timeout=TIMEOUT)
        return daemon

    def _list_jobs(self, yarn: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
        overrides = [part for key, value in self._options(yarn).items() for part in ("--set", f"{key}={value}")]
        command = [sys.executable, "-m", "flink_autoscaler.standalone", "jobs", "--json", *overrides]
        return subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT, cwd=self._folder, check=False)

    def _options(self, yarn: Mapping[str, str]) -> dict[str, str]:
        settings = {"url": ";".join(self._cluster.urls), **yarn}
        return {
            "autoscaler.clusters.0.name": "yarn",
            "autoscaler.clusters.0.type": "yarn",
            **{f"autoscaler.clusters.0.yarn.{key.replace('_', '-')}": value for key, value in settings.items()},
        }
