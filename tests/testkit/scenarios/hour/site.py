"""A session cluster of twelve slots, three jobs with a scripted load, and a daemon as the guides say."""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import httpx
import yaml

from testkit.clusters.flink import FlinkCluster, job
from testkit.clusters.flink.configuration import free_ports
from testkit.clusters.flink.job import WORK_VERTEX, ScalingJob
from testkit.clusters.flink.waiting import wait_until
from testkit.scenarios.hour.diary import Diary
from testkit.scenarios.runner.process import DaemonProcess

T = TypeVar("T")

PAYMENTS, ORDERS, AUDIT = "payments", "orders", "audit"

PAYMENTS_RATE = 300.0
"""Records/s that arrive at the first job, always; one subtask of its vertex *work* sustains 1,000."""

QUIET_SECONDS = 60.0
"""So long nobody asks the cluster for metrics before the daemon begins."""

FLINK = {"metrics.fetcher.update-interval": "10000", "web.timeout": "20 s"}
"""Flink's own interval between two gatherings of metrics, and the short timeout that the guide advises."""


def jobs(start_ms: int) -> dict[str, ScalingJob]:
    """Return the jobs: one even, one with a peak of four minutes, one with next to nothing to do."""
    peak = "-5:200,270:200,290:2600,540:2600,560:200"
    shared: dict[str, Any] = {"start_ms": start_ms, "splits": 12, "max_parallelism": 120, "partition_metrics": True}
    return {
        PAYMENTS: ScalingJob(name=PAYMENTS, curve=f"-5:{PAYMENTS_RATE:g}", parallelism_work=3, **shared),
        ORDERS: ScalingJob(name=ORDERS, curve=peak, **shared),
        AUDIT: ScalingJob(name=AUDIT, curve="-5:20", **shared),
    }


def configuration(url: str, folder: Path, http_port: int) -> dict[str, object]:
    """Return the configuration of a person who tries the daemon out: short windows, and everything kept."""
    return {
        "autoscaler.clusters": [{"name": "session", "url": url}],
        "autoscaler.http.port": http_port,
        "autoscaler.log.format": "console",
        "autoscaler.standalone.control-loop.interval": "5 s",
        "autoscaler.history.enabled": True,
        "autoscaler.history.path": str(folder / "history"),
        "autoscaler.history.interval": "10 s",
        "job.autoscaler.enabled": True,
        "job.autoscaler.stabilization.interval": "10 s",
        "job.autoscaler.metrics.window": "1 min",
        "job.autoscaler.scale-down.interval": "1 min",
        "job.autoscaler.catch-up.duration": "1 min",
        "job.autoscaler.restart.time": "30 s",
        "job.autoscaler.vertex.max-parallelism": 12,
    }


@dataclass
class Site:
    """The cluster, its jobs and the daemon.

    Attributes:
        ids: Job ids by name.
    """

    cluster: FlinkCluster
    folder: Path
    diary: Diary
    ids: dict[str, str]
    http_port: int

    @property
    def log(self) -> str:
        """What the daemon has written so far, for people."""
        return (self.folder / "daemon.log").read_text(encoding="utf-8")

    def work(self, name: str) -> int:
        """Return the parallelism that Flink runs a job's vertex *work* with."""
        return self.cluster.rest.parallelism(self.ids[name])[WORK_VERTEX]

    def runs(self, name: str) -> bool:
        """Tell whether a job runs with all its tasks."""
        return self.cluster.rest.all_tasks_running(self.ids[name])

    def passes(self) -> float:
        """Return how many passes the daemon has done, by its own ``/metrics``."""
        text = httpx.get(f"http://127.0.0.1:{self.http_port}/metrics", timeout=60, trust_env=False).text
        counted = [line for line in text.splitlines() if line.startswith("flink_autoscaler_passes_total")]
        return sum(float(line.split()[-1]) for line in counted)

    def after_passes(self, count: int) -> None:
        """Wait until so many more passes have been done."""
        until = self.passes() + count
        self.wait_until(f"{count} more passes", lambda: self.passes() >= until, 60 + 20 * count)

    def explained(self, name: str) -> dict[str, Any]:
        """Return what ``explain --json`` says of a job now; empty while nothing is recorded."""
        ran = self.diary.run("explain", f"session/{name}", "--json", is_shown=False)
        return dict(json.loads(ran.out)) if ran.code == 0 else {}

    def events(self, name: str) -> list[dict[str, Any]]:
        """Return the events of a job, the oldest first."""
        ran = self.diary.run("events", "--job", f"session/{name}", "--json", is_shown=False)
        return [json.loads(line) for line in ran.out.splitlines()]

    def event(self, name: str, reason: str) -> dict[str, Any] | None:
        """Return the newest event of a kind; None where there is none."""
        return next((each for each in reversed(self.events(name)) if each["reason"] == reason), None)

    def wait_until(self, description: str, probe: Callable[[], T], timeout: float = 300.0) -> T:
        """Return the first truthy result of ``probe``; an error shows the end of the daemon's log."""
        return wait_until(description, probe, timeout, interval=1.0, context=lambda: self.log[-6000:])


@contextmanager
def opened(folder: Path) -> Iterator[Site]:
    """Start the cluster and its jobs, with nobody asking them anything; give the site without its daemon."""
    with FlinkCluster("2.3", taskmanagers=2, slots=6, config=FLINK) as cluster:
        start_ms = int(time.time() * 1000) + 5000
        ids = {name: job.submit(cluster, each) for name, each in jobs(start_ms).items()}
        (port,) = free_ports(1)
        config = folder / "autoscaler.yaml"
        config.write_text(yaml.safe_dump(configuration(cluster.rest_url, folder, port), sort_keys=False))
        (folder / "state").mkdir()
        diary = Diary(folder / "diary.txt", config, _environ(folder))
        yield Site(cluster, folder, diary, ids, port)


@contextmanager
def daemon(site: Site) -> Iterator[DaemonProcess]:
    """Run the daemon as its users do."""
    command = (str(Path(sys.executable).with_name("flink-autoscaler")),)
    with DaemonProcess(site.folder, program=command) as process:
        process.environment |= _environ(site.folder)
        process.start()
        yield process


def _environ(folder: Path) -> dict[str, str]:
    kept = {key: value for key, value in os.environ.items() if not re.match("(AUTOSCALER|JOB)__|FLINK_CONF_DIR", key)}
    return {**kept, "STATE_DIRECTORY": str(folder / "state"), "COLUMNS": "120"}


def widths(log: str) -> Mapping[str, int]:
    """Return the lines of a log for people that are wider than a terminal of 120 columns, with their widths."""
    plain = re.sub(r"\x1b\[[0-9;]*m", "", log)
    return {line: len(line) for line in plain.splitlines() if len(line) > 120}
