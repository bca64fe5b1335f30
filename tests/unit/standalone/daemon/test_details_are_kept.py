"""What a pass asks Flink about a job that has not changed, through the parts that the daemon is made of."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping

import pytest
from fake_flink import FakeFlink, FakeJob, chain
from watching.wired import settings_of

from flink_autoscaler.standalone.daemon.wiring import Wiring, chosen_clusters

HOUR_MS = 3_600_000
DEFAULTS: Mapping[str, str] = {}


@pytest.fixture
def flink() -> Iterator[FakeFlink]:
    with FakeFlink() as flink:
        yield flink


@pytest.fixture
def job(flink: FakeFlink) -> FakeJob:
    now_ms = time.time_ns() // 1_000_000
    made = flink.add_job("orders", chain(sources=2, vertices=10, parallelism=2), start_ms=now_ms - HOUR_MS)
    for vertex in made.vertices:
        vertex.waited_ms, vertex.has_task_counters = 1000.0, True
    return made


def asked_in_three_passes(
    flink: FakeFlink, job: FakeJob, options: Mapping[str, str] = DEFAULTS, before_last: Callable[[], object] = int
) -> list[tuple[int, int]]:
    """Return how often each pass asked for the details of the job, and for metrics of its vertices."""
    settings = settings_of(
        {
            "job.autoscaler.enabled": "true",
            "job.autoscaler.stabilization.interval": "0 s",
            "autoscaler.clusters.0.name": "main",
            "autoscaler.clusters.0.url": flink.url,
            "autoscaler.engine.kind": "inline",
            **options,
        }
    )
    found = []
    with Wiring(settings) as wiring:
        passes = wiring.cluster_pass(chosen_clusters(settings, None)[0])
        for number in range(3):
            if number == 2:
                before_last()
            flink.requests.clear()
            passes.run()
            details = [each for each in flink.requests if each.path == f"/jobs/{job.job_id}"]
            values = [each for each in flink.requests if "/vertices/" in each.path and each.query.get("get")]
            found.append((len(details), len(values)))
    return found


def test_details_are_read_once_and_counters_come_with_metrics(flink: FakeFlink, job: FakeJob) -> None:
    assert asked_in_three_passes(flink, job) == [(1, 10), (0, 10), (0, 10)]


@pytest.mark.parametrize(
    "option",
    [
        pytest.param({"job.autoscaler.improvement.cached-metric-names": "false"}, id="switched off"),
        pytest.param({"job.autoscaler.compat": "reference"}, id="reference"),
    ],
)
def test_details_are_read_in_every_pass_where_nothing_is_remembered(
    flink: FakeFlink, job: FakeJob, option: dict[str, str]
) -> None:
    assert asked_in_three_passes(flink, job, option) == [(1, 10), (1, 10), (1, 10)]


def test_a_job_that_has_changed_is_read_anew(flink: FakeFlink, job: FakeJob) -> None:
    later_ms = job.running_at_ms + HOUR_MS // 2

    asked = asked_in_three_passes(
        flink, job, before_last=lambda: job.rescale({job.vertices[4].vertex_id: 3}, at_ms=later_ms)
    )

    assert [details for details, _ in asked] == [1, 0, 1]
