from __future__ import annotations

from dataclasses import replace

import pytest

from flink_autoscaler.clients.flink.collector import choose_metric_names
from flink_autoscaler.clients.flink.freshness import gathering_interval
from flink_autoscaler.core.model.job import ClusterCapacity, JobStatus
from flink_autoscaler.core.model.metrics import Aggregate, FlinkMetric
from flink_autoscaler.core.model.reading import EMPTY_MEMORY, JobReading
from flink_autoscaler.core.model.rescale_facts import CheckpointFacts
from flink_autoscaler.core.model.topology import ShipStrategy, Vertex
from flink_autoscaler.standalone.readiness.checks import (
    ClusterFacts,
    Finding,
    JobFacts,
    Severity,
    is_ready,
    lacks_rescale_api,
    prerequisites_of,
)
from testkit.builders.core import a_context, a_topology, a_vertex, vertex_id

ADAPTIVE = {"jobmanager.scheduler": "adaptive"}


REACTIVE = {"scheduler-mode": "reactive"}


def told(facts: ClusterFacts) -> list[tuple[str, str, str | None]]:
    """Return code, weight and line of every finding."""
    return [(each.code, each.weight, each.line) for each in facts.findings]


def slots(total: int, free: int, *, taskmanagers: int = 1, is_fixed: bool = True) -> ClusterCapacity:
    return ClusterCapacity(taskmanagers, total, free, total, is_fixed=is_fixed)


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        pytest.param(ClusterFacts(), [], id="nothing known: nothing claimed"),
        pytest.param(ClusterFacts("2.3.0", ADAPTIVE), [], id="fit"),
        pytest.param(ClusterFacts("1.17.2", ADAPTIVE), [("FLINK_TOO_OLD", "needed", None)], id="before FLIP-291"),
        pytest.param(
            ClusterFacts("1.20.5", {}),
            [("SCHEDULER_NOT_ADAPTIVE", "needed", "jobmanager.scheduler: adaptive")],
            id="default scheduler",
        ),
        pytest.param(
            ClusterFacts("2.3.0", {"jobmanager.scheduler": "Default"}),
            [("SCHEDULER_NOT_ADAPTIVE", "needed", "jobmanager.scheduler: adaptive")],
            id="another scheduler",
        ),
        pytest.param(
            ClusterFacts("2.3.0", REACTIVE),
            [("REACTIVE_MODE", "needed", None)],
            id="reactive mode",
        ),
        pytest.param(ClusterFacts("2.3.0", REACTIVE, has_provider=True), [], id="reactive mode with a provider"),
        pytest.param(
            ClusterFacts("2.3.0", {**ADAPTIVE, "metrics.fetcher.update-interval": "0"}),
            [("METRICS_OFF", "needed", "metrics.fetcher.update-interval: 10000")],
            id="Flink gathers no metrics",
        ),
        pytest.param(
            ClusterFacts("1.20.1", {**ADAPTIVE, "jobmanager.adaptive-scheduler.min-parallelism-increase": "4"}),
            [("MIN_INCREASE", "note", None)],
            id="Flink does no small rescales",
        ),
        pytest.param(
            ClusterFacts("1.20.1", {**ADAPTIVE, "jobmanager.adaptive-scheduler.min-parallelism-increase": "NaN"}),
            [],
            id="a threshold that is no number",
        ),
        pytest.param(
            ClusterFacts(capacity=slots(0, 0, taskmanagers=0)),
            [("NO_TASKMANAGERS", "needed", None)],
            id="no TaskManager",
        ),
        pytest.param(
            ClusterFacts(capacity=slots(4, 0)),
            [("NO_FREE_SLOTS", "limit", "taskmanager.numberOfTaskSlots: 8")],
            id="full",
        ),
        pytest.param(ClusterFacts(capacity=slots(4, 1)), [("FREE_SLOTS", "note", None)], id="one slot free"),
        pytest.param(
            ClusterFacts(capacity=slots(4, 0, is_fixed=False)),
            [("CLUSTER_GROWS", "note", None)],
            id="full, but growing",
        ),
    ],
)
def test_cluster_is_told_what_it_needs(facts: ClusterFacts, expected: list[tuple[str, str, str | None]]) -> None:
    assert told(facts) == expected


@pytest.mark.parametrize(
    ("version", "expected"),
    [("1.17.2", True), ("1.18-SNAPSHOT", False), ("2.0.0", False), ("10.1", False), ("<unknown>", None)],
)
def test_version_is_old_before_1_18(version: str, expected: bool | None) -> None:
    assert lacks_rescale_api(version) is expected


@pytest.mark.parametrize(("text", "seconds"), [("2000", 2.0), ("5 s", 5.0), ("", 10.0), ("often", 10.0), ("0 ms", 0.0)])
def test_interval_of_metrics_is_read_in_both_forms(text: str, seconds: float) -> None:
    assert gathering_interval({"metrics.fetcher.update-interval": text}) == seconds


ENABLED = "job.autoscaler.enabled"


DISABLED = {"enabled": "false"}


TASK = "Source__orders"


OF_SOURCE = (
    "busyTimeMsPerSecond",
    "backPressuredTimeMsPerSecond",
    f"{TASK}.numRecordsInPerSecond",
    f"{TASK}.numRecordsIn",
)


LAG = f"{TASK}.pendingRecords"


SOME = {FlinkMetric.BUSY_TIME: Aggregate(average=500.0)}


def told_of_job(facts: JobFacts) -> list[tuple[str, str | None]]:
    """Return code and line of every finding but the one about the first decision."""
    found = [finding for finding in facts.findings if finding.code != "FIRST_DECISION"]
    return [(each.code, None if each.place is None else f"in {each.place}: {each.line}") for each in found]


def with_source(source: Vertex, *offered: str, values: bool = True) -> JobFacts:
    """Make a job of one source that offers some metrics."""
    topology = a_topology(source)
    memory, missing = choose_metric_names(topology, EMPTY_MEMORY, {source.vertex_id: offered}, now_ms=0, is_cached=True)
    reading = JobReading(None, {source.vertex_id: SOME if values else {}}, memory, missing)
    return JobFacts(a_context(flink=ADAPTIVE), topology=topology, reading=reading, age=600.0)


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        pytest.param(JobFacts(a_context(flink=ADAPTIVE)), [], id="fit"),
        pytest.param(
            JobFacts(a_context(DISABLED), reported={}, own={}),
            [("NOT_ENABLED", f"in autoscaler.yaml: {ENABLED}: true")],
            id="not enabled",
        ),
        pytest.param(
            JobFacts(a_context(DISABLED), reported={ENABLED: "false"}, own={}),
            [("NOT_ENABLED", f"in Flink's config.yaml: {ENABLED}: true")],
            id="disabled by the cluster, which wins",
        ),
        pytest.param(
            JobFacts(a_context(DISABLED), reported={"kubernetes.operator." + ENABLED: "false"}, own={}),
            [("NOT_ENABLED", f"in Flink's config.yaml: {ENABLED}: true")],
            id="disabled by the cluster, by the other key",
        ),
        pytest.param(
            JobFacts(a_context(DISABLED), reported={ENABLED: "true"}, own={ENABLED: "false"}),
            [("NOT_ENABLED", f"in the job's pipeline.global-job-parameters: {ENABLED}:true")],
            id="disabled by the job itself",
        ),
        pytest.param(
            JobFacts(a_context({"scaling.enabled": "false"})),
            [("ADVICE_ONLY", "in autoscaler.yaml: job.autoscaler.scaling.enabled: true")],
            id="advice only",
        ),
        pytest.param(
            JobFacts(a_context({"excluded.periods": "8:00-10:00"})), [("EXCLUDED_PERIODS", None)], id="excluded periods"
        ),
        pytest.param(JobFacts(a_context(status=JobStatus.CREATED)), [("NOT_RUNNING", None)], id="waits for slots"),
        pytest.param(JobFacts(a_context(status=JobStatus.RESTARTING)), [("NOT_RUNNING", None)], id="restarts"),
        pytest.param(JobFacts(a_context(), job_type="BATCH"), [("BATCH_JOB", None)], id="batch"),
        pytest.param(
            JobFacts(a_context(flink=ADAPTIVE), refusal="Cannot access", scheduler="Default"),
            [("RESCALE_REFUSED", None)],
            id="another scheduler than is set",
        ),
        pytest.param(
            JobFacts(a_context(), refusal="Cannot access"), [], id="a refusal that the cluster's scheduler explains"
        ),
        pytest.param(
            JobFacts(a_context(), checkpoints=CheckpointFacts(is_enabled=False)),
            [("NO_CHECKPOINTS", "in Flink's config.yaml: execution.checkpointing.interval: 30s")],
            id="no checkpoints",
        ),
        pytest.param(
            JobFacts(a_context({**DISABLED, "utilization.target": "7"})),
            [("INVALID_CONFIG", None), ("NOT_ENABLED", f"in autoscaler.yaml: {ENABLED}: true")],
            id="invalid and not enabled",
        ),
        pytest.param(JobFacts(a_context({"utilization.target": "7"})), [("INVALID_CONFIG", None)], id="invalid value"),
        pytest.param(
            JobFacts(a_context({"enabled": "maybe"})), [("INVALID_CONFIG", None)], id="neither true nor false"
        ),
    ],
)
def test_job_is_told_what_it_needs(facts: JobFacts, expected: list[tuple[str, str | None]]) -> None:
    assert told_of_job(facts) == expected


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        pytest.param(with_source(a_vertex(), *OF_SOURCE, LAG), [], id="all there"),
        pytest.param(with_source(a_vertex(), *OF_SOURCE), [("LAG_UNKNOWN", None)], id="without lag"),
        pytest.param(with_source(a_vertex(), values=False), [("METRIC_MISSING", None)], id="without any"),
        pytest.param(
            with_source(a_vertex(), OF_SOURCE[0], LAG), [("METRIC_MISSING", None)], id="without one that is required"
        ),
        pytest.param(
            with_source(a_vertex(), *OF_SOURCE, LAG, values=False),
            [("METRICS_NOT_YET", None)],
            id="names without values",
        ),
        pytest.param(
            with_source(a_vertex(parallelism=128), *OF_SOURCE, LAG),
            [("MAX_PARALLELISM_REACHED", "in Flink's config.yaml: pipeline.max-parallelism: 240")],
            id="as many subtasks as key groups",
        ),
        pytest.param(
            with_source(a_vertex(max_parallelism=127), *OF_SOURCE, LAG),
            [("FEW_DIVISORS", "in Flink's config.yaml: pipeline.max-parallelism: 240")],
            id="a prime number of key groups",
        ),
        pytest.param(
            with_source(a_vertex(parallelism=200, max_parallelism=720), *OF_SOURCE, LAG),
            [("UPPER_LIMIT_REACHED", "in autoscaler.yaml: job.autoscaler.vertex.max-parallelism: 400")],
            id="at the autoscaler's own limit",
        ),
        pytest.param(
            with_source(
                a_vertex(parallelism=2),
                *OF_SOURCE,
                LAG,
                *(f"{TASK}.KafkaSourceReader.topic.t.partition.{number}.currentOffset" for number in range(2)),
            ),
            [("PARTITIONS_REACHED", None)],
            id="a subtask per partition",
        ),
        pytest.param(with_source(a_vertex(is_finished=True), values=False), [], id="finished"),
    ],
)
def test_vertices_are_told_what_they_lack(facts: JobFacts, expected: list[tuple[str, str | None]]) -> None:
    assert told_of_job(facts) == expected


def test_excluded_vertex_is_named() -> None:
    context = a_context({"vertex.exclude.ids": vertex_id(1)}, ADAPTIVE)

    found = JobFacts(context, topology=a_topology(a_vertex())).findings

    assert [each.vertex_id for each in found if each.code == "VERTEX_EXCLUDED"] == [vertex_id(1)]


def test_vertices_with_the_same_key_groups_share_a_finding() -> None:
    topology = a_topology(
        a_vertex(1, max_parallelism=127),
        a_vertex(2, max_parallelism=127, inputs={1: ShipStrategy.HASH}),
        a_vertex(3, max_parallelism=1, inputs={2: ShipStrategy.REBALANCE}),
    )

    found = told_of_job(JobFacts(a_context(), topology=topology))

    assert [code for code, _ in found] == ["ALWAYS_ONE", "FEW_DIVISORS"]


def test_job_that_has_just_started_is_told_to_be_asked_about_again() -> None:
    facts = replace(with_source(a_vertex(), values=False), age=3.0)

    texts = [finding.text for finding in facts.findings]

    assert any("run for 3 s only; ask again in a minute" in text for text in texts)


def test_what_is_needed_comes_first() -> None:
    facts = replace(
        with_source(a_vertex(), *OF_SOURCE), context=a_context({**DISABLED, "excluded.periods": "1:00-2:00"})
    )

    weights = [finding.weight for finding in facts.findings]

    assert weights == [Severity.BLOCKER, Severity.LIMITATION, Severity.INFO, Severity.INFO]


@pytest.mark.parametrize(
    ("weight", "expected"), [(Severity.BLOCKER, False), (Severity.LIMITATION, True), (Severity.INFO, True)]
)
def test_job_is_ready_when_nothing_is_needed(weight: Severity, expected: bool) -> None:
    assert is_ready((Finding("X", weight, "x"),)) is expected


def test_needs_leave_limits_and_notes_out() -> None:
    context = a_context(DISABLED, {"jobmanager.scheduler": "default"})

    assert [finding.code for finding in prerequisites_of(context)] == ["SCHEDULER_NOT_ADAPTIVE", "NOT_ENABLED"]
