"""The same job of a real Flink under both sources of metrics: the decisions agree, and say where numbers came from."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial

import pytest

from flink_autoscaler.core.model.metrics import FlinkMetric, ScalingMetric
from flink_autoscaler.core.ports.passes import PassOutcome
from flink_autoscaler.standalone.daemon.cluster_pass import ClusterPass
from flink_autoscaler.standalone.daemon.wiring import Wiring
from testkit.clusters.flink import FlinkCluster, job
from testkit.clusters.flink.reporter import ReportingCluster
from testkit.scenarios.runner.wired import settings_of
from testkit.servers.prometheus import Prometheus, require

pytestmark = [pytest.mark.e2e, pytest.mark.suite(name="long")]

ARRIVALS, COST_MICROS = 400, 5000
"""One subtask of ``work`` can do 200 records/s: half of what arrives."""
INTERVAL, PASSES = 5.0, 22
SIZED = "SIZED"
_WANTED = re.compile(r"wanted (\d+)")
OPTIONS = {
    "job.autoscaler.enabled": "true",
    "job.autoscaler.metrics.window": "40 s",
    "job.autoscaler.stabilization.interval": "10 s",
    "job.autoscaler.vertex.max-parallelism": "12",
    "autoscaler.dry-run": "true",
    "autoscaler.engine.kind": "inline",
    "autoscaler.clusters.0.name": "e2e",
}


@contextmanager
def passes_of(cluster: FlinkCluster, **options: str) -> Iterator[ClusterPass]:
    values = {**OPTIONS, "autoscaler.clusters.0.url": cluster.rest_url, **options}
    settings = settings_of(values)
    with Wiring(settings) as wiring:
        yield wiring.cluster_pass(settings.effective_clusters()[0])


def is_over(instant: float) -> bool:
    return time.monotonic() >= instant


def outcome_of(passes: ClusterPass) -> PassOutcome:
    (report,) = passes.run().reports.values()
    return report.outcome


def wanted(outcome: PassOutcome) -> dict[str, int]:
    """Return the parallelism that was found to be needed, by the name of the vertex."""
    if outcome.observation.topology is None or not outcome.observation.is_window_full:
        return {}
    sized = [
        (each.vertex_id or "", _WANTED.search(each.text)) for each in outcome.decision.reasons if each.code == SIZED
    ]
    return {outcome.observation.topology.vertices[v].name: int(found[1]) for v, found in sized if found}


def rates(outcome: PassOutcome) -> dict[str, float]:
    """Return the target rates by name."""
    if outcome.metrics is None or outcome.observation.topology is None:
        return {}
    found = outcome.metrics.vertices
    targets = {v: each[ScalingMetric.TARGET_DATA_RATE] for v, each in found.items()}
    return {outcome.observation.topology.vertices[v].name: metric.average for v, metric in targets.items()}


@pytest.mark.parametrize("version", ["2.3", "1.20"])
def test_both_sources_come_to_the_same_decision(version: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    require()
    with ExitStack() as open_:
        cluster = open_.enter_context(ReportingCluster(version, taskmanagers=2, slots=4))
        folder = tmp_path_factory.mktemp("e2e")
        server = open_.enter_context(Prometheus(folder, target=cluster.targets, rules={"groups": []}))
        made = job.ScalingJob(
            curve=f"0:{ARRIVALS}", cost_micros=COST_MICROS, parallelism_source=2, splits=8, partition_metrics=True
        )
        job_id = job.submit(cluster, made)
        section = "autoscaler.clusters.0.metrics."
        source = {f"{section}source": "prometheus", f"{section}prometheus.url": server.url}
        by_rest, by_prometheus = (open_.enter_context(passes_of(cluster, **options)) for options in ({}, source))
        pairs: list[tuple[PassOutcome, PassOutcome]] = []
        for _ in range(PASSES):
            due = time.monotonic() + INTERVAL
            pairs.append((outcome_of(by_rest), outcome_of(by_prometheus)))
            cluster.wait_until("the next pass is due", partial(is_over, due))
        cluster.cancel(job_id)

    decided = [(wanted(rest), wanted(prometheus)) for rest, prometheus in pairs]
    both = [(one, other) for one, other in decided if one and other]
    assert both, [[each.decision.reasons, each.error] for each in pairs[-1]]
    one, other = both[-1]
    assert one.keys() == other.keys()
    assert one[job.WORK_VERTEX] > 1
    assert abs(one[job.WORK_VERTEX] - other[job.WORK_VERTEX]) <= 1
    last_rest, last = pairs[-1]
    assert rates(last)[job.WORK_VERTEX] == pytest.approx(rates(last_rest)[job.WORK_VERTEX], rel=0.1)
    assert last.memory.partitions == last_rest.memory.partitions
    assert last_rest.observation.origins == {}
    assert {origin for each in last.observation.origins.values() for origin in each.values()} == {"prometheus"}
    assert all(FlinkMetric.BUSY_TIME in each for each in last.observation.origins.values())
