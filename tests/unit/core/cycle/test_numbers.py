"""Arrival rates and floors that others give: what they do, and what is not done while they are unknown."""

from __future__ import annotations

import math
from collections.abc import Mapping

import pytest

from flink_autoscaler.core.cycle.advance import advance
from flink_autoscaler.core.model.decision import Rescale
from flink_autoscaler.core.model.metrics import FlinkMetric, ScalingMetric
from flink_autoscaler.core.model.outside_number import NumberKind, OutsideNumber
from flink_autoscaler.core.model.state import JobState
from flink_autoscaler.core.ports.passes import PassOutcome, PassRequest
from testkit.builders.core import a_cluster, a_context, pipeline
from testkit.builders.core.pipeline import PIPELINE_SOURCE

MINUTE = 60_000
ALWAYS_FULL = {"stabilization.interval": "0 s", "metrics.window": "2 min", "scale-down.interval": "0 s"}


def arriving(value: float | None, problem: str = "") -> OutsideNumber:
    return OutsideNumber(NumberKind.ARRIVAL_RATE, "*", "gateway", value, problem)


def floor(value: float | None, problem: str = "", pattern: str = PIPELINE_SOURCE) -> OutsideNumber:
    return OutsideNumber(NumberKind.FLOOR, pattern, "planned", value, problem)


def last_of(*numbers: OutsideNumber, busy: float = 500.0, options: Mapping[str, str] | None = None) -> PassOutcome:
    """Do four passes with the same numbers; four subtasks read 100 records/s."""
    state = JobState()
    for minute in range(1, 5):
        context = a_context({**ALWAYS_FULL, **(options or {})})
        request = PassRequest(context, state, minute * MINUTE, numbers=numbers)
        outcome = advance(request, pipeline(minute, pending=0.0, rate=100.0, busy_ms=(busy, busy)), a_cluster())
        state = outcome.state
    return outcome


def wants(outcome: PassOutcome) -> Mapping[str, int]:
    decision = outcome.decision
    return {v: s.new for v, s in decision.summaries.items()} if isinstance(decision, Rescale) else {}


def target_of(outcome: PassOutcome) -> float:
    assert outcome.evaluation is not None
    return outcome.evaluation.metrics.vertices[PIPELINE_SOURCE][ScalingMetric.TARGET_DATA_RATE].average


def test_what_arrives_is_what_is_said_and_not_what_is_read() -> None:
    plain, told = last_of(), last_of(arriving(400.0))

    assert target_of(plain) == pytest.approx(100.0)
    assert target_of(told) == 400.0
    assert wants(told)[PIPELINE_SOURCE] > 4
    assert told.origins == {PIPELINE_SOURCE: {FlinkMetric.ARRIVAL_RATE: "gateway"}}


def test_the_first_that_knows_counts() -> None:
    assert target_of(last_of(arriving(None, "away"), arriving(300.0))) == 300.0


@pytest.mark.parametrize("wrong", [math.nan, math.inf, -1.0])
def test_a_rate_that_cannot_be_is_unknown_and_nothing_is_scaled_down(wrong: float) -> None:
    known, unknown = last_of(busy=50.0), last_of(arriving(wrong), busy=50.0)

    assert wants(known)
    assert not wants(unknown)
    assert target_of(unknown) == pytest.approx(100.0)
    assert {event.reason for event in unknown.events} == {"NumberUnknown"}
    codes = {reason.code for reason in unknown.decision.reasons}
    assert "ARRIVAL_RATE_UNKNOWN" in codes
    assert "DIRECTION_OFF" not in codes, "nobody has switched it off"


def test_a_floor_raises_a_vertex_that_nothing_else_would_scale() -> None:
    assert not wants(last_of())

    outcome = last_of(floor(6.2))

    assert wants(outcome)[PIPELINE_SOURCE] == 7
    assert "FLOOR" in {reason.code for reason in outcome.decision.reasons}
    assert outcome.origins == {PIPELINE_SOURCE: {FlinkMetric.LEAST_PARALLELISM: "planned"}}


def test_a_floor_keeps_a_vertex_from_going_below() -> None:
    assert wants(last_of(busy=50.0))[PIPELINE_SOURCE] < 3
    assert wants(last_of(floor(3.0), busy=50.0))[PIPELINE_SOURCE] >= 3


@pytest.mark.parametrize(
    "options", [{"vertex.max-parallelism": "5"}, {"vertex.bounds": f"{PIPELINE_SOURCE}=1..5"}], ids=str
)
def test_a_floor_does_not_lift_a_vertex_above_its_bounds(options: Mapping[str, str]) -> None:
    assert wants(last_of(floor(50.0), options=options))[PIPELINE_SOURCE] == 5


def test_an_unknown_floor_holds_scale_downs_and_lets_scale_ups_go_on() -> None:
    away = floor(None, "the service did not answer")

    assert not wants(last_of(away, busy=50.0))
    assert wants(last_of(away, arriving(400.0)))
    assert "the service did not answer" in last_of(away).events[0].message
