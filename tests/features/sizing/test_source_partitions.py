"""Sources above their partitions: what their working subtasks can do, and that none stays there."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from flink_autoscaler.core.model.decision import Rescale
from flink_autoscaler.core.model.metrics import Aggregate, FlinkMetric
from flink_autoscaler.core.model.reading import JobReading
from flink_autoscaler.core.model.topology import IoMetrics
from flink_autoscaler.core.ports.passes import PassOutcome
from testkit.builders.core import (
    SINGLE_SOURCE,
    SINGLE_SOURCE_OPTIONS,
    JobDriver,
    a_context,
    a_reading,
    a_vertex,
    source_answers,
)

# 15 of 100 subtasks have a partition. Each of them can do 10 records/s.
PARALLELISM, PARTITIONS, PER_SUBTASK = 100, 15, 10.0
OPTIONS = {**SINGLE_SOURCE_OPTIONS, "scale-down.interval": "1 h", "scale-down.max-factor": "0.6"}
POLICIES = ("capacity", "slo", "varga")


def source_above_its_partitions(
    minute: int, busy: float, *, parallelism: int = PARALLELISM, busy_mean_ms: float | None = None
) -> JobReading:
    """Read it at some minute; its working subtasks are alike, and busy for a share of the time."""
    rate = busy * PER_SUBTASK * PARTITIONS
    seconds = minute * 60.0
    io = IoMetrics(
        records_in=round(rate * seconds),
        busy_ms=busy * 1000 * PARTITIONS * seconds,
        idle_ms=1000 * seconds * (parallelism - busy * PARTITIONS),
        backpressured_ms=0.0,
    )
    answers = source_answers(busy_ms=busy * 1000, rate=rate)
    mean = busy * 1000 * min(1.0, PARTITIONS / parallelism) if busy_mean_ms is None else busy_mean_ms
    is_idle = parallelism > PARTITIONS
    answers = {
        **answers,
        FlinkMetric.BUSY_TIME: Aggregate(0.0 if is_idle else busy * 1000, busy * 1000, mean, mean * parallelism),
        FlinkMetric.SOURCE_RECORDS_IN_RATE: Aggregate(0.0, rate / PARTITIONS, rate / parallelism, rate),
    }
    vertex = a_vertex(1, parallelism=parallelism, partitions=PARTITIONS, io=io)
    return a_reading([vertex], {SINGLE_SOURCE: answers})


def decided(options: dict[str, str], busy: float, *, parallelism: int = PARALLELISM) -> PassOutcome:
    driver = JobDriver(a_context({**OPTIONS, **options}))
    return driver.run_each_minute(
        source_above_its_partitions(minute, busy, parallelism=parallelism) for minute in (1, 2, 3)
    )


def parallelism_after(outcome: PassOutcome) -> int:
    if not isinstance(outcome.decision, Rescale):
        return PARALLELISM
    return outcome.decision.summaries[SINGLE_SOURCE].new


@pytest.mark.parametrize("aggregator", ["MAX", "AVG", "MIN"])
@pytest.mark.parametrize(
    "busy",
    [
        pytest.param(0.9, id="too busy: needs 27, 180 of all"),
        pytest.param(0.5, id="just right: 15, 100 of all"),
        pytest.param(0.25, id="half as busy as it should be: waits for the interval, without the idle ones"),
        pytest.param(0.02, id="nearly idle"),
    ],
)
def test_a_source_goes_to_its_partitions_at_once(busy: float, aggregator: str) -> None:
    outcome = decided({"metrics.busy-time.aggregator": aggregator}, busy)

    assert parallelism_after(outcome) == PARTITIONS
    assert "IDLE_SUBTASKS" in [reason.code for reason in outcome.decision.reasons]


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("busy", [0.9, 0.5, 0.25], ids=["too busy", "just right", "half busy"])
def test_no_policy_leaves_a_source_above_its_partitions(policy: str, busy: float) -> None:
    assert 1 <= parallelism_after(decided({"policy": policy}, busy)) <= PARTITIONS


def test_a_source_far_below_its_need_goes_below_its_partitions_by_what_its_working_subtasks_can_do() -> None:
    # 37.5 records/s, twice that at a target of 0.5: 7.5 subtasks of 10/s; 8 is spread like 15 partitions by 8.
    outcome = decided({"scale-down.interval": "0"}, 0.25)

    assert parallelism_after(outcome) == 8


@pytest.mark.parametrize(
    "busy",
    [
        pytest.param(Aggregate(0.0, 600.0, 600.0, 60_000.0), id="all 100 are busy: the count is wrong"),
        pytest.param(Aggregate(0.0, 600.0, math.nan, math.nan), id="mean NaN"),
        pytest.param(Aggregate(0.0, math.inf, 90.0, 9000.0), id="maximum infinite"),
        pytest.param(Aggregate(0.0, 600.0, -5.0, -500.0), id="mean negative"),
        pytest.param(Aggregate(maximum=600.0), id="mean not told"),
    ],
)
def test_a_count_of_partitions_that_contradicts_what_subtasks_do_takes_nothing_from_a_source(busy: Aggregate) -> None:
    driver = JobDriver(a_context(OPTIONS))
    readings = [source_above_its_partitions(minute, 0.6) for minute in (1, 2, 3)]
    lying = [
        replace(
            reading,
            aggregates={SINGLE_SOURCE: {**reading.aggregates[SINGLE_SOURCE], FlinkMetric.BUSY_TIME: busy}},
        )
        for reading in readings
    ]

    outcome = driver.run_each_minute(lying)

    assert parallelism_after(outcome) >= PARALLELISM


def test_a_least_parallelism_that_the_user_demands_is_kept() -> None:
    outcome = decided({"vertex.min-parallelism": "20"}, 0.5)

    assert isinstance(outcome.decision, Rescale)
    assert outcome.decision.summaries[SINGLE_SOURCE].new == 20
