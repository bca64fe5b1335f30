"""The first minute after a start on a real Flink, of which a short metric window consists."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial

import pytest

from flink_autoscaler.core.model.decision import Rescale
from flink_autoscaler.core.model.metrics import ScalingMetric
from flink_autoscaler.core.ports.passes import PassOutcome
from flink_autoscaler.standalone.daemon.wiring import Wiring
from testkit.clusters.flink import FlinkCluster, job
from testkit.scenarios.runner.wired import settings_of

pytestmark = [pytest.mark.e2e, pytest.mark.suite(name="long")]

BACKLOG_SECONDS, ARRIVALS = 60, 300
OPTIONS = {
    "job.autoscaler.enabled": "true",
    "job.autoscaler.metrics.window": "1 min",
    "job.autoscaler.stabilization.interval": "0",
    "job.autoscaler.vertex.max-parallelism": "12",
    "autoscaler.dry-run": "true",
    "autoscaler.engine.kind": "inline",
    "autoscaler.clusters.0.name": "e2e",
}
INTERVAL, PASSES = 5.0, 16
SOURCE = "Source: orders"


@pytest.fixture
def running(flink_session_cluster: Callable[[str], FlinkCluster]) -> Iterator[tuple[FlinkCluster, str]]:
    """Start a job a minute late: 18,000 records wait for one subtask of ``work``, which takes 0.7 ms for each."""
    cluster = flink_session_cluster("2.3")
    start_ms = round((time.time() - BACKLOG_SECONDS) * 1000)
    made = job.ScalingJob(name="late", curve=f"0:{ARRIVALS}", cost_micros=700, splits=8, start_ms=start_ms)
    job_id = job.submit(cluster, made)
    yield cluster, job_id
    cluster.cancel(job_id)


def is_over(instant: float) -> bool:
    """Tell whether an instant of the monotonic clock is over."""
    return time.monotonic() >= instant


def outcomes(cluster: FlinkCluster, job_id: str) -> Iterator[PassOutcome]:
    """Do a pass every five seconds, through the parts that the daemon is made of."""
    settings = settings_of({**OPTIONS, "autoscaler.clusters.0.url": cluster.rest_url})
    with Wiring(settings) as wiring:
        passes = wiring.cluster_pass(settings.effective_clusters()[0], selects=lambda each: each.job_id == job_id)
        for number in range(PASSES):
            due = time.monotonic() + INTERVAL
            yield from (each.outcome for each in passes.run().reports.values())
            if number + 1 < PASSES:
                cluster.wait_until("the next pass is due", partial(is_over, due))


def figures(outcome: PassOutcome, metric: ScalingMetric) -> Mapping[str, float]:
    """Return an evaluated metric by the name of its vertex."""
    if outcome.observation.topology is None or outcome.metrics is None:
        return {}
    evaluated = outcome.metrics.vertices
    return {vertex.name: evaluated[v][metric].average for v, vertex in outcome.observation.topology.vertices.items()}


def planned(outcome: PassOutcome) -> Mapping[str, int]:
    """Return what a pass would change, by name."""
    if outcome.observation.topology is None or not isinstance(outcome.decision, Rescale):
        return {}
    return {
        outcome.observation.topology.vertices[v].name: summary.new for v, summary in outcome.decision.summaries.items()
    }


def test_windows_of_a_minute_plan_by_what_flink_has_measured(running: tuple[FlinkCluster, str]) -> None:
    found = [each for each in outcomes(*running) if each.observation.is_window_full]

    capacities = [figures(each, ScalingMetric.TRUE_PROCESSING_RATE) for each in found]
    assert capacities
    # Busy for less than a tenth of its time at 300 to 1,000 records/s; the rate of the first seconds would be 300.
    assert min(each[SOURCE] for each in capacities) > 3_000
    # 0.7 ms a record, and what sleeping adds on a busy machine; rates of the first minute would come to about 300.
    assert min(each[job.WORK_VERTEX] for each in capacities) > 1.5 * ARRIVALS
    assert not any(SOURCE in planned(each) for each in found)
