"""What one job says about itself, in a daemon in a process of its own: it harms that job alone."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from testkit.clusters.flink.waiting import wait_until
from testkit.fakes.flink import FakeFlink, FakeJob
from testkit.scenarios.runner.process import DaemonProcess

PROMPT = 20.0
"""Seconds within which a page comes, far less than what hung the daemon."""

LEASED = {
    "autoscaler__standalone__state-store__type": "JDBC",
    "autoscaler__ha__enabled": "true",
    "autoscaler__ha__ttl": "60 s",
    "job__autoscaler__flink__rest-client__timeout": "10 s",
}
"""A daemon that loses its lease where it stands still for a minute."""


def readings(flink: FakeFlink, job: FakeJob) -> int:
    """Return how often the details of a job were read: once in each pass that evaluates it, at least."""
    return flink.paths("GET").count(f"/jobs/{job.job_id}")


@pytest.mark.parametrize(
    "own",
    [
        pytest.param({"job.autoscaler.vertex.exclude.ids": "a;" * 400_000}, id="list of 800 kB"),
        pytest.param({f"job.autoscaler.{number}": "x" for number in range(20_000)}, id="20,000 keys"),
        pytest.param({"job.autoscaler.scale-up.max-factor": "1\ud800"}, id="half a character"),
    ],
)
def test_a_parameter_of_a_job_harms_that_job_alone(
    daemon: DaemonProcess, flink: FakeFlink, tmp_path: Path, own: dict[str, str]
) -> None:
    healthy, sick = flink.add_job("healthy"), flink.add_job("sick", user_config=own)
    daemon.configure({"main": flink.url}, **LEASED, autoscaler__standalone__jdbc__url=f"jdbc:sqlite:{tmp_path}/a.db")
    daemon.start()
    daemon.wait_for("the first pass", lambda: readings(flink, healthy) >= 1)

    slowest, passes = 0.0, 1
    while passes < 6:
        begin, before = time.monotonic(), passes
        assert daemon.page("/healthz") == "ok\n"
        slowest = max(slowest, time.monotonic() - begin)
        wait_until("a pass", lambda: readings(flink, healthy) > before, 300)  # noqa: B023 - used at once
        passes = readings(flink, healthy)

    assert slowest < PROMPT
    assert daemon.stop() == 0
    assert "Traceback" not in daemon.text()
    assert daemon.lines("pass_not_recorded") == []
    assert (len(daemon.lines("leadership_gained")), daemon.lines("leadership_lost")) == (1, [])
    assert not [line for line in daemon.lines("job_failed") if line.get("job_key") == "main/healthy"]
    assert len(daemon.text()) < 200_000
    assert any(sick.job_id in path for path in flink.paths("GET"))
