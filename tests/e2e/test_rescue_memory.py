"""A rescale that leaves a TaskManager short of heap is undone, on a real Flink by a daemon with one option more."""

from __future__ import annotations

from pathlib import Path

import pytest

from testkit.clusters.flink import FlinkCluster, job
from testkit.clusters.flink.waiting import wait_until
from testkit.scenarios.rescue import FAST_OPTIONS, ONLY_WORK
from testkit.scenarios.runner.process import DaemonProcess

pytestmark = [pytest.mark.e2e, pytest.mark.suite(name="rescue")]

# The heap has 256 MiB: with two subtasks of "work" most of it is free, eight of them hold 160 MiB.
HOARDER = job.ScalingJob(
    name="hoarder", curve="0:20000", cost_micros=1000, splits=8, parallelism_work=2, ballast_megabytes=20
)
OPTIONS = {
    **FAST_OPTIONS,
    **ONLY_WORK,
    # From two to eight in one step, whatever a flooded source can sustain.
    "job.autoscaler.compat": "reference",
    "job.autoscaler.supervised-rescales.enabled": "true",
    "job.autoscaler.vertex.max-parallelism": "8",
    "job.autoscaler.rollback.observation-window": "60 s",
    "job.autoscaler.rollback.memory.enabled": "true",
    # What a small heap has in use between two collections goes up and down.
    "job.autoscaler.rollback.memory.heap-threshold": "0.65",
}


def told(daemon: DaemonProcess, reason: str) -> list[str]:
    """Return the texts of the events with a reason."""
    return [line["text"] for line in daemon.lines("autoscaler_event") if line["reason"] == reason]


@pytest.mark.parametrize("version", ["1.20", "2.3"], ids=["Flink 1.20", "Flink 2.3"])
def test_a_rescale_that_fills_the_heap_is_undone(version: str, tmp_path: Path) -> None:
    with FlinkCluster(version, slots=8) as cluster, DaemonProcess(tmp_path) as daemon:
        job_id = job.submit(cluster, HOARDER)
        daemon.configure({"main": cluster.rest_url}, **OPTIONS)
        daemon.start()

        wait_until("the rollback", lambda: told(daemon, "RolledBack"), 300, context=lambda: daemon.text()[-6000:])
        is_running = cluster.rest.all_tasks_running(job_id)
        parallelism = cluster.rest.parallelism(job_id)[job.WORK_VERTEX]
        assert daemon.stop() == 0

    (why,) = told(daemon, "RollbackStarted")
    print(*told(daemon, "RescaleReached"), why, *told(daemon, "RolledBack"), sep="\n")
    assert "work 8 -> 2, because of memory-pressure: heap " in why
    assert (is_running, parallelism) == (True, 2)
