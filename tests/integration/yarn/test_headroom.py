"""What a queue cannot give is not asked for, on a real YARN."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from testkit.clusters.flink import job
from testkit.clusters.yarn import FlinkOnYarn, YarnApplication
from testkit.clusters.yarn.autoscaling import Autoscaling
from testkit.clusters.yarn.configuration import TIMEOUT

pytestmark = [pytest.mark.e2e, pytest.mark.suite(name="yarn")]

# 5,000 records/s at 1 ms each would need more than the six subtasks that are allowed.
GREEDY = job.ScalingJob(name="greedy", curve="0:5000", cost_micros=1000)


@pytest.fixture
def greedy(flink_on_yarn: FlinkOnYarn) -> Iterator[YarnApplication]:
    """Give a job in a queue of 2304 MB: 640 are the JobManager's, and a TaskManager of one slot takes 704."""
    config = {"taskmanager.numberOfTaskSlots": "1"}
    application = flink_on_yarn.application("Greedy app", GREEDY, queue="payments", config=config)
    application.wait_for_job("greedy")
    yield application
    application.kill()


def wanted(application: YarnApplication) -> int:
    """Return the parallelism that the vertex "work" is to have."""
    rest = application.rest()
    try:
        job_id = rest.get("/jobs/overview")["jobs"][0]["jid"]
        vertex_id = rest.vertices(job_id)[job.WORK_VERTEX]["id"]
        return int(rest.get(f"/jobs/{job_id}/resource-requirements")[vertex_id]["parallelism"]["upperBound"])
    finally:
        rest.close()


def test_a_scale_up_stops_at_what_the_queue_can_give_and_says_so(
    greedy: YarnApplication, autoscaling: Autoscaling
) -> None:
    daemon = autoscaling.daemon({"job.autoscaler.vertex.max-parallelism": "3"}, names="Greedy *")
    daemon.wait_for("a second subtask", lambda: greedy.parallelism("greedy", job.WORK_VERTEX) == 2, timeout=TIMEOUT)

    assert wanted(greedy) == 2
    assert "YARN queue root.streaming.payments can give 1 more TaskManager" in daemon.text()


def test_without_headroom_the_job_asks_for_more_than_the_queue_gives(
    greedy: YarnApplication, autoscaling: Autoscaling
) -> None:
    daemon = autoscaling.daemon(names="Greedy *", headroom="false")
    daemon.wait_for("a request for six", lambda: wanted(greedy) == 6, timeout=TIMEOUT)

    daemon.wait_for("two subtasks", lambda: greedy.parallelism("greedy", job.WORK_VERTEX) == 2, timeout=TIMEOUT)
    assert "YARN queue" not in daemon.text()
