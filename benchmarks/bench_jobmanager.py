"""What reading its jobs costs a JobManager: ``PYTHONPATH=tests:. python benchmarks/bench_jobmanager.py``.

Starts a real Flink 2.3 with 20 small jobs (``--jobs``) and a Prometheus, and lets it alone, lets a daemon read it over
REST and one by Prometheus, in turns (``--rounds`` of ``--seconds`` each), with a pass every ``--interval`` seconds.
Prints per minute, as medians of the rounds: processor time of the JobManager, of the TaskManagers and of Prometheus,
requests to the JobManager, and queries. Prometheus scrapes all the time, so the first line is what nothing but its
scrapes cost.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks.counting_proxy import CountingProxy
from benchmarks.measuring import TICKS, quiet_logs
from flink_autoscaler.standalone.daemon.cluster_pass import ClusterPass
from flink_autoscaler.standalone.daemon.wiring import Wiring
from flink_autoscaler.standalone.settings.loading import SettingsLoader
from testkit.clusters.flink import job
from testkit.clusters.flink.reporter import ReportingCluster
from testkit.servers.prometheus import Prometheus

FLINK: Final = {"metrics.fetcher.update-interval": "10000", "web.refresh-interval": "3000"}
"""What Flink comes with: the test cluster is set to gather more often."""

SCRAPE: Final = "15s"


@dataclass
class Site:
    """The processes whose time is measured."""

    cluster: ReportingCluster
    prometheus: Prometheus
    proxy: CountingProxy

    def usage(self) -> dict[str, float]:
        """Return seconds of processor time and counts so far."""
        taskmanagers = sum(cpu_of(each.pid) for each in self.cluster.taskmanagers)
        return {
            "JobManager": cpu_of(self.cluster.jobmanager.pid),
            "TaskManagers": taskmanagers,
            "Prometheus": cpu_of(self.prometheus.pid),
            "requests": float(self.proxy.requests),
            "queries": float(self.prometheus.queries_served()),
        }


def cpu_of(pid: int) -> float:
    """Return the processor time of a process, seconds."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


@contextmanager
def a_site(jobs: int) -> Iterator[Site]:
    """Start everything, with jobs of three vertices that have a little to do."""
    with ExitStack() as open_:
        slots = (jobs + 1) // 2
        cluster = open_.enter_context(ReportingCluster("2.3", taskmanagers=2, slots=slots, config=FLINK))
        folder = Path(open_.enter_context(tempfile.TemporaryDirectory()))
        rules: dict[str, list[str]] = {"groups": []}
        prometheus = Prometheus(folder, target=cluster.targets, rules=rules, interval=SCRAPE)
        open_.enter_context(prometheus)
        for number in range(jobs):
            made = job.ScalingJob(name=f"job {number}", curve="0:20", checkpoint_interval_ms=60_000)
            job.submit(cluster, made)
        port = int(cluster.rest_url.rpartition(":")[2])
        yield Site(cluster, prometheus, open_.enter_context(CountingProxy(port)))


@contextmanager
def a_daemon(site: Site, *, by_prometheus: bool) -> Iterator[ClusterPass]:
    values = {
        "autoscaler.clusters.0.name": "main",
        "autoscaler.clusters.0.url": site.proxy.url,
        "autoscaler.engine.kind": "inline",
        "autoscaler.dry-run": "true",
        "autoscaler.standalone.state-store.type": "heap",
        "job.autoscaler.enabled": "true",
    }
    if by_prometheus:
        section = "autoscaler.clusters.0.metrics."
        values |= {f"{section}source": "prometheus", f"{section}prometheus.url": site.prometheus.url}
    overrides = [f"{key}={value}" for key, value in values.items()]
    settings = SettingsLoader(overrides=overrides, environment={}).read()
    with Wiring(settings) as wiring:
        yield wiring.cluster_pass(settings.effective_clusters()[0])


def per_minute(site: Site, passes: ClusterPass | None, seconds: float, interval: float) -> dict[str, float]:
    """Return what everything took per minute with a pass every ``interval`` seconds; None does none."""
    if passes is not None:
        passes.run()
    before, began, due = site.usage(), time.monotonic(), time.monotonic()
    while time.monotonic() < began + seconds:
        if passes is not None:
            passes.run()
        due += interval
        time.sleep(max(0.0, due - time.monotonic()))
    after, minutes = site.usage(), (time.monotonic() - began) / 60
    return {name: (after[name] - before[name]) / minutes for name in after}


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--interval", type=float, default=10.0)
    arguments = parser.parse_args()
    quiet_logs()
    with a_site(arguments.jobs) as site, ExitStack() as open_:
        ways: dict[str, ClusterPass | None] = {"nobody": None}
        for name, is_by in (("REST", False), ("Prometheus", True)):
            ways[name] = open_.enter_context(a_daemon(site, by_prometheus=is_by))
        found: dict[str, list[dict[str, float]]] = {name: [] for name in ways}
        for _ in range(arguments.rounds):
            for name, passes in ways.items():
                found[name].append(per_minute(site, passes, arguments.seconds, arguments.interval))
    columns = list(found["REST"][0])
    print(f"{arguments.jobs} jobs, a pass every {arguments.interval:g} s; per minute, processor time in seconds")
    print("| read by |", " | ".join(columns), "|")
    print("|---|" + "---|" * len(columns))
    for name, rounds in found.items():
        figures = {column: statistics.median(each[column] for each in rounds) for column in columns}
        print(f"| {name} |", " | ".join(f"{figures[column]:.2f}" for column in columns), "|")


if __name__ == "__main__":
    main()
