"""``once --jobmanager-url`` and ``init`` on real clusters: what jobs need is told as it is."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from testkit.clusters.flink import FlinkCluster, job

pytestmark = pytest.mark.e2e


@pytest.fixture
def cluster(
    flink_session_cluster: Callable[[str], FlinkCluster], request: pytest.FixtureRequest
) -> Iterator[FlinkCluster]:
    started = flink_session_cluster(request.param)
    yield started
    for entry in started.rest.get("/jobs")["jobs"]:
        started.cancel(entry["id"])


def call(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "flink_autoscaler.standalone", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def look(cluster: FlinkCluster) -> tuple[dict[str, Any], dict[str, dict[str, Any]]]:
    """Return what is told about a cluster, and about its jobs by name."""
    result = call("once", "--jobmanager-url", cluster.rest_url, "--json")
    assert result.returncode == 0, result.stderr
    (told,) = json.loads(result.stdout)["clusters"]
    return told, {each["job_key"].partition("/")[2]: each for each in told["jobs"]}


def codes(document: dict[str, Any], weight: str) -> list[str]:
    return [each["code"] for each in document["findings"] if each["weight"] == weight]


@pytest.mark.parametrize(
    "cluster",
    [pytest.param("1.20", id="Flink 1.20", marks=pytest.mark.suite(name="long")), pytest.param("2.3", id="Flink 2.3")],
    indirect=True,
)
def test_jobs_are_told_what_they_need(cluster: FlinkCluster, tmp_path: Path) -> None:
    enabling = {"pipeline.global-job-parameters": "job.autoscaler.enabled:true"}
    job.submit(cluster, job.ScalingJob(name="fit"), config=enabling)
    job.submit(cluster, job.ScalingJob(name="unfit", lag_metric=False, checkpoint_interval_ms=0))

    told, jobs = look(cluster)
    file = tmp_path / "autoscaler.yaml"
    written = call("init", "--jobmanager-url", cluster.rest_url, "--output", str(file))
    looked = call("once", "--config", str(file), "--dry-run", "--set", "autoscaler.engine.kind=inline")

    assert told["version"].startswith(cluster.version)
    assert codes(told, "needed") == []
    assert (jobs["fit"]["ready"], codes(jobs["fit"], "needed"), codes(jobs["fit"], "limit")) == (True, [], [])
    assert (jobs["unfit"]["ready"], codes(jobs["unfit"], "needed")) == (False, ["NOT_ENABLED"])
    assert sorted(codes(jobs["unfit"], "limit")) == ["LAG_UNKNOWN", "NO_CHECKPOINTS"]
    assert all(vertex["busy"] is not None for each in jobs.values() for vertex in each["vertices"])
    assert (written.returncode, looked.returncode) == (0, 0), looked.stderr


@pytest.mark.suite(name="long")
@pytest.mark.parametrize("version", ["1.20", "2.3"], ids=["Flink 1.20", "Flink 2.3"])
def test_default_scheduler_is_told_with_the_line_to_write(version: str) -> None:
    with FlinkCluster(version, config={"jobmanager.scheduler": "default"}, taskmanagers=1, slots=1) as plain:
        job.submit(plain, job.ScalingJob(name="held"))

        told, jobs = look(plain)

    assert [each["line"] for each in told["findings"] if each["weight"] == "needed"] == [
        "jobmanager.scheduler: adaptive"
    ]
    assert codes(told, "limit") == ["NO_FREE_SLOTS"]
    assert codes(jobs["held"], "needed") == ["NOT_ENABLED"]
