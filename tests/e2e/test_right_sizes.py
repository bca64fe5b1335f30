"""What real jobs once showed wrong: rates of a sink with two inputs, a hot key, few partitions, no lag, a threshold."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest

from flink_autoscaler.core.model.decision import Rescale
from flink_autoscaler.core.model.metrics import ScalingMetric
from flink_autoscaler.standalone.daemon.pass_report import PassReport
from testkit.clusters.flink import FlinkCluster, job
from testkit.scenarios.rescue import SupervisedPasses
from testkit.scenarios.rescue.passes import ONLY_WORK

pytestmark = [pytest.mark.e2e, pytest.mark.suite(name="long")]

OPTIONS: Mapping[str, str] = {
    "job.autoscaler.metrics.window": "10 s",
    "job.autoscaler.scale-down.max-factor": "0.6",
    "job.autoscaler.vertex.max-parallelism": "16",
}


@pytest.fixture(scope="module", params=["1.20", "2.3"], ids=["Flink 1.20", "Flink 2.3"])
def shared_cluster(request: pytest.FixtureRequest) -> Iterator[FlinkCluster]:
    with FlinkCluster(request.param, taskmanagers=2, slots=12) as started:
        yield started


@pytest.fixture
def cluster(shared_cluster: FlinkCluster) -> Iterator[FlinkCluster]:
    yield shared_cluster
    for entry in shared_cluster.rest.get("/jobs")["jobs"]:
        if entry["status"] not in ("CANCELED", "FAILED", "FINISHED"):
            shared_cluster.cancel(entry["id"])


def evaluated_passes(passes: SupervisedPasses) -> list[PassReport]:
    """Return the passes that evaluated the job on a full window."""
    return [
        report
        for report in passes.reports
        if any(each.outcome.observation.is_window_full and each.outcome.metrics for each in report.reports.values())
    ]


def texts(passes: SupervisedPasses) -> str:
    """Return every sentence that was given for a decision."""
    decisions = [each.outcome.decision for report in passes.reports for each in report.reports.values()]
    return "\n".join(reason.text for decision in decisions for reason in decision.reasons)


def rescales(passes: SupervisedPasses) -> list[Rescale]:
    """Return what was asked for, in order."""
    decisions = [each.outcome.decision for report in passes.reports for each in report.reports.values()]
    return [decision for decision in decisions if isinstance(decision, Rescale)]


def test_a_sink_of_rare_alerts_is_sized_for_what_it_receives(cluster: FlinkCluster) -> None:
    load = job.ScalingJob(name="alerts", curve="0:1500", cost_micros=100, alert_every=800, alert_cost_millis=20)
    job_id = job.submit(cluster, load, entry_class=job.ALERTS_CLASS)
    sink = next(v["id"] for name, v in cluster.rest.vertices(job_id).items() if "alerts" in name)

    with SupervisedPasses(cluster, OPTIONS) as passes:
        passes.until("ten evaluations", lambda: len(evaluated_passes(passes)) >= 10)
        (last,) = evaluated_passes(passes)[-1].reports.values()

    assert last.outcome.metrics is not None
    metrics = last.outcome.metrics.vertices[sink]
    # Two branches with 1.9 alerts a second each; the branches put out 3,000 records a second in all.
    assert metrics[ScalingMetric.TARGET_DATA_RATE].average < 20
    assert not any(sink in decision.summaries for decision in rescales(passes))


def test_a_hot_key_is_scaled_up_once_and_named(cluster: FlinkCluster) -> None:
    load = job.ScalingJob(name="hot", curve="0:1500", keys=1, cost_micros=1000, parallelism_work=2)
    job.submit(cluster, load)

    with SupervisedPasses(cluster, {**OPTIONS, **ONLY_WORK}) as passes:
        passes.until("a rescale or a refusal", lambda: rescales(passes) or "hot key" in texts(passes))
        passes.until("the skew named", lambda: "hot key" in texts(passes))
        passes.repeat(40)

    assert len(rescales(passes)) <= 1


def test_a_source_goes_to_its_partitions_at_once(cluster: FlinkCluster) -> None:
    load = job.ScalingJob(
        name="few partitions", curve="0:600", splits=3, partition_metrics=True, parallelism_source=10, cost_micros=100
    )
    job_id = job.submit(cluster, load)

    with SupervisedPasses(cluster, OPTIONS) as passes:
        passes.until("a rescale", lambda: rescales(passes))
        passes.until("three", lambda: cluster.rest.parallelism(job_id)[job.SOURCE_VERTEX] == 3)

    source = cluster.rest.vertices(job_id)[job.SOURCE_VERTEX]["id"]
    assert [each.summaries[source].new for each in rescales(passes) if source in each.summaries] == [3]


def test_a_backpressured_source_of_unknown_lag_is_scaled_up(cluster: FlinkCluster) -> None:
    load = job.ScalingJob(name="no lag", curve="0:3000", lag_metric=False, cost_micros=1000, parallelism_work=1)
    job_id = job.submit(cluster, load)

    with SupervisedPasses(cluster, {**OPTIONS, **ONLY_WORK}) as passes:
        passes.until("three subtasks", lambda: passes.work_parallelism(job_id) >= 3)

    assert "lag does not grow" not in texts(passes)


@pytest.fixture
def cautious_cluster() -> Iterator[FlinkCluster]:
    """A cluster that does nothing about a rescale by fewer than four subtasks, whatever it has accepted."""
    threshold = {"jobmanager.adaptive-scheduler.min-parallelism-increase": "4"}
    with FlinkCluster("1.20", taskmanagers=2, slots=12, config=threshold) as started:
        yield started


# Seven of 105 key groups are even.
CAUTIOUS = job.ScalingJob(name="threshold", curve="0:4200", cost_micros=1000, parallelism_work=4, max_parallelism=105)


def test_a_rescale_is_as_large_as_flink_wants_it(cautious_cluster: FlinkCluster) -> None:
    job_id = job.submit(cautious_cluster, CAUTIOUS)

    with SupervisedPasses(cautious_cluster, {**OPTIONS, **ONLY_WORK}) as passes:
        passes.until("at least four more", lambda: passes.work_parallelism(job_id) >= 8)

    assert len(rescales(passes)) == 1


def test_a_rescale_that_flink_would_never_do_waits_and_says_so(cautious_cluster: FlinkCluster) -> None:
    job_id = job.submit(cautious_cluster, CAUTIOUS)
    bounds = {"job.autoscaler.vertex.bounds": f"{ONLY_WORK['job.autoscaler.vertex.bounds']};work=1..7"}

    with SupervisedPasses(cautious_cluster, {**OPTIONS, **bounds}) as passes:
        passes.until("the threshold named", lambda: "min-parallelism-increase" in texts(passes))
        passes.repeat(10)

    assert rescales(passes) == []
    assert passes.work_parallelism(job_id) == 4
