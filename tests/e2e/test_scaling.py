"""A real job on a real cluster, rescaled by the parts that the daemon is made of."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from flink_autoscaler.standalone.daemon.cluster_pass import ClusterPass
from flink_autoscaler.standalone.daemon.pass_report import PassReport
from flink_autoscaler.standalone.daemon.wiring import Wiring
from flink_autoscaler.standalone.settings.loading import SettingsLoader
from flink_autoscaler.standalone.settings.schema.settings import Settings
from testkit.clusters.flink import FlinkCluster, job

pytestmark = [pytest.mark.e2e, pytest.mark.spark]

OPTIONS = {
    "job.autoscaler.enabled": "true",
    "job.autoscaler.metrics.window": "8 s",
    "job.autoscaler.stabilization.interval": "2 s",
    "job.autoscaler.scale-down.interval": "0",
    "job.autoscaler.restart.time": "3 s",
    "job.autoscaler.catch-up.duration": "30 s",
    "job.autoscaler.vertex.max-parallelism": "6",
    "job.autoscaler.utilization.target": "0.7",
    "job.autoscaler.metrics.busy-time.aggregator": "AVG",
    "autoscaler.standalone.control-loop.interval": "2 s",
}

# One subtask of "work" takes 1 ms per record: 1,800 records/s need three of them, 150 need one.
BUSY = job.ScalingJob(name="rises-and-falls", curve="0:1800,240:1800,241:150", cost_micros=1000, splits=8)


def overrides_for(cluster: FlinkCluster, engine: str) -> list[str]:
    """Return ``--set`` values for a daemon that watches one cluster."""
    values = {
        "autoscaler.clusters.0.name": "e2e",
        "autoscaler.clusters.0.url": cluster.rest_url,
        "autoscaler.engine.kind": engine,
    }
    return [f"{key}={value}" for key, value in {**OPTIONS, **values}.items()]


def settings_for(cluster: FlinkCluster, engine: str, *more: str) -> Settings:
    overrides = [*overrides_for(cluster, engine), *more]
    return SettingsLoader(overrides=overrides, environment={}).read()


@pytest.fixture
def cluster(
    flink_session_cluster: Callable[[str], FlinkCluster], request: pytest.FixtureRequest
) -> Iterator[FlinkCluster]:
    started = flink_session_cluster(request.param)
    before = set(_running(started))
    yield started
    for job_id in set(_running(started)) - before:
        started.cancel(job_id)


def _running(cluster: FlinkCluster) -> list[str]:
    jobs = cluster.rest.get("/jobs")["jobs"]
    return [entry["id"] for entry in jobs if entry["status"] not in ("CANCELED", "FAILED", "FINISHED")]


def pass_until(passes: ClusterPass, is_reached: Callable[[PassReport], bool], *, timeout: float) -> set[str]:
    """Do a pass every two seconds until a condition holds; return the engines that evaluated jobs."""
    deadline = time.monotonic() + timeout
    seen: list[str] = []
    engines: set[str] = set()
    while time.monotonic() < deadline:
        next_pass = time.monotonic() + 2.0
        report = passes.run()
        assert report.error is None, report.error
        engines |= {report.engine.engine} if report.engine is not None else set()
        seen += [f"{r.outcome.phase}: {r.outcome.decision}" for r in report.reports.values()]
        while time.monotonic() < next_pass:
            if is_reached(report):
                return engines
            time.sleep(0.2)
    raise AssertionError(f"not reached within {timeout} s; last passes: {seen[-5:]}")


@pytest.mark.parametrize(
    ("cluster", "engine"),
    [
        pytest.param("1.20", "inline", id="Flink 1.20, inline", marks=pytest.mark.suite(name="long")),
        pytest.param("2.3", "spark", id="Flink 2.3, Spark"),
        pytest.param("1.20", "spark", id="Flink 1.20, Spark", marks=pytest.mark.suite(name="long")),
        pytest.param("2.3", "inline", id="Flink 2.3, inline", marks=pytest.mark.suite(name="long")),
    ],
    indirect=["cluster"],
)
def test_parallelism_follows_the_load_up_and_down(cluster: FlinkCluster, engine: str) -> None:
    job_id = job.submit(cluster, BUSY)

    def work_parallelism() -> int:
        is_running = cluster.rest.all_tasks_running(job_id)
        return cluster.rest.parallelism(job_id)[job.WORK_VERTEX] if is_running else 0

    settings = settings_for(cluster, engine)
    with Wiring(settings) as wiring:
        passes = wiring.cluster_pass(settings.effective_clusters()[0])
        engines = pass_until(passes, lambda _: work_parallelism() >= 3, timeout=900)
        engines |= pass_until(passes, lambda _: work_parallelism() == 1, timeout=900)

    assert work_parallelism() == 1
    assert engine in engines  # a cluster that takes longer than a second is evaluated inline, on a busy machine any


@pytest.mark.suite(name="long")
@pytest.mark.parametrize("cluster", ["2.3"], indirect=True, ids=["Flink 2.3"])
def test_dry_run_decides_but_changes_nothing(cluster: FlinkCluster) -> None:
    job_id = job.submit(cluster, BUSY)
    before = cluster.rest.get(f"/jobs/{job_id}/resource-requirements")
    settings = settings_for(cluster, "inline", "autoscaler.dry-run=true")

    def has_decided(report: PassReport) -> bool:
        return any(r.outcome.report is not None for r in report.reports.values())

    with Wiring(settings) as wiring:
        passes = wiring.cluster_pass(settings.effective_clusters()[0], selects=lambda c: c.job_id == job_id)
        pass_until(passes, has_decided, timeout=600)

    assert cluster.rest.get(f"/jobs/{job_id}/resource-requirements") == before


def has_metrics(cluster: FlinkCluster, job_id: str) -> bool:
    """Whether Flink tells how busy every vertex is."""
    vertices = cluster.rest.vertices(job_id).values()
    return all(cluster.rest.vertex_metrics(job_id, each["id"], ["busyTimeMsPerSecond"]) for each in vertices)


@pytest.mark.suite(name="long")
@pytest.mark.parametrize("cluster", ["2.3"], indirect=True, ids=["Flink 2.3"])
def test_once_prints_a_report_for_every_job(cluster: FlinkCluster, tmp_path: Path) -> None:
    job_id = job.submit(cluster, job.ScalingJob(name="shown-once"))
    # Flink fetches metrics of a job only after somebody has asked for them: the first question is answered with none.
    cluster.wait_until("the metrics of every vertex", lambda: has_metrics(cluster, job_id))
    arguments = [argument for value in overrides_for(cluster, "spark") for argument in ("--set", value)]
    command = [sys.executable, "-m", "flink_autoscaler.standalone", "once", "--json", *arguments]

    result = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=tmp_path, check=False)

    assert result.returncode == 0, result.stderr
    assert job_id in json.dumps(json.loads(result.stdout))
    assert engine_of(result.stdout) == "inline"

    def is_on_spark() -> bool:
        """Whether a pass on Spark is evaluated there; a cluster that is slow for a moment is read by the command."""
        once = subprocess.run([*command, "--spark"], capture_output=True, text=True, timeout=300, check=False)
        assert once.returncode == 0, once.stderr
        return engine_of(once.stdout) == "spark"

    cluster.wait_until("a pass on Spark", is_on_spark, timeout=600)


def engine_of(document: str) -> str:
    """Return where a pass over the only cluster was evaluated."""
    (cluster,) = json.loads(document)["clusters"]
    return str(cluster["engine"]["engine"])
