"""No rescale hangs on one sample of the metric window."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flink_autoscaler.core.cycle.robustness import PlanDifference, largest_difference, suspect_samples
from flink_autoscaler.core.model.decision import Hold, Rescale
from flink_autoscaler.core.model.events import Reason
from flink_autoscaler.core.model.metrics import Aggregate, FlinkMetric, ScalingMetric, VertexId
from flink_autoscaler.core.model.policy_values import PolicyInput, Proposal, ProposalDirection
from flink_autoscaler.core.model.reading import JobReading, VertexAggregates
from flink_autoscaler.core.model.state import JobState
from flink_autoscaler.core.model.topology import IoMetrics, ShipStrategy
from flink_autoscaler.core.ports.passes import PassOutcome
from flink_autoscaler.core.ports.plugins import Plugins
from testkit.builders.core import (
    MINUTE,
    PIPELINE_MAP,
    PIPELINE_SOURCE,
    SINGLE_SOURCE_OPTIONS,
    JobDriver,
    a_context,
    a_reading,
    a_sample,
    a_vertex,
    operator_answers,
    single_source,
    source_answers,
    vertex_id,
)

OPTIONS = {**SINGLE_SOURCE_OPTIONS, "metrics.window": "5 min", "vertex.max-parallelism": "50"}
A, B = vertex_id(1), vertex_id(2)
PRESENT = {A: 4, B: 4}


def steady(minute: int, *, pending: float = 0.0, busy_ms: float = 500.0) -> JobReading:
    return single_source(minute, rate=100.0, busy_ms=busy_ms, pending=pending)


def codes(outcome: PassOutcome) -> list[str]:
    return [reason.code for reason in outcome.decision.reasons]


def told(outcome: PassOutcome) -> list[str]:
    return [event.reason for event in outcome.events]


@pytest.mark.parametrize(
    ("planned", "other", "differs"),
    [
        pytest.param({A: 6}, {A: 6}, None, id="the same"),
        pytest.param({A: 9}, {A: 6}, None, id="larger by half"),
        pytest.param({A: 10}, {A: 6}, PlanDifference(A, 4, 10, 6), id="larger by more than half"),
        pytest.param({A: 6}, {A: 10}, PlanDifference(A, 4, 6, 10), id="smaller by more than half"),
        pytest.param({A: 5}, {}, PlanDifference(A, 4, 5, 4), id="nothing, where all of it is a little"),
        pytest.param({A: 3}, {}, PlanDifference(A, 4, 3, 4), id="nothing, where it goes down"),
        pytest.param({A: 5}, {A: 3}, PlanDifference(A, 4, 5, 3), id="the other direction"),
        pytest.param({A: 8, B: 5}, {A: 8}, None, id="a vertex more that changes a little"),
        pytest.param({A: 8, B: 3}, {A: 8, B: 5}, PlanDifference(B, 4, 3, 5), id="one vertex in the other direction"),
        pytest.param({A: 8}, {A: 8, B: 8}, PlanDifference(B, 4, 4, 8), id="a vertex less that changes much"),
        pytest.param({A: 5}, {B: 5}, PlanDifference(A, 4, 5, 4), id="another vertex"),
    ],
)
def test_plans_differ_by_direction_or_by_more_than_half(
    planned: dict[VertexId, int], other: dict[VertexId, int], differs: PlanDifference | None
) -> None:
    assert largest_difference(planned, other, PRESENT) == differs


def test_both_ends_of_the_window_and_its_outliers_are_suspect() -> None:
    loads = [0.5] * 20
    loads[7], loads[11], loads[13] = 0.9, 0.1, 0.6
    samples = [a_sample(at, {A: {ScalingMetric.LOAD: load}}) for at, load in enumerate(loads)]

    assert suspect_samples(samples) == [19, 13, 11, 7, 0]


def test_the_first_sample_that_is_known_is_suspect() -> None:
    loads = [math.nan] * 4 + [0.5] * 16
    samples = [a_sample(at, {A: {ScalingMetric.LOAD: load}}) for at, load in enumerate(loads)]

    assert 4 in suspect_samples(samples)


def test_an_answer_of_minutes_ago_does_not_rescale_a_job() -> None:
    truth = Truth(rate=50.0, busy_ms=(150.0, 150.0), pending=30_000.0, aggregator="MAX", window=5)
    readings = [truth.reading(minute, copy_of=3 if minute == 6 else None) for minute in range(1, 14)]

    assert plans(truth, readings) == []


def test_a_plan_that_hangs_on_the_newest_sample_waits_and_says_both_figures() -> None:
    driver = JobDriver(a_context(OPTIONS))
    driver.run_each_minute([steady(minute) for minute in range(1, 8)])
    driver.context = a_context({**OPTIONS, "catch-up.duration": "1 min"})

    outcome = driver.run(8 * MINUTE, steady(8, pending=60_000.0))

    assert isinstance(outcome.decision, Hold)
    [why] = [reason for reason in outcome.decision.reasons if reason.code == "SAMPLE_DOUBTED"]
    assert dict(why.figures) == {"present": 4.0, "planned": 50.0, "without_sample": 4.0, "sample_age": 0.0}
    [event] = [event for event in outcome.events if event.reason == "SampleDoubted"]
    assert event.message == f"Scaling is held back: vertex 1 {why.text}"
    assert event.interval == driver.context.options.scaling_event_interval
    assert (outcome.target.parallelism, driver.state.overrides, driver.state.history) == ({}, {}, {})


def test_a_backlog_that_is_there_in_the_next_sample_too_is_scaled_for() -> None:
    driver = JobDriver(a_context({**OPTIONS, "catch-up.duration": "1 min"}))
    driver.run_each_minute([steady(minute) for minute in range(1, 8)])

    outcomes = [driver.run(minute * MINUTE, steady(minute, pending=60_000.0)) for minute in (8, 9)]

    assert "SAMPLE_DOUBTED" in codes(outcomes[0])
    assert isinstance(outcomes[1].decision, Rescale)


def test_where_the_newest_sample_alone_makes_a_rate_known_the_plan_waits_for_the_next_one() -> None:
    driver = JobDriver(a_context(OPTIONS))
    unknown = [single_source(minute, rate=100.0, busy_ms=1000.0, is_complete=False) for minute in range(1, 7)]
    driver.run_each_minute(unknown)

    outcomes = [driver.run(minute * MINUTE, steady(minute, busy_ms=1000.0)) for minute in (7, 8, 9)]

    assert [type(outcome.decision) for outcome in outcomes] == [Hold, Hold, Rescale]
    assert "SAMPLE_DOUBTED" in codes(outcomes[1])
    assert outcomes[1].state.policies == {}


@pytest.mark.parametrize(
    "options", [{"compat": "reference"}, {"sample-check.enabled": "false"}], ids=["reference", "switched off"]
)
def test_without_the_improvement_no_plan_is_doubted(options: Mapping[str, str]) -> None:
    driver = JobDriver(a_context({**OPTIONS, **options, "catch-up.duration": "1 min"}))
    driver.run_each_minute([steady(minute) for minute in range(1, 8)])

    outcome = driver.run(8 * MINUTE, steady(8, pending=60_000.0))

    assert isinstance(outcome.decision, Rescale)


@dataclass
class CountingPolicy:
    """Wants six subtasks as soon as there is a lag, and counts how often it is asked."""

    confirms_plans: bool
    asked: int = 0
    name: str = "counting"

    def propose(self, given: PolicyInput) -> Proposal:
        self.asked += 1
        (vertex,) = given.obs.vertices.values()
        target = 6 if vertex.lag_records else vertex.parallelism
        direction = ProposalDirection.UP if target > vertex.parallelism else ProposalDirection.NONE
        return Proposal(self.name, {vertex.vertex_id: target}, direction, {}, 1.0, (Reason("COUNTED", "lag"),))


def test_a_pass_without_a_plan_is_evaluated_once() -> None:
    policy = CountingPolicy(confirms_plans=False)
    driver = JobDriver(a_context({**OPTIONS, "policy": "counting"}), plugins=Plugins(policies={"counting": policy}))
    driver.run_each_minute([steady(minute) for minute in range(1, 8)])
    asked = policy.asked

    driver.run(8 * MINUTE, steady(8))

    assert policy.asked - asked == 1


LIES: Sequence[float | None] = (None, 0.0, -1.0, 1.0, 1e7, 1e12, 1e308, math.inf, -math.inf, math.nan, 2.0**63)

Answer = tuple[IoMetrics, VertexAggregates]
Lie = Callable[[Answer], Answer]


def counter(name: str, value: float | None) -> Lie:
    """Return the lie that a counter has a value; None is a counter that is not told."""

    def lie(answer: Answer) -> Answer:
        io, aggregates = answer
        is_told = value is not None and math.isfinite(value)
        changed: dict[str, Any] = {name: int(value or 0) if is_told else 0, "is_complete": is_told}
        return replace(io, **changed), aggregates

    return lie


def aggregate(metric: FlinkMetric, name: str, value: float | None) -> Lie:
    """Return the lie that an aggregate of a metric has a value."""

    def lie(answer: Answer) -> Answer:
        io, aggregates = answer
        truth = aggregates.get(metric, Aggregate())
        return io, {**aggregates, metric: truth._replace(**{name: value})}

    return lie


lies = st.one_of(
    st.builds(counter, st.sampled_from(["records_in", "records_out", "busy_ms"]), st.sampled_from(LIES)),
    st.builds(
        aggregate,
        st.sampled_from(
            [
                FlinkMetric.BUSY_TIME,
                FlinkMetric.BACKPRESSURE_TIME,
                FlinkMetric.SOURCE_RECORDS_IN,
                FlinkMetric.SOURCE_RECORDS_IN_RATE,
                FlinkMetric.PENDING_RECORDS,
                FlinkMetric.RECORDS_IN_RATE,
            ]
        ),
        st.sampled_from(["minimum", "maximum", "average", "total"]),
        st.sampled_from(LIES),
    ),
)


@dataclass(frozen=True)
class Truth:
    """A steady load of a source and a map, whose counters stood at 10^6 when the job was first looked at."""

    rate: float
    busy_ms: tuple[float, float]
    pending: float
    aggregator: str
    window: int

    @property
    def options(self) -> dict[str, str]:
        return {
            **OPTIONS,
            "metrics.window": f"{self.window} min",
            "metrics.busy-time.aggregator": self.aggregator,
            "scale-down.economics.enabled": "false",
            "catch-up.duration": "10 min",
            "restart.time": "0",
        }

    def answers(self, minute: int) -> tuple[Answer, Answer]:
        count = 10**6 + round(self.rate * 60 * minute)
        source, following = (IoMetrics(count, count, 4 * busy * 60 * minute) for busy in self.busy_ms)
        of_source = source_answers(busy_ms=self.busy_ms[0], rate=self.rate, pending=self.pending, records_in=count)
        of_map = operator_answers(busy_ms=self.busy_ms[1], rate=self.rate)
        return (replace(source, records_in=0), of_source), (following, of_map)

    def reading(self, minute: int, wrong: Mapping[int, Lie] | None = None, *, copy_of: int | None = None) -> JobReading:
        """Return what the cluster says at a minute, with what is wrong by vertex, or what it said at another one."""
        answers = list(self.answers(minute if copy_of is None else copy_of))
        for number, lie in (wrong or {}).items():
            answers[number] = lie(answers[number])
        source = a_vertex(1, parallelism=4, io=answers[0][0])
        following = a_vertex(2, parallelism=4, io=answers[1][0], inputs={1: ShipStrategy.REBALANCE})
        return a_reading([source, following], {PIPELINE_SOURCE: answers[0][1], PIPELINE_MAP: answers[1][1]})


truths = st.builds(
    Truth,
    rate=st.sampled_from([50.0, 100.0, 400.0]),
    busy_ms=st.tuples(st.sampled_from([150.0, 550.0, 1000.0]), st.sampled_from([150.0, 550.0, 1000.0])),
    pending=st.sampled_from([0.0, 30_000.0]),
    aggregator=st.sampled_from(["MAX", "AVG", "MIN"]),
    window=st.integers(3, 12),
)


def plans(truth: Truth, readings: Sequence[JobReading]) -> list[dict[VertexId, int]]:
    """Return what a job would be asked to have, up to the first rescale."""
    driver = JobDriver(a_context(truth.options))
    for minute, reading in enumerate(readings, start=1):
        decision = driver.run(minute * MINUTE, reading).decision
        if isinstance(decision, Rescale):
            return [{v: summary.new for v, summary in decision.summaries.items()}]
    return []


@settings(max_examples=200)
@given(truth=truths, wrong=st.dictionaries(st.integers(0, 1), lies, max_size=2), data=st.data())
def test_one_wrong_sample_leads_to_the_truthful_plan_or_to_none(
    truth: Truth, wrong: dict[int, Lie], data: st.DataObject
) -> None:
    minutes = range(1, 2 * truth.window + 4)
    at = data.draw(st.sampled_from(minutes))
    copy_of = data.draw(st.none() | st.integers(0, at)) if not wrong else None
    truthful = [truth.reading(minute) for minute in minutes]
    lied = [*truthful]
    lied[at - 1] = truth.reading(at, wrong, copy_of=copy_of)

    [*right], [*sent] = plans(truth, truthful), plans(truth, lied)

    for plan in sent:
        assert right, f"{plan} instead of nothing"
        assert largest_difference(plan, right[0], dict.fromkeys((PIPELINE_SOURCE, PIPELINE_MAP), 4)) is None


HOURS = 4 * 60
"""Passes, one a minute."""

CALM = Truth(rate=400.0, busy_ms=(550.0, 550.0), pending=0.0, aggregator="MAX", window=10)


@pytest.mark.parametrize(
    ("lie", "every"),
    [
        pytest.param(counter("records_in", None), 1, id="no counter in every pass"),
        pytest.param(counter("records_in", -1.0), 7, id="a negative counter once in seven passes"),
        pytest.param(
            aggregate(FlinkMetric.RECORDS_IN_RATE, "total", 1e308), 2, id="an impossible rate in every other pass"
        ),
        pytest.param(
            aggregate(FlinkMetric.BUSY_TIME, "maximum", math.inf), 1, id="an infinite busy time in every pass"
        ),
    ],
)
def test_hours_of_lies_are_forgotten_within_a_window(lie: Lie, every: int) -> None:
    lied, honest = (JobDriver(a_context(CALM.options)) for _ in range(2))
    for minute in range(1, HOURS):
        lied.run(minute * MINUTE, CALM.reading(minute, {1: lie} if minute % every == 0 else None))
    learned = replace(lied.state, samples=(), job_id=None)

    for minute in range(HOURS, HOURS + CALM.window + 1):
        outcomes = [driver.run(minute * MINUTE, CALM.reading(minute)) for driver in (lied, honest)]

    assert learned == JobState()
    assert outcomes[0].metrics == outcomes[1].metrics
    assert lied.state == honest.state
    assert outcomes[0].error is None


numbers = st.sampled_from([0, -1, 1, 2**31, 2**53, 2**63, -(2**63), 10**400, 5 * 10**16, -(10**14)])


@settings(max_examples=150)
@given(data=st.data())
def test_no_instant_and_no_parallelism_of_a_cluster_ends_a_pass_with_an_exception(data: st.DataObject) -> None:
    driver = JobDriver(a_context({**OPTIONS, "policy": "capacity", "schedule.plans": "min-parallelism=2"}))

    for minute in range(1, 9):
        reading = steady(minute, busy_ms=1000.0)
        assert reading.details is not None
        fields: dict[str, Any] = data.draw(
            st.dictionaries(st.sampled_from(["running_at_ms", "now_ms", "initialized_ms", "created_ms"]), numbers)
        )
        (vertex,), (node,) = reading.details.vertices, reading.details.plan
        if data.draw(st.booleans()):
            changed: dict[str, Any] = data.draw(_of_vertex)
            vertex = replace(vertex, **changed)
            node = replace(node, parallelism=vertex.parallelism)
        details = dataclasses.replace(reading.details, vertices=(vertex,), plan=(node,), **fields)
        outcome = driver.run(minute * MINUTE, replace(reading, details=details))

        assert all(1 <= parallelism <= 200 for parallelism in outcome.target.parallelism.values())


_of_vertex = st.dictionaries(st.sampled_from(["parallelism", "max_parallelism", "start_ms"]), numbers)
