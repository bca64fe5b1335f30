"""What is remembered of each job for its small line is bounded for the whole cluster."""

from __future__ import annotations

import pytest

from flink_autoscaler.core.model.job import Endpoint, JobStatus
from flink_autoscaler.core.options.context import JobAutoScalerContext
from flink_autoscaler.standalone.daemon.pass_report import PassReport
from flink_autoscaler.standalone.views.fleet import MAX_POINTS, POINT_MS, POINTS, Fleet


def jobs(count: int) -> tuple[JobAutoScalerContext, ...]:
    endpoint = Endpoint("http://127.0.0.1:1")
    return tuple(
        JobAutoScalerContext(f"c/{number}", "1", JobStatus.RUNNING, {}, endpoint, "job", "c") for number in range(count)
    )


@pytest.mark.parametrize(
    ("count", "points"),
    [
        pytest.param(2, POINTS, id="few jobs: two hours of each"),
        pytest.param(4000, MAX_POINTS // 4000, id="many jobs: less of each"),
    ],
)
def test_points_of_all_jobs_are_bounded(count: int, points: int) -> None:
    now = iter(range(0, 1 << 60, POINT_MS))
    fleet, report = Fleet(lambda: next(now)), PassReport("c", jobs(count))

    for _ in range(points + 3):
        fleet.record_pass(report)

    assert {len(job.points) for job in fleet.jobs()} == {points}
