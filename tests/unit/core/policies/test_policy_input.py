"""What policies are shown of a pass."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from flink_autoscaler.core.evaluate.downtime import expected_outage
from flink_autoscaler.core.evaluate.evaluation import EvaluationSettings, evaluate
from flink_autoscaler.core.model.job import ClusterCapacity
from flink_autoscaler.core.model.metrics import (
    Aggregate,
    EvaluatedMetric,
    FlinkMetric,
    MetricSample,
    ScalingMetric,
    VertexId,
    VertexMetrics,
)
from flink_autoscaler.core.model.policy_values import JobObservation, Outage, PastRescale, SourceForecast
from flink_autoscaler.core.model.reading import VertexAggregates
from flink_autoscaler.core.model.rescale_facts import CheckpointFacts, RescaleFacts
from flink_autoscaler.core.model.state import JobState, ScalingRecord
from flink_autoscaler.core.model.supervision import RescaleRecord, Stage, Supervision
from flink_autoscaler.core.model.topology import ShipStrategy
from flink_autoscaler.core.policies.policy_input import build_observation, policy_input
from flink_autoscaler.core.ports.passes import EvaluatedJob
from testkit.builders.core import (
    JOB_ID,
    MINUTE,
    a_cluster,
    a_context,
    a_reading,
    a_sample,
    a_topology,
    a_vertex,
    operator_answers,
    source_answers,
    vertex_id,
)

SOURCE, MAP = vertex_id(1), vertex_id(2)
ANSWERS: Mapping[VertexId, VertexAggregates] = {
    SOURCE: source_answers(busy_ms=500.0, rate=100.0, pending=600.0),
    MAP: operator_answers(busy_ms=800.0, rate=200.0),
}


def counted(at: int, *, lag: float = 600.0) -> dict[VertexId, VertexMetrics]:
    """Return what a source of 100 records/s and its map, to which it sends twice as many, have done by minute ``at``.

    The map has four subtasks, of which the busiest is busy for 0.8 and the average one for half of its time.
    """
    return {
        SOURCE: {
            ScalingMetric.NUM_RECORDS_IN: 6_000.0 * at,
            ScalingMetric.NUM_RECORDS_OUT: 12_000.0 * at,
            ScalingMetric.LOAD: 0.5,
            ScalingMetric.ACCUMULATED_BUSY_TIME: 60_000.0 * at,
            ScalingMetric.LAG: lag,
        },
        MAP: {
            ScalingMetric.NUM_RECORDS_IN: 12_000.0 * at,
            ScalingMetric.LOAD: 0.8,
            ScalingMetric.ACCUMULATED_BUSY_TIME: 120_000.0 * at,
        },
    }


SAMPLES = tuple(a_sample(at * MINUTE, counted(at)) for at in (1, 2, 3))
# The job as it is at parallelism 2 and 4.
VERTICES = (
    a_vertex(1, parallelism=2, partitions=6),
    a_vertex(2, parallelism=4, inputs={1: ShipStrategy.HASH}, group="g"),
)


def an_input(
    samples: tuple[MetricSample, ...] = SAMPLES,
    *,
    options: Mapping[str, str] | None = None,
    flink: Mapping[str, str] | None = None,
    state: JobState | None = None,
    answers: Mapping[VertexId, VertexAggregates] | None = None,
    facts: RescaleFacts | None = None,
    excluded: frozenset[VertexId] = frozenset(),
    finished: int = 0,
) -> EvaluatedJob:
    """Make the input of a decision about the job."""
    context = a_context(options, flink)
    vertices = tuple(replace(each, is_finished=each.vertex_id == vertex_id(finished)) for each in VERTICES)
    topology = a_topology(*vertices)
    settings = EvaluationSettings.of(context.options, 300)
    reading = a_reading(VERTICES, ANSWERS if answers is None else answers, running_at_ms=30_000)
    return EvaluatedJob(
        context=context,
        topology=topology,
        metrics=evaluate(topology, samples, settings),
        state=replace(state or JobState(), samples=samples),
        cluster=a_cluster(slots_used=5),
        excluded=excluded | topology.finished,
        restart_time=300,
        now_ms=3 * MINUTE,
        reading=replace(reading, facts=facts),
    )


def observed(samples: tuple[MetricSample, ...] = SAMPLES, **changes: Any) -> JobObservation:
    return build_observation(an_input(samples, **changes))


def test_a_vertex_is_shown_as_it_was_evaluated() -> None:
    obs = observed()
    source, mapper = obs.vertices[SOURCE], obs.vertices[MAP]

    assert (source.is_source, mapper.is_source) == (True, False)
    assert (source.parallelism, source.min_parallelism, source.max_parallelism) == (2, 1, 6)
    assert (mapper.parallelism, mapper.min_parallelism, mapper.max_parallelism) == (4, 1, 128)
    assert (source.rate_in, source.target_rate, source.rate_out) == (100.0, 100.0, {MAP: 200.0})
    assert (mapper.rate_in, mapper.target_rate, mapper.true_rate) == (200.0, 200.0, 250.0)
    assert (mapper.busy, mapper.busy_mean) == (0.8, 0.5)
    assert obs.edges == {(SOURCE, MAP): 2.0}
    assert source.complete
    assert mapper.complete


@pytest.mark.parametrize(
    ("rates", "expected"),
    [
        pytest.param(Aggregate(maximum=80.0, average=50.0), 1.6, id="one does more"),
        pytest.param(Aggregate(maximum=49.0, average=50.0), 1.0, id="never less than one"),
        pytest.param(Aggregate(maximum=0.0, average=0.0), None, id="nothing is read"),
        pytest.param(Aggregate(total=200.0), None, id="only the sum is known"),
        pytest.param(Aggregate(maximum=math.nan, average=1.0), None, id="not a number"),
    ],
)
def test_skew_is_known_from_the_aggregates_of_the_rates(rates: Aggregate, expected: float | None) -> None:
    answers = {**ANSWERS, MAP: {**ANSWERS[MAP], FlinkMetric.RECORDS_IN_RATE: rates}}

    assert observed(answers=answers).vertices[MAP].skew == expected


def test_a_job_is_shown_with_its_window_slots_and_memory() -> None:
    obs = observed()

    assert (obs.job_key, obs.job_id, obs.now, obs.window) == ("a cluster/a job", JOB_ID, 180.0, (60.0, 180.0))
    assert obs.all_tasks_running
    assert (obs.slots_total, obs.slots_free, obs.slots_per_tm) == (8, 3, None)
    assert obs.slot_groups == {"g": frozenset({MAP})}
    assert (obs.last_restart_at, obs.last_rescale_at) == (30.0, None)


def test_the_capacity_of_a_cluster_goes_before_its_metrics() -> None:
    given = an_input()
    given = replace(given, context=replace(given.context, capacity=ClusterCapacity(3, 12, 5, 4)))

    obs = build_observation(given)

    assert (obs.slots_total, obs.slots_free, obs.slots_per_tm, obs.tm_count) == (12, 5, 4, 3)


UNEVEN = {**ANSWERS, SOURCE: {**ANSWERS[SOURCE], FlinkMetric.SLOWEST_PARTITION: Aggregate(total=300.0)}}


def test_a_source_with_a_slow_partition_has_more_to_drain_unless_it_is_not_to_be_scaled() -> None:
    """As while one partition has most of the lag: other vertices are sized for what comes along."""
    job = an_input(answers=UNEVEN)
    even = job.metrics.vertices[SOURCE]
    slower = {**even, ScalingMetric.CATCH_UP_DATA_RATE: EvaluatedMetric(2.0, math.nan)}  # of half an hour
    job = replace(job, metrics=replace(job.metrics, vertices={**job.metrics.vertices, SOURCE: slower}))

    found = [build_observation(replace(job, excluded=frozenset(each))).vertices[SOURCE] for each in ((), (SOURCE,))]

    assert [each.lag_to_drain for each in found] == [3_600.0, 600.0]
    assert [each.lag_records for each in found] == [600.0, 600.0]


def test_a_source_that_tells_no_lag_has_an_unknown_one() -> None:
    silent = {k: v for k, v in ANSWERS[SOURCE].items() if k is not FlinkMetric.PENDING_RECORDS}

    source = observed(answers={**ANSWERS, SOURCE: silent}).vertices[SOURCE]

    assert (source.lag_records, source.lag_slope) == (None, None)


def test_an_idle_vertex_has_no_true_rate() -> None:
    still = {vertex: {**metrics, ScalingMetric.NUM_RECORDS_IN: 7.0} for vertex, metrics in counted(1).items()}
    samples = tuple(replace(sample, vertices=still) for sample in SAMPLES)

    source = observed(samples).vertices[SOURCE]

    assert (source.rate_in, source.target_rate, source.true_rate) == (0.0, 0.0, None)


@pytest.mark.parametrize(
    ("compat", "incomplete_at", "expected"),
    [
        pytest.param("improved", 0, True, id="earlier, and unknown then"),
        pytest.param("improved", 2, False, id="now"),
        pytest.param("reference", 0, False, id="earlier, and too low then"),
    ],
)
def test_a_vertex_is_incomplete_where_its_counters_are(compat: str, incomplete_at: int, expected: bool) -> None:
    samples = tuple(
        replace(sample, incomplete=frozenset({MAP}) if at == incomplete_at else frozenset())
        for at, sample in enumerate(SAMPLES)
    )

    vertices = observed(samples, options={"compat": compat}).vertices

    assert (vertices[SOURCE].complete, vertices[MAP].complete) == (True, expected)


def test_a_vertex_is_incomplete_when_what_it_gets_is_not_known() -> None:
    samples = tuple(replace(sample, vertices={**sample.vertices, MAP: {ScalingMetric.LOAD: 0.8}}) for sample in SAMPLES)

    obs = observed(samples)

    assert obs.edges == {}
    assert (obs.vertices[MAP].complete, obs.vertices[MAP].rate_in, obs.vertices[MAP].busy_mean) == (False, None, None)
    assert obs.vertices[SOURCE].rate_out == {}


def test_a_vertex_that_is_not_scaled_has_no_room() -> None:
    mapper = observed(excluded=frozenset({MAP})).vertices[MAP]

    assert (mapper.min_parallelism, mapper.max_parallelism) == (4, 4)


def test_a_vertex_beyond_its_limits_keeps_what_it_has_as_its_limit() -> None:
    narrow = observed(options={"vertex.max-parallelism": "3"}).vertices[MAP]
    wide = observed(options={"vertex.min-parallelism": "9", "vertex.max-parallelism": "20"}).vertices[MAP]

    assert (narrow.min_parallelism, narrow.max_parallelism) == (1, 4)
    assert (wide.min_parallelism, wide.max_parallelism) == (4, 20)


def a_record(at_ms: int, stage: Stage, outage_ms: int | None = None) -> RescaleRecord:
    return RescaleRecord(
        at_ms, at_ms, {SOURCE: 1}, {SOURCE: 2}, stage=stage, outage_ms=outage_ms, reached={}, state_bytes=1 << 30
    )


PAST = JobState(
    supervision=Supervision(
        past=(a_record(10_000, Stage.REACHED, 20_000), a_record(20_000, Stage.REFUSED)),
        current=a_record(30_000, Stage.PENDING),
    )
)


def test_past_rescales_are_those_that_happened() -> None:
    given = policy_input(an_input(state=PAST))

    assert given.history == (
        PastRescale(10.0, {SOURCE: 1}, {SOURCE: 2}, 20.0),
        PastRescale(30.0, {SOURCE: 1}, {SOURCE: 2}),
    )
    assert given.obs.last_rescale_at == 30.0
    assert given.obs.state_bytes == 1 << 30


def test_the_last_decision_stands_for_a_rescale_that_was_not_followed() -> None:
    state = JobState(tracking=(ScalingRecord(15_000, 4_000), ScalingRecord(25_000)))

    assert observed(state=state).last_rescale_at == 25.0


def test_an_outage_is_assumed_until_one_was_measured() -> None:
    checkpointed = {"execution.checkpointing.interval": "20 s"}

    assert expected_outage(an_input(flink=checkpointed)) == Outage(300.0, 300.0, replay=10.0)
    assert expected_outage(an_input(state=PAST)).q90 == pytest.approx(26.0, abs=0.1)


def test_checkpoints_that_were_read_go_before_what_is_configured() -> None:
    facts = RescaleFacts(checkpoints=CheckpointFacts(completed_ms=170_000, state_bytes=99, interval_ms=40_000))

    obs = observed(flink={"execution.checkpointing.interval": "20 s"}, facts=facts, state=PAST)

    assert (obs.last_checkpoint_at, obs.state_bytes, obs.checkpoint_interval) == (170.0, 99, 40.0)


def test_forecast_and_configuration_are_handed_on() -> None:
    demand = {SOURCE: SourceForecast(200.0, 300.0, 100.0)}

    given = policy_input(replace(an_input(options={"slo.lag": "30 s"}), demand=demand))

    assert given.demand == demand
    assert given.config["job.autoscaler.slo.lag"] == "30 s"
