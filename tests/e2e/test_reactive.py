"""A reactive application cluster that follows its load: a daemon starts and stops real TaskManagers."""

from __future__ import annotations

import json
import shlex
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import pytest

from testkit.clusters.flink import FlinkApplicationCluster, job
from testkit.clusters.flink.waiting import wait_until
from testkit.scenarios.runner.process import DaemonProcess

pytestmark = [pytest.mark.e2e, pytest.mark.suite(name="rescue")]

SLOTS: Final = 2
SCRIPT: Final = str(Path(__file__).parents[2] / "conf" / "taskmanagers.sh")
OWN: Final = "reactive"
"""Name of the cluster, and so the beginning of the ids of the TaskManagers that the daemon starts."""

OPTIONS = {
    "autoscaler.realizer": "auto",
    "autoscaler.standalone.control-loop.interval": "2 s",
    "job.autoscaler.metrics.window": "8 s",
    "job.autoscaler.stabilization.interval": "2 s",
    "job.autoscaler.scale-down.interval": "0",
    "job.autoscaler.scale-down.economics.enabled": "false",
    "job.autoscaler.restart.time": "3 s",
    "job.autoscaler.catch-up.duration": "30 s",
    "job.autoscaler.vertex.max-parallelism": "6",
    "job.autoscaler.utilization.target": "0.7",
    "job.autoscaler.metrics.busy-time.aggregator": "AVG",
}

# One subtask of "work" takes 1 ms per record: 2,200 records/s need four of them, which are two TaskManagers of two
# slots; 150 records/s need one.
LOAD = job.ScalingJob(name="follows-its-load", curve="0:2200,75:2200,76:150", splits=8, checkpoint_interval_ms=1000)


@pytest.fixture
def reactive(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[FlinkApplicationCluster]:
    """A reactive cluster whose only TaskManager is not the provider's."""
    cluster = FlinkApplicationCluster(
        request.param,
        jar=job.build(request.param),
        entry_class=job.ENTRY_CLASS,
        args=LOAD.arguments(),
        config={"scheduler-mode": "reactive"},
        taskmanagers=1,
        slots=SLOTS,
    )
    with cluster:
        cluster.wait_for_running(cluster.job_id)
        try:
            yield cluster
        finally:
            subprocess.run([SCRIPT, "scale", str(tmp_path / OWN), "0"], check=True, timeout=300)


def start_for(cluster: FlinkApplicationCluster, directory: Path) -> Path:
    """Write a program that starts a TaskManager as the harness has started its own, with the id that it is given."""
    first = cluster.taskmanagers[0]
    command = Path(f"/proc/{first.pid}/cmdline").read_text().split("\0")[:-1]
    start = directory / "start-taskmanager"
    words = ('"$1"'.join(map(shlex.quote, argument.split(first.name))) for argument in command)
    start.write_text(f"#!/bin/sh\nexec {' '.join(words)}\n")
    start.chmod(0o700)
    return start


def running(directory: Path) -> int:
    """Return how many TaskManagers the script has running."""
    told = subprocess.run([SCRIPT, "describe", str(directory / OWN)], check=True, capture_output=True, timeout=300)
    return int(json.loads(told.stdout)["running"])


def settings_for(cluster: FlinkApplicationCluster, directory: Path) -> Mapping[str, Any]:
    """Return the configuration of the guide: a provider of the cluster, and the realizer that uses it."""
    own = str(directory / OWN)
    provider = {
        "type": "command",
        "command": ["env", f"START={start_for(cluster, directory)}", SCRIPT, "scale", own, "{n}", "{victims}"],
        "describe-command": [SCRIPT, "describe", own],
        "max-taskmanagers": 2,
        "slot-warmup": "2 s",
        "ready-timeout": "60 s",
    }
    return {**OPTIONS, **{f"autoscaler.clusters.0.provider.{key}": value for key, value in provider.items()}}


def reasons(daemon: DaemonProcess) -> list[str]:
    """Return the events that the daemon has told."""
    return [line["reason"] for line in daemon.lines("autoscaler_event")]


@pytest.mark.parametrize("reactive", ["1.20", "2.3"], indirect=True, ids=["Flink 1.20", "Flink 2.3"])
def test_taskmanagers_follow_the_load_up_and_down(reactive: FlinkApplicationCluster, tmp_path: Path) -> None:
    settings = settings_for(reactive, tmp_path)

    def parallelism() -> set[int]:
        is_running = reactive.rest.all_tasks_running(reactive.job_id)
        return set(reactive.rest.parallelism(reactive.job_id).values()) if is_running else set()

    def own() -> set[str]:
        listed = {entry["id"] for entry in reactive.rest.get("/taskmanagers")["taskmanagers"]}
        return {each for each in listed if each.startswith(OWN)}

    def has_grown() -> bool:
        return "TaskManagersReady" in reasons(first) and min(parallelism(), default=0) > SLOTS

    def has_shrunk() -> bool:
        return parallelism() == {SLOTS} and not own()

    with DaemonProcess(tmp_path, "first") as first:
        first.configure({OWN: reactive.rest_url}, **settings)
        first.start()
        wait_until("the job has grown", has_grown, 300, context=lambda: first.text()[-6000:])
        assert first.stop() == 0
    started = own()
    with DaemonProcess(tmp_path, "second") as second:
        second.start()
        wait_until("the job has shrunk", has_shrunk, 300, context=lambda: second.text()[-6000:])
        assert second.stop() == 0

    assert started
    assert "TaskManagersRequested" in reasons(first)
    assert "TaskManagersRequested" in reasons(second)
    assert running(tmp_path) == 0
