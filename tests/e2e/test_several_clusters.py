"""One daemon and several real clusters at once: Flink 1.20 and 2.3, sessions and an application."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx
import pytest
import yaml

from testkit.clusters.flink import FlinkApplicationCluster, FlinkCluster, job
from testkit.clusters.flink.configuration import free_ports
from testkit.clusters.flink.waiting import wait_until

pytestmark = [pytest.mark.e2e, pytest.mark.suite(name="long")]

INTERVAL = 1.0
OPTIONS = {
    "job.autoscaler.enabled": True,
    "job.autoscaler.metrics.window": "8 s",
    "job.autoscaler.stabilization.interval": "2 s",
    "job.autoscaler.scale-down.interval": "1 h",
    "job.autoscaler.restart.time": "3 s",
    "job.autoscaler.catch-up.duration": "30 s",
    "job.autoscaler.vertex.max-parallelism": 4,
    "job.autoscaler.utilization.target": 0.7,
    "job.autoscaler.metrics.busy-time.aggregator": "AVG",
    "job.autoscaler.flink.rest-client.timeout": "3 s",
    "autoscaler.standalone.control-loop.interval": f"{INTERVAL:g} s",
}
AT_MOST_TWO = {"job.autoscaler.vertex.max-parallelism": "2"}


def busy(name: str) -> job.ScalingJob:
    """Make a job whose vertex "work" needs three subtasks: 1,800 records/s of 1 ms each."""
    return job.ScalingJob(name=name, curve="0:1800", cost_micros=1000, splits=8)


class Daemon:
    """A daemon in a process of its own.

    Args:
        folder: For configuration and log.
        clusters: URLs by name.
    """

    def __init__(self, folder: Path, clusters: Mapping[str, list[str]]) -> None:
        own = {
            "clusters": [{"name": name, "url": urls} for name, urls in clusters.items()],
            "engine": {"kind": "inline"},
            "http": {"port": 0},
            "log": {"format": "json"},
        }
        self._file = folder / "autoscaler.yaml"
        self._file.write_text(yaml.safe_dump({"autoscaler": own, **OPTIONS}))
        self._log = folder / "daemon.log"
        self._http = httpx.Client(trust_env=False, timeout=5.0)

    def __enter__(self) -> Self:
        command = [sys.executable, "-m", "flink_autoscaler.standalone", "run", "--config", str(self._file)]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env={**os.environ, "PYTHONUNBUFFERED": "1"}
            )
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._http.close()
        self._process.kill()
        self._process.wait(30)

    def log_tail(self) -> str:
        """Return the end of the log."""
        return self._log.read_text(errors="replace")[-8000:]

    def lines(self, event: str, cluster: str) -> list[dict[str, Any]]:
        """Return the log lines of one event about one cluster."""
        # The last line may be half written.
        whole = [line for line in self._log.read_text(errors="replace").split("\n")[:-1] if line.startswith("{")]
        return [line for line in map(json.loads, whole) if (line["event"], line.get("cluster")) == (event, cluster)]

    def wait_for(self, description: str, probe: Any, *, timeout: float = 300.0) -> Any:
        """Wait until something holds while the daemon runs; the end of its log is in the error."""

        def running_probe() -> Any:
            assert self._process.poll() is None, self.log_tail()
            return probe()

        return wait_until(description, running_probe, timeout, context=self.log_tail)

    def passes(self, cluster: str) -> int:
        """Return how many passes over a cluster have ended."""
        text = self._http.get(self._url() + "/metrics").text
        found = re.search(rf'^flink_autoscaler_pass_seconds_count{{cluster="{cluster}"}} (\S+)$', text, re.MULTILINE)
        return 0 if found is None else int(float(found[1]))

    def unready(self) -> str:
        """Return what the readiness page says while it is not ready, an empty text otherwise."""
        answer = self._http.get(self._url() + "/readyz")
        return "" if answer.is_success else answer.text

    def _url(self) -> str:
        listening = re.compile(r'"url": "(http://[^"]+)"')
        return str(self.wait_for("the address of its page", lambda: listening.search(self._log.read_text()))[1])


@dataclass(frozen=True)
class Fleet:
    """Real clusters and the daemon that watches them all.

    Attributes:
        old: A session on Flink 1.20, known to the daemon by two URLs of which the first is dead.
        new: A session on Flink 2.3.
        application: An application on Flink 2.3 whose own configuration limits its job.
    """

    old: FlinkCluster
    new: FlinkCluster
    application: FlinkApplicationCluster
    daemon: Daemon


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    with ExitStack() as parts:
        old = parts.enter_context(FlinkCluster("1.20"))
        new = parts.enter_context(FlinkCluster("2.3", slots=8))
        application = parts.enter_context(
            FlinkApplicationCluster(
                "2.3",
                jar=job.build("2.3"),
                entry_class=job.ENTRY_CLASS,
                args=busy("payments").arguments(),
                config=AT_MOST_TWO,
            )
        )
        (nobody,) = free_ports(1)
        urls = {
            "old": [f"http://127.0.0.1:{nobody}", old.rest_url],
            "new": [new.rest_url],
            "application": [application.rest_url],
        }
        daemon = parts.enter_context(Daemon(tmp_path_factory.mktemp("daemon"), urls))
        yield Fleet(old, new, application, daemon)


def work_parallelism(cluster: FlinkCluster, job_id: str) -> int:
    """Return the parallelism of the busy vertex, 0 while not all tasks run."""
    is_running = cluster.rest.all_tasks_running(job_id)
    return cluster.rest.parallelism(job_id)[job.WORK_VERTEX] if is_running else 0


def test_jobs_of_all_clusters_are_scaled_each_with_its_own_configuration(fleet: Fleet) -> None:
    in_old = job.submit(fleet.old, busy("orders"))
    in_new = job.submit(fleet.new, busy("orders"))
    own = ",".join(f"{key}:{value}" for key, value in AT_MOST_TWO.items())
    limited = job.submit(fleet.new, busy("limited"), config={"pipeline.global-job-parameters": own})

    def parallelism() -> tuple[int, ...]:
        return (
            work_parallelism(fleet.old, in_old),
            work_parallelism(fleet.new, in_new),
            work_parallelism(fleet.new, limited),
            work_parallelism(fleet.application, fleet.application.job_id),
        )

    def is_scaled() -> bool:
        *unlimited, in_session, in_application = parallelism()
        return min(unlimited) >= 3 and (in_session, in_application) == (2, 2)

    fleet.daemon.wait_for("all jobs scaled as far as they may", is_scaled)
    found = {
        name: {line["job_key"] for line in fleet.daemon.lines("job_found", name)}
        for name in ("old", "new", "application")
    }
    assert found == {
        "old": {"old/orders"},
        "new": {"new/orders", "new/limited"},
        "application": {"application/payments"},
    }
    for cluster, job_id in ((fleet.old, in_old), (fleet.new, in_new), (fleet.new, limited)):
        cluster.cancel(job_id)


def test_a_dead_url_of_a_cluster_is_told_once_and_the_other_one_is_used(fleet: Fleet) -> None:
    fleet.daemon.wait_for("passes over the cluster", lambda: fleet.daemon.passes("old") >= 3)

    (change,) = fleet.daemon.lines("jobmanager_changed", "old")
    assert change["now"] == fleet.old.rest_url
    assert fleet.daemon.lines("cluster_failed", "old") == []


def test_a_cluster_that_ends_disturbs_no_other_is_told_once_and_is_taken_up_again(fleet: Fleet) -> None:
    daemon = fleet.daemon
    others = ("old", "application")
    daemon.wait_for("passes over all clusters", lambda: all(daemon.passes(name) for name in (*others, "new")))

    fleet.new.jobmanager.kill()
    daemon.wait_for("the failure told", lambda: daemon.lines("cluster_failed", "new"))
    before = {name: daemon.passes(name) for name in (*others, "new")}
    daemon.wait_for("five more passes", lambda: daemon.passes("new") >= before["new"] + 5)
    meanwhile = {name: daemon.passes(name) - before[name] for name in others}
    daemon.wait_for("the cluster is called not ready", lambda: '"new"' in daemon.unready())
    fleet.new.restart_jobmanager()
    daemon.wait_for("the recovery told", lambda: daemon.lines("cluster_recovered", "new"))
    fleet.new.wait_for_slots(8)
    again = job.submit(fleet.new, busy("again"))
    daemon.wait_for("the new job scaled", lambda: work_parallelism(fleet.new, again) >= 3)

    assert min(meanwhile.values()) >= 4
    assert len(daemon.lines("cluster_failed", "new")) == len(daemon.lines("cluster_recovered", "new")) == 1
    assert not any(daemon.lines("cluster_failed", name) for name in others)
    assert work_parallelism(fleet.application, fleet.application.job_id) == 2
