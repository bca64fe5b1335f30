"""Answers that Flink gathered together are one sample, whoever asked; what is older than a restart is none."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from flink_autoscaler.core.cycle.advance import advance
from flink_autoscaler.core.model.decision import PassPhase
from flink_autoscaler.core.model.job import Endpoint, JobStatus
from flink_autoscaler.core.model.metrics import Aggregate, FlinkMetric, ScalingMetric
from flink_autoscaler.core.model.reading import ClusterReading, CollectorMemory, JobReading
from flink_autoscaler.core.model.state import EMPTY_STATE
from flink_autoscaler.core.model.topology import IoMetrics, JobDetails, PlanNode, VertexDetails
from flink_autoscaler.core.options.context import JobAutoScalerContext
from flink_autoscaler.core.ports.passes import PassOutcome, PassRequest
from testkit.builders.core_passes import CLUSTER, JOB_ID, OPTIONS, SOURCE, START_MS

GATHERS_EVERY_10_S = replace(CLUSTER, interval_ms=10_000)


class Passes:
    """Passes over a lone source in which 1,000 records/s arrive."""

    def __init__(self, cluster: ClusterReading, **options: str) -> None:
        values = {**OPTIONS, "job.autoscaler.metrics.window": "1 min", **options}
        context = JobAutoScalerContext("t/job", JOB_ID, JobStatus.RUNNING, values, Endpoint("http://none"))
        self.cluster = cluster
        self.request = PassRequest(context, EMPTY_STATE, START_MS, CollectorMemory(reports_gc=False))

    def look(self, second: int, gathered: int, *, running_since: int = -60) -> PassOutcome:
        """Do a pass at a second that gets what was gathered at another one."""
        self.request = replace(self.request, now_ms=START_MS + 1000 * second)
        reading = a_reading(gathered, running_since, self.request.memory)
        outcome = advance(self.request, reading, self.cluster)
        self.request = replace(self.request, state=outcome.state, memory=outcome.memory)
        return outcome

    @property
    def instants(self) -> list[int]:
        """Seconds of the samples."""
        return [(sample.at_ms - START_MS) // 1000 for sample in self.request.state.samples]


def a_reading(gathered: int, running_since: int, memory: CollectorMemory) -> JobReading:
    aggregates = {
        FlinkMetric.BUSY_TIME: Aggregate(500, 500, 500, 500),
        FlinkMetric.BACKPRESSURE_TIME: Aggregate(0, 0, 0, 0),
        FlinkMetric.SOURCE_RECORDS_IN: Aggregate(total=100_000 + 1000 * gathered),
        FlinkMetric.SOURCE_RECORDS_IN_RATE: Aggregate(total=1000),
    }
    times = IoMetrics(busy_ms=500.0 * (100 + gathered), idle_ms=500.0 * (100 + gathered), backpressured_ms=0.0)
    vertex = VertexDetails(SOURCE, "Source: lone", 1, 128, "RUNNING", times)
    running_at_ms = START_MS + 1000 * running_since
    details = JobDetails(JOB_ID, "job", "RUNNING", running_at_ms, (vertex,), (PlanNode(SOURCE, 1),))
    return JobReading(details, {SOURCE: aggregates}, memory)


def test_what_was_gathered_together_is_one_sample_with_the_instant_of_the_first() -> None:
    passes = Passes(GATHERS_EVERY_10_S)
    looks = ((0, 0), (5, 0), (11, 0), (15, 15), (20, 15), (26, 25))
    phases = [passes.look(second, gathered).phase for second, gathered in looks]

    assert passes.instants == [0, 15, 25]
    assert phases == [*[PassPhase.COLLECTING] * 3, *[PassPhase.WINDOW_FILLING] * 3]


@pytest.mark.parametrize(("age_ms", "is_known"), [(0, True), (4_000, False)])
def test_a_busy_share_that_was_gathered_before_flink_had_measured_it_is_unknown(age_ms: int, is_known: bool) -> None:
    passes = Passes(replace(GATHERS_EVERY_10_S, age_ms=age_ms))

    sample = passes.look(0, 0, running_since=-12).state.samples[-1]

    assert math.isfinite(sample.vertices[SOURCE][ScalingMetric.LOAD]) is is_known


def test_a_store_that_stands_still_for_longer_is_believed_again() -> None:
    passes = Passes(GATHERS_EVERY_10_S)
    for second in (0, 5, 25):
        passes.look(second, 0)

    assert passes.instants == [0, 25]


def test_the_tasks_tell_when_somebody_else_asked_for_a_gathering() -> None:
    passes = Passes(GATHERS_EVERY_10_S)
    for second, gathered in ((0, 0), (12, 11), (17, 11), (25, 22)):
        passes.look(second, gathered)

    assert passes.instants == [0, 11, 22]


def test_what_is_known_to_be_old_has_its_own_instant() -> None:
    passes = Passes(replace(GATHERS_EVERY_10_S, age_ms=4000))
    passes.look(10, 6)

    assert passes.instants == [6]


def test_a_process_that_cannot_tell_believes_tasks_that_have_run_for_longer_since() -> None:
    passes = Passes(GATHERS_EVERY_10_S)
    passes.look(0, 0)
    passes.cluster = replace(GATHERS_EVERY_10_S, doubt="this process has not asked before")
    phases = [passes.look(second, gathered).phase for second, gathered in ((5, 0), (12, 11), (40, 11))]

    assert phases == [PassPhase.NOT_READY, PassPhase.WINDOW_FILLING, PassPhase.NOT_READY]
    assert passes.instants == [0, 11]


@pytest.mark.parametrize("age_ms", [0, 6000], ids=["same answer", "known age"])
def test_what_was_gathered_before_the_job_began_to_run_is_no_sample(age_ms: int) -> None:
    passes = Passes(GATHERS_EVERY_10_S)
    passes.look(0, 0)
    passes.cluster = replace(GATHERS_EVERY_10_S, age_ms=age_ms)
    after = passes.look(6, 0 if age_ms == 0 else 1, running_since=3)
    passes.cluster = GATHERS_EVERY_10_S
    later = passes.look(11, 10, running_since=3)

    (reason,) = after.decision.reasons
    assert (after.phase, reason.code) == (PassPhase.NOT_READY, "METRICS_NOT_FRESH")
    assert later.phase is PassPhase.COLLECTING
    assert passes.instants == [11]
