"""What a daemon keeps in memory of jobs that have left their cluster, while their grace lasts."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from flink_autoscaler.core.model.metrics import MetricSample
from flink_autoscaler.standalone.daemon.cluster_pass import ClusterPass
from flink_autoscaler.standalone.daemon.wiring import Wiring
from testkit.fakes.flink import FakeFlink
from testkit.scenarios.watching.wired import settings_of

JOBS = 110
"""More than those of which the memory keeps everything."""
WHOLE = 100
WINDOW = 3
"""Passes over a job, each with a sample. The window that was looked at last is kept in any case, of whatever job."""
OPTIONS = {
    "autoscaler.engine.kind": "inline",
    "autoscaler.jobs-gone.grace": "1 h",
    "autoscaler.records.enabled": "false",
    "job.autoscaler.enabled": "true",
}


@pytest.fixture
def passes(flink: FakeFlink) -> Iterator[Callable[[Mapping[str, str]], ClusterPass]]:
    """Give what builds the passes over the cluster as the daemon does."""
    wirings = []

    def build(options: Mapping[str, str]) -> ClusterPass:
        place = {"autoscaler.clusters.0.name": "main", "autoscaler.clusters.0.url": flink.url}
        settings = settings_of({**OPTIONS, **place, **options})
        wiring = Wiring(settings)
        wirings.append(wiring)
        wiring.storage.start()
        return wiring.cluster_pass(settings.effective_clusters()[0])

    yield build
    for wiring in wirings:
        wiring.close()


def samples_in_memory() -> int:
    """Count the metric samples that something holds, whoever it is."""
    gc.collect()
    return sum(isinstance(each, MetricSample) for each in gc.get_objects())


def let_jobs_come_and_go(flink: FakeFlink, run: Callable[[], object], jobs: int) -> None:
    for number in range(jobs):
        flink.add_job(f"job {number}")
    for _ in range(WINDOW):
        run()
    flink.jobs.clear()
    run()
    run()


def test_nothing_is_kept_of_the_metrics_of_gone_jobs_that_a_database_has(
    flink: FakeFlink, passes: Callable[[Mapping[str, str]], ClusterPass], tmp_path: Path
) -> None:
    in_database = {
        "autoscaler.standalone.state-store.type": "JDBC",
        "autoscaler.standalone.jdbc.url": f"jdbc:sqlite:{tmp_path / 'autoscaler.db'}",
    }
    before, passes_over = samples_in_memory(), passes(in_database)

    let_jobs_come_and_go(flink, passes_over.run, 12)

    assert samples_in_memory() - before <= WINDOW


def test_the_metrics_of_few_gone_jobs_are_kept_without_a_database(
    flink: FakeFlink, passes: Callable[[Mapping[str, str]], ClusterPass]
) -> None:
    before, passes_over = samples_in_memory(), passes({})

    let_jobs_come_and_go(flink, passes_over.run, JOBS)

    kept = samples_in_memory() - before
    assert WINDOW < kept <= WINDOW * (WHOLE + 1)
