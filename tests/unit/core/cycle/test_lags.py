"""Lag from outside of Flink: who is believed, and what is never done without knowing it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from flink_autoscaler.core.cycle.advance import advance
from flink_autoscaler.core.cycle.external_metrics import external_metrics
from flink_autoscaler.core.model.decision import Rescale
from flink_autoscaler.core.model.metrics import Aggregate, FlinkMetric, ScalingMetric
from flink_autoscaler.core.model.outside_number import NumberKind, OutsideNumber
from flink_autoscaler.core.model.reading import JobReading
from flink_autoscaler.core.model.source_lag import FLINK, SourceLag, hot_partition, spread_lag
from flink_autoscaler.core.model.state import EMPTY_STATE, JobState
from flink_autoscaler.core.ports.passes import PassOutcome, PassRequest
from testkit.builders.core import a_cluster, a_context, pipeline
from testkit.builders.core.pipeline import PIPELINE_SOURCE

MINUTE = 60_000
ALWAYS_FULL = {
    "stabilization.interval": "0 s",
    "metrics.window": "2 min",
    "scale-down.interval": "0 s",
}
KAFKA = SourceLag("*", "kafka", total=500.0, partitions=8)
AWAY = SourceLag("*", "kafka", problem="the brokers did not answer within 5 s")
OWN = SourceLag("*", FLINK)
EVEN = {f"orders-{n}": 100.0 for n in range(8)}


def reading_of(minute: int, *, pending: float | None = 0.0, busy: float = 500.0) -> JobReading:
    reading = pipeline(minute, pending=pending or 0.0, rate=100.0, busy_ms=(busy, busy))
    if pending is not None:
        return reading
    values: dict[FlinkMetric, Aggregate] = {
        m: v for m, v in reading.aggregates[PIPELINE_SOURCE].items() if m is not FlinkMetric.PENDING_RECORDS
    }
    return replace(reading, aggregates={**reading.aggregates, PIPELINE_SOURCE: values})


def passes(*lags: tuple[SourceLag, ...], busy: float = 500.0) -> list[PassOutcome]:
    """Do a pass a minute with what others say about the lag; Flink itself reports none."""
    state, outcomes = JobState(), []
    for minute, given_lags in enumerate(lags, start=1):
        context = a_context(ALWAYS_FULL)
        request = PassRequest(context, state, minute * MINUTE, lags=given_lags)
        outcomes.append(advance(request, reading_of(minute, pending=None, busy=busy), a_cluster()))
        state = outcomes[-1].state
    return outcomes


def wants(outcome: PassOutcome) -> Mapping[str, int]:
    decision = outcome.decision
    return {v: s.new for v, s in decision.summaries.items()} if isinstance(decision, Rescale) else {}


@pytest.mark.parametrize(
    ("lags", "pending", "expected", "origin"),
    [
        pytest.param((KAFKA,), 7.0, 500.0, "kafka", id="the only one that is asked"),
        pytest.param((OWN, KAFKA), 7.0, 7.0, None, id="Flink knows, and comes first"),
        pytest.param((OWN, KAFKA), None, 500.0, "kafka", id="Flink does not know"),
        pytest.param((AWAY, KAFKA), None, 500.0, "kafka", id="the first is away"),
        pytest.param((AWAY, OWN), 7.0, 7.0, None, id="the first is away, Flink knows"),
        pytest.param((AWAY, OWN), None, None, None, id="nobody knows"),
        pytest.param((replace(KAFKA, pattern="nothing like it"),), 7.0, 7.0, None, id="not about this source"),
        pytest.param((replace(KAFKA, pattern=PIPELINE_SOURCE),), 7.0, 500.0, "kafka", id="by its id"),
    ],
)
def test_the_first_that_knows_gives_the_lag(
    lags: tuple[SourceLag, ...], pending: float | None, expected: float | None, origin: str | None
) -> None:
    request = PassRequest(a_context(), EMPTY_STATE, MINUTE, lags=lags)

    found = external_metrics(request, reading_of(1, pending=pending)).reading

    assert found.aggregates[PIPELINE_SOURCE].get(FlinkMetric.PENDING_RECORDS, Aggregate()).total == expected
    assert found.origins.get(PIPELINE_SOURCE, {}).get(FlinkMetric.PENDING_RECORDS) == origin


def test_partitions_come_from_there_as_well() -> None:
    [outcome] = passes((KAFKA,))

    assert outcome.topology is not None
    assert outcome.topology.vertices[PIPELINE_SOURCE].source_partitions == 8
    assert outcome.origins == {PIPELINE_SOURCE: {FlinkMetric.PENDING_RECORDS: "kafka"}}


def test_a_lag_that_nobody_knows_is_unknown_and_not_zero() -> None:
    [outcome] = passes((AWAY,))

    assert outcome.sample is not None
    assert math.isnan(outcome.sample.vertices[PIPELINE_SOURCE][ScalingMetric.LAG])
    assert [event.reason for event in outcome.events] == ["LagUnknown"]


def test_nothing_is_scaled_down_while_the_lag_is_unknown() -> None:
    known = passes(*[(replace(KAFKA, total=0.0),)] * 4, busy=50.0)
    unknown = passes(*[(replace(KAFKA, total=0.0),)] * 3, (AWAY,), busy=50.0)

    assert wants(known[-1])
    assert not wants(unknown[-1])
    codes = {reason.code for reason in unknown[-1].decision.reasons}
    assert "SOURCE_LAG_UNKNOWN" in codes
    assert "DIRECTION_OFF" not in codes, "nobody has switched it off"


def test_a_source_with_one_hot_partition_is_told_about_and_left_as_it_is() -> None:
    growing = [SourceLag("*", "kafka", 200_000.0 * n, 8) for n in range(1, 5)]
    spread = passes(*[(each,) for each in growing], busy=900.0)
    skewed = passes(*[(replace(each, hot="orders-3"),) for each in growing], busy=900.0)

    assert wants(spread[-1])[PIPELINE_SOURCE] > 4
    assert PIPELINE_SOURCE not in wants(skewed[-1])
    assert "SkewedPartition" in {event.reason for event in skewed[-1].events}
    assert "EXCLUDED" not in {reason.code for reason in skewed[-1].decision.reasons}, "nobody has excluded it"


def test_what_others_say_restricts_a_pass_without_changing_what_people_configured() -> None:
    lags = (SourceLag("*", "kafka", 200_000.0, 8, hot="orders-3"), AWAY)
    floor = OutsideNumber(NumberKind.FLOOR, "*", "planned", 2.5)
    request = PassRequest(a_context(), JobState(), MINUTE, lags=lags, numbers=(floor,))

    restricted = external_metrics(request, reading_of(1, pending=None)).request.context

    assert restricted.configuration == request.context.configuration
    assert restricted.restriction.fixed == {PIPELINE_SOURCE}
    assert set(restricted.restriction.floors.values()) == {3}


@pytest.mark.parametrize(
    ("lags", "hot"),
    [
        pytest.param(EVEN, "", id="all alike"),
        pytest.param({**EVEN, "orders-3": 50_000.0}, "orders-3", id="one has nearly all"),
        pytest.param({**EVEN, "orders-3": 900.0}, "", id="next to nothing"),
        pytest.param({"orders-0": 50_000.0}, "", id="the only partition"),
        pytest.param({**EVEN, "orders-3": 5e4, "orders-4": 5e4}, "", id="two are late"),
    ],
)
def test_a_partition_is_hot_that_has_most_of_the_lag_by_itself(lags: Mapping[str, float], hot: str) -> None:
    assert hot_partition(lags) == hot


@pytest.mark.parametrize("wrong", [math.nan, math.inf, -1.0])
def test_one_lag_that_cannot_be_makes_all_of_it_unknown(wrong: float) -> None:
    found = spread_lag("*", "kafka", {**EVEN, "orders-3": wrong})

    assert found.total is None
    assert "orders-3" in found.problem


LIES = some.one_of(
    some.just(AWAY),
    some.dictionaries(some.text(max_size=3), some.floats(), max_size=4).map(
        lambda lags: spread_lag("*", "kafka", lags)
    ),
)


@settings(max_examples=60, deadline=None)
@given(before=some.lists(LIES, min_size=2, max_size=3), busy=some.sampled_from([0.0, 50.0, 900.0]))
def test_an_unknown_lag_never_scales_down_whatever_was_said_before(before: list[SourceLag], busy: float) -> None:
    last = passes(*((each,) for each in (*before, AWAY)), busy=busy)[-1]

    assert all(new >= 4 for new in wants(last).values())
