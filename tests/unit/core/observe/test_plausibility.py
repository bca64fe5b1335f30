import dataclasses
import math
from collections.abc import Iterator
from typing import Any

import pytest

from flink_autoscaler.core.model.metrics import ScalingMetric, VertexMetrics
from flink_autoscaler.core.model.reading import JobReading
from flink_autoscaler.core.model.topology import IoMetrics, ShipStrategy, Vertex
from flink_autoscaler.core.observe.conversion import Conversion, convert_vertex
from flink_autoscaler.core.observe.plausibility import ages_of
from flink_autoscaler.core.ports.passes import PassOutcome
from testkit.builders.core import (
    JobDriver,
    a_context,
    a_reading,
    a_vertex,
    details_of,
    operator_answers,
    options_with,
    source_answers,
    vertex_id,
)

SOURCE, WORK = vertex_id(1), vertex_id(2)
REFERENCE = {"compat": "reference"}


def a_young(vertex: Vertex, age_ms: int, options: dict[str, str] | None = None) -> VertexMetrics:
    """Convert a vertex that is measured to be busy for a fifth of its time and to read 100 records/s."""
    answers = operator_answers(busy_ms=200.0, rate=100.0)
    if vertex.is_source:
        answers = source_answers(busy_ms=200.0, rate=100.0, pending=1e6)
    details = dataclasses.replace(details_of([vertex], running_at_ms=5_000), now_ms=5_000 + age_ms)
    conversion = Conversion.of(options_with(options), (), ages_of(details, now_ms=0))
    return convert_vertex(vertex, answers, conversion)


@pytest.mark.parametrize(("age_ms", "is_known"), [(0, False), (9_999, False), (10_000, True)])
def test_busy_shares_are_unknown_before_flink_has_measured_them(age_ms: int, is_known: bool) -> None:
    values = a_young(a_vertex(1), age_ms)

    assert math.isfinite(values[ScalingMetric.LOAD]) is is_known
    assert math.isfinite(values[ScalingMetric.ACCUMULATED_BUSY_TIME]) is is_known


@pytest.mark.parametrize(("age_ms", "is_known"), [(10_000, False), (59_999, False), (60_000, True)])
def test_rates_are_unknown_before_a_minute_is_over(age_ms: int, is_known: bool) -> None:
    source = a_young(a_vertex(1), age_ms)
    operator = a_young(a_vertex(2, inputs={1: ShipStrategy.HASH}), age_ms)

    assert (ScalingMetric.OBSERVED_TPR in source) is is_known
    assert math.isfinite(operator[ScalingMetric.NUM_RECORDS_IN_PER_SECOND]) is is_known


def test_in_the_reference_all_of_it_counts_at_once() -> None:
    values = a_young(a_vertex(1), 0, REFERENCE)

    assert values[ScalingMetric.LOAD] == 0.2
    assert values[ScalingMetric.OBSERVED_TPR] >= 100.0


def test_a_finished_source_does_nothing_at_any_age() -> None:
    finished = a_vertex(1, is_finished=True)
    details = dataclasses.replace(details_of([finished]), now_ms=0)

    assert a_young(finished, 0)[ScalingMetric.ACCUMULATED_BUSY_TIME] == 0.0
    assert ages_of(details, now_ms=0) == {SOURCE: 0}


@pytest.mark.parametrize(
    ("changes", "running_at_ms", "now_ms", "expected"),
    [
        pytest.param({}, 1_000, 31_000, 30_000, id="since the job runs"),
        pytest.param({"start_ms": 21_000}, 1_000, 31_000, 10_000, id="since its tasks were started again"),
        pytest.param({"start_ms": 500}, 1_000, 31_000, 30_000, id="the job runs once its tasks are started"),
        pytest.param({"is_settled": False}, 1_000, 31_000, 0, id="a task initializes"),
        pytest.param({}, 31_000, 1_000, math.inf, id="a clock was set back"),
    ],
)
def test_the_age_of_a_vertex_is_that_of_its_tasks(
    changes: dict[str, Any], running_at_ms: int, now_ms: int, expected: float
) -> None:
    details = details_of([a_vertex(1)], running_at_ms=running_at_ms)
    entry = dataclasses.replace(details.vertices[0], **changes)

    assert ages_of(dataclasses.replace(details, vertices=(entry,)), now_ms) == {SOURCE: expected}


def test_the_clock_of_the_jobmanager_tells_the_age() -> None:
    details = dataclasses.replace(details_of([a_vertex(1)], running_at_ms=1_000), now_ms=3_000)

    assert ages_of(details, now_ms=3_600_000) == {SOURCE: 2_000}


@pytest.mark.parametrize(("passed_ms", "expected"), [(6_000, 24_000), (30_001, 0)])
def test_the_age_is_that_at_which_flink_gathered_what_it_answers_with(passed_ms: int, expected: int) -> None:
    details = details_of([a_vertex(1)], running_at_ms=1_000)

    assert ages_of(details, now_ms=31_000, passed_ms=passed_ms) == {SOURCE: expected}


@pytest.mark.parametrize(
    ("busy_ms", "expected"),
    [
        pytest.param(10.0, 50_000.0, id="idle: half of what its busy share says"),
        pytest.param(400.0, 1_250.0, id="busy for less than half of the time that it could be"),
        pytest.param(500.0, 1_250.0, id="busy for a bit less than it could be"),
        pytest.param(800.0, 1_250.0, id="at its limit"),
        pytest.param(0.0, math.inf, id="never busy: no limit in sight"),
        pytest.param(math.nan, 1_250.0, id="a busy share that is unknown bounds nothing"),
    ],
)
def test_an_observed_rate_is_bounded_by_the_busy_share_of_its_sample(busy_ms: float, expected: float) -> None:
    answers = source_answers(busy_ms=busy_ms, rate=1_000.0, pending=1e6, backpressure_ms=200.0)

    values = convert_vertex(a_vertex(1), answers, Conversion.of(options_with(), ()))

    assert values[ScalingMetric.OBSERVED_TPR] == expected


ONE_MINUTE_WINDOW = {
    "metrics.window": "1 min",
    "stabilization.interval": "0",
    "catch-up.duration": "1 min",
    "utilization.target": "0.7",
    "vertex.max-parallelism": "12",
}
"""What the guide advises for trying out."""

ARRIVALS, WAITING = 300.0, 20_000.0


def catching_up(age: int) -> JobReading:
    """Read a job some seconds after it has started with records that waited, as Flink's gauges and meters tell it.

    Its source reads 700 records/s until nothing waits any more, and never is busy for more than 1 % of its time.
    """
    read = [min(700.0 * at, WAITING + ARRIVALS * at) for at in (max(0, age - 60), age)]
    rate, count = (read[1] - read[0]) / 60, round(read[1])
    shares = (1000.0, 0.0) if age < 5 else (10.0, 300.0)
    source = a_vertex(1, parallelism=1, io=IoMetrics(count, count, busy_ms=10.0 * age + 4_900))
    work = a_vertex(
        2, parallelism=2, inputs={1: ShipStrategy.HASH}, io=IoMetrics(count, count, busy_ms=500.0 * age + 4_900)
    )
    answers = {
        SOURCE: source_answers(
            busy_ms=shares[0], rate=rate, pending=WAITING + ARRIVALS * age - read[1], backpressure_ms=shares[1]
        ),
        WORK: operator_answers(busy_ms=1000.0 if age < 5 else 500.0, rate=rate),
    }
    return a_reading([source, work], answers)


def passes(options: dict[str, str]) -> Iterator[PassOutcome]:
    """Do a pass every ten seconds."""
    driver = JobDriver(a_context({**ONE_MINUTE_WINDOW, **options}))
    for age in range(3, 130, 10):
        yield driver.run(age * 1000, catching_up(age))


def capacities(vertex: str, options: dict[str, str]) -> list[float]:
    """Return what the passes with a full window take for the capacity of a vertex."""
    evaluated = [outcome.metrics for outcome in passes(options) if outcome.metrics is not None]
    return [metrics.vertices[vertex][ScalingMetric.TRUE_PROCESSING_RATE].average for metrics in evaluated]


def test_an_idle_source_that_catches_up_has_the_capacity_that_its_busy_share_says() -> None:
    found = capacities(SOURCE, {})

    assert found
    assert min(found) > 10 * ARRIVALS


def test_in_the_reference_it_has_that_of_the_rates_of_its_first_minute() -> None:
    assert min(capacities(SOURCE, REFERENCE)) < ARRIVALS
