"""What a pass asks Flink about a job that has not changed, through the parts that the daemon is made of."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping

import pytest

from testkit.fakes.flink import FakeFlink, FakeJob, chain
from testkit.scenarios.watching.wired import passes_of

HOUR_MS = 3_600_000
DEFAULTS: Mapping[str, str] = {}
REFERENCE: Mapping[str, str] = {"job.autoscaler.compat": "reference"}


@pytest.fixture
def running() -> Iterator[tuple[FakeFlink, FakeJob]]:
    """Give a job that has run unchanged for an hour, and its cluster."""
    with FakeFlink() as flink:
        start_ms = time.time_ns() // 1_000_000 - HOUR_MS
        job = flink.add_job("orders", chain(sources=2, vertices=10, parallelism=2), start_ms=start_ms)
        for vertex in job.vertices:
            vertex.waited_ms, vertex.has_task_counters = 1000.0, True
        yield flink, job


def asked_in_three_passes(
    running: tuple[FakeFlink, FakeJob], options: Mapping[str, str], before_last: Callable[[], object] = int
) -> list[tuple[int, int]]:
    """Return how often each pass asked for the details of the job, and for metrics of its vertices."""
    flink, job = running
    found = []
    with passes_of(flink, **options) as passes:
        for before in (int, int, before_last):
            before()
            flink.requests.clear()
            passes.run()
            details = [each for each in flink.requests if each.path == f"/jobs/{job.job_id}"]
            values = [each for each in flink.requests if "/vertices/" in each.path and each.query.get("get")]
            found.append((len(details), len(values)))
    return found


def test_details_are_read_once_and_counters_come_with_metrics(running: tuple[FakeFlink, FakeJob]) -> None:
    assert asked_in_three_passes(running, DEFAULTS) == [(1, 10), (0, 10), (0, 10)]


def test_details_are_read_in_every_pass_where_nothing_is_remembered(running: tuple[FakeFlink, FakeJob]) -> None:
    assert asked_in_three_passes(running, REFERENCE) == [(1, 10), (1, 10), (1, 10)]


def test_a_job_that_has_changed_is_read_anew(running: tuple[FakeFlink, FakeJob]) -> None:
    _, job = running
    later_ms = job.running_at_ms + HOUR_MS // 2

    asked = asked_in_three_passes(
        running, DEFAULTS, lambda: job.rescale({job.vertices[4].vertex_id: 3}, at_ms=later_ms)
    )

    assert [details for details, _ in asked] == [1, 0, 1]
