"""A daemon whose passes run on Spark and whose metrics are in a Prometheus: the tasks ask it, and Flink nothing."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import pytest

from flink_autoscaler.core.autoscaler import JobPassReport
from flink_autoscaler.core.model.decision import PassPhase
from flink_autoscaler.core.model.job import JobKey
from flink_autoscaler.standalone.daemon.cluster_pass import ClusterPass
from flink_autoscaler.standalone.daemon.pass_report import PassReport
from flink_autoscaler.standalone.daemon.wiring import Wiring
from testkit.clusters.flink.waiting import wait_until
from testkit.clusters.spark import SparkCluster, equipped_python, make_pyfiles
from testkit.fakes.flink import FakeFlink, chain
from testkit.fakes.prometheus import FakePrometheus
from testkit.scenarios.runner.wired import settings_of

pytestmark = pytest.mark.spark

JOBS = 24
"""Enough for two tasks."""

START_SECONDS = 600.0
"""A busy machine takes its time to start Spark."""


@pytest.fixture
def flink() -> Iterator[FakeFlink]:
    with FakeFlink() as fake:
        for number in range(JOBS):
            vertices = chain(sources=2, vertices=4, parallelism=2)
            for vertex in vertices:
                vertex.waited_ms = 1000.0
            fake.add_job(f"job {number}", vertices, start_ms=time.time_ns() // 1_000_000 - 3_600_000)
        yield fake


@pytest.fixture
def prometheus(flink: FakeFlink) -> Iterator[FakePrometheus]:
    with FakePrometheus(flink) as fake:
        yield fake


@contextmanager
def passes_of(flink: FakeFlink, prometheus: FakePrometheus, options: Mapping[str, str]) -> Iterator[ClusterPass]:
    values = {
        "autoscaler.clusters.0.name": "main",
        "autoscaler.clusters.0.url": flink.url,
        "autoscaler.clusters.0.metrics.source": "prometheus",
        "autoscaler.clusters.0.metrics.prometheus.url": prometheus.url,
        "autoscaler.standalone.state-store.type": "heap",
        "autoscaler.standalone.event-handler.type": "logging",
        "job.autoscaler.enabled": "true",
        "job.autoscaler.stabilization.interval": "0 s",
        **options,
    }
    settings = settings_of(values)
    with Wiring(settings) as wiring:
        yield wiring.cluster_pass(settings.effective_clusters()[0])


def two_passes(
    flink: FakeFlink, prometheus: FakePrometheus, options: Mapping[str, str]
) -> Mapping[JobKey, JobPassReport]:
    """Return what a pass came to that was not the first one there; what was asked for is that pass's alone."""
    with passes_of(flink, prometheus, options) as passes:
        engine = options["autoscaler.engine.kind"]
        wait_until(f"a pass on {engine}", lambda: engine_of(passes.run()) == engine, START_SECONDS)
        flink.requests.clear()
        prometheus.queries.clear()
        report = passes.run()
    assert report.is_clean, report
    return report.reports


def engine_of(report: PassReport) -> str:
    """Return where the jobs of a pass were evaluated."""
    assert report.engine is not None, report
    return report.engine.engine


def measured(reports: Mapping[JobKey, JobPassReport]) -> dict[JobKey, tuple[object, ...]]:
    """Return what was seen of every job, without instants."""
    found: dict[JobKey, tuple[object, ...]] = {}
    for job_key, report in reports.items():
        outcome = report.outcome
        assert outcome.observation.sample is not None, outcome.decision
        loads = {
            v: {m: x for m, x in values.items() if not math.isnan(x)}
            for v, values in outcome.observation.sample.vertices.items()
        }
        found[job_key] = outcome.phase, loads, outcome.observation.origins
    return found


def check_on_spark(flink: FakeFlink, prometheus: FakePrometheus, options: Mapping[str, str]) -> None:
    """Look at jobs on Spark and in this process, and compare."""
    on_spark = two_passes(flink, prometheus, {"autoscaler.engine.kind": "spark", **options})
    asked, queries = sorted(flink.paths()), len(prometheus.queries)
    inline = two_passes(flink, prometheus, {"autoscaler.engine.kind": "inline"})

    engines = {report.outcome.engine.engine for report in on_spark.values() if report.outcome.engine is not None}
    assert engines == {"spark"}
    assert {report.outcome.phase for report in on_spark.values()} == {PassPhase.WINDOW_FILLING}
    assert measured(on_spark) == measured(inline)
    assert [path for path in asked if "/config" not in path] == ["/jobs/overview", "/taskmanagers"]
    assert 0 < queries <= 15


def test_tasks_of_an_embedded_spark_ask_prometheus(flink: FakeFlink, prometheus: FakePrometheus) -> None:
    check_on_spark(flink, prometheus, {"autoscaler.engine.spark-master": "local[2]"})


@pytest.mark.suite(name="cluster")
def test_executors_that_have_nothing_of_ours_ask_prometheus(
    flink: FakeFlink, prometheus: FakePrometheus, tmp_path_factory: pytest.TempPathFactory
) -> None:
    python = equipped_python(tmp_path_factory.mktemp("bare") / "env")
    archive = make_pyfiles(tmp_path_factory.mktemp("build"))
    with SparkCluster(workers=2) as cluster:
        check_on_spark(flink, prometheus, cluster.options(python, archive))
