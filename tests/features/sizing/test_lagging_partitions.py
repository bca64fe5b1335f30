"""How much a source is sized for when its partitions lag unevenly."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as some

from flink_autoscaler.core.cycle.advance import advance
from flink_autoscaler.core.evaluate.evaluation import partition_skew
from flink_autoscaler.core.model.metrics import EvaluatedMetric, EvaluatedVertex, ScalingMetric
from flink_autoscaler.core.model.reading import ClusterReading
from flink_autoscaler.core.model.source_lag import SourceLag
from flink_autoscaler.core.model.state import JobState
from flink_autoscaler.core.ports.passes import PassOutcome, PassRequest
from testkit.builders.core import a_context, a_vertex, pipeline
from testkit.builders.core.pipeline import PIPELINE_MAP, PIPELINE_SOURCE

CATCH_UP = 100.0


def metrics(*, lag: float, arriving: float, rate: float) -> EvaluatedVertex:
    return {
        ScalingMetric.LAG: EvaluatedMetric(lag, math.nan),
        ScalingMetric.TARGET_DATA_RATE: EvaluatedMetric(math.nan, arriving),
        ScalingMetric.TRUE_PROCESSING_RATE: EvaluatedMetric(math.nan, rate),
    }


def factor(*, lag: float, most: float, arriving: float = 0.0, rate: float = 200.0, partitions: int = 10) -> float:
    """Of a source of two subtasks, 100 records/s each."""
    vertex = replace(a_vertex(1, parallelism=2, partitions=partitions), source_partitions=partitions)
    found = metrics(lag=lag, arriving=arriving, rate=rate)
    return partition_skew(vertex, found, most, catch_up=CATCH_UP, utilization_target=1.0)


@pytest.mark.parametrize(
    ("lag", "most", "expected"),
    [
        # 10,000 records in 100 s: one subtask of 100 records/s.
        pytest.param(10_000.0, 1_000.0, 1.0, id="all alike"),
        # m = 1,000 and 3,000 in the slowest. p (100 - 20) = 10 * 10: 1.25 subtasks, E = 10,000 + 1.25 * 2,000.
        pytest.param(12_000.0, 3_000.0, 12_500.0 / 12_000.0, id="one partition has three times as much"),
        # m = 0 and 9,000: one subtask can do just that; p (100 - 90) = 0, so one subtask and E = 9,000.
        pytest.param(9_000.0, 9_000.0, 1.0, id="all the others are empty"),
        # 20,000 in one partition are not done in 100 s by any subtask: as many as there are partitions.
        pytest.param(29_000.0, 20_000.0, 200_000.0 / 29_000.0, id="no parallelism is enough"),
        pytest.param(0.0, 0.0, 1.0, id="nothing waits"),
    ],
)
def test_it_is_what_the_subtask_with_the_slowest_partition_needs(lag: float, most: float, expected: float) -> None:
    assert factor(lag=lag, most=most) == pytest.approx(expected)


def test_one_partition_alone_is_never_uneven() -> None:
    assert factor(lag=500.0, most=500.0, partitions=1) == 1.0


@given(
    lags=some.lists(some.floats(0, 1e9), min_size=2, max_size=20),
    arriving=some.one_of(some.floats(0, 1e9), some.just(math.nan)),
    rate=some.one_of(some.floats(0, 1e9), some.just(math.nan), some.just(math.inf)),
)
def test_it_lies_between_the_sum_and_the_slowest_partition_as_often_as_there_are_any(
    lags: list[float], arriving: float, rate: float
) -> None:
    lag, most, count = sum(lags), max(lags), len(lags)

    found = factor(lag=lag, most=most, arriving=arriving, rate=rate, partitions=count)

    assert found >= 1.0
    assert found * lag <= max(lag, count * most) * (1 + 1e-6) + 1e-3


def last_of(lag: SourceLag) -> PassOutcome:
    options = {"stabilization.interval": "0 s", "metrics.window": "2 min", "catch-up.duration": "10 min"}
    state = JobState()
    for minute in (1, 2, 3):
        request = PassRequest(a_context(options), state, minute * 60_000, lags=(lag,))
        reading = pipeline(minute, pending=0.0, rate=100.0, busy_ms=(500.0, 500.0))
        outcome = advance(request, reading, ClusterReading())
        state = outcome.state
    return outcome


def test_the_source_catches_up_with_its_slowest_partition_and_what_is_behind_it_with_the_sum() -> None:
    even = last_of(SourceLag("*", "kafka", 60_000.0, 8, most=7_500.0))
    uneven = last_of(SourceLag("*", "kafka", 60_000.0, 8, most=25_000.0))

    def catch_up(outcome: PassOutcome, vertex_id: str) -> float:
        assert outcome.metrics is not None
        return outcome.metrics.vertices[vertex_id][ScalingMetric.CATCH_UP_DATA_RATE].current

    assert catch_up(even, PIPELINE_SOURCE) == pytest.approx(100.0)
    assert catch_up(uneven, PIPELINE_SOURCE) > 150.0
    assert catch_up(uneven, PIPELINE_MAP) == pytest.approx(100.0)
