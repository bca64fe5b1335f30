"""What a cluster cannot be like."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from flink_autoscaler.core.decide.slots import TaskManagerSize, available_capacity
from flink_autoscaler.core.errors import ResponseError
from flink_autoscaler.core.model.decision import PassPhase
from flink_autoscaler.core.model.job import Headroom
from flink_autoscaler.core.model.metrics import Aggregate, FlinkMetric, ScalingMetric, VertexMetrics
from flink_autoscaler.core.model.reading import ClusterReading, JobReading
from flink_autoscaler.core.model.rescale_facts import RescaleFacts
from flink_autoscaler.core.model.supervision import RescaleRecord, Stage, Supervision, SupervisionPhase
from flink_autoscaler.core.model.topology import IoMetrics, JobDetails, ShipStrategy, Vertex
from flink_autoscaler.core.observe.conversion import Conversion, convert_vertex
from flink_autoscaler.core.observe.freshness import at_reading_time, staleness_ms
from flink_autoscaler.core.observe.plausibility import ages_of, possible_aggregates
from flink_autoscaler.core.ports.passes import PassOutcome
from testkit.builders.core import (
    MINUTE,
    SINGLE_SOURCE_OPTIONS,
    JobDriver,
    a_cluster,
    a_context,
    a_reading,
    a_request,
    a_vertex,
    details_of,
    full_window,
    operator_answers,
    options_with,
    single_source,
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


NOW = 1_700_000_000_000


def pass_over(details: JobDetails, options: dict[str, str]) -> tuple[PassPhase, str]:
    driver = JobDriver(a_context({**SINGLE_SOURCE_OPTIONS, **options}))
    reading = single_source(1, rate=100.0, busy_ms=500.0)
    outcome = driver.run(MINUTE, replace(reading, details=details))
    assert outcome.error is None or isinstance(outcome.error, ResponseError)
    return outcome.phase, str(outcome.error)


def some_details(parallelism: int = 4, max_parallelism: int = 128) -> JobDetails:
    details = single_source(1, rate=100.0, busy_ms=500.0).details
    assert details is not None
    (vertex,), (node,) = details.vertices, details.plan
    vertex = replace(vertex, parallelism=parallelism, max_parallelism=max_parallelism)
    return replace(details, vertices=(vertex,), plan=(replace(node, parallelism=parallelism),))


@pytest.mark.parametrize(
    ("waiting", "expected"),
    [(2**53 - 1, 2.0**53 - 1), (2**53, None), (2**53 + 1, None)],  # the last is the one before as a double
)
def test_a_lag_that_a_double_does_not_count_is_none(waiting: int, expected: float | None) -> None:
    answers = {FlinkMetric.PENDING_RECORDS: Aggregate(total=float(waiting))}

    found = possible_aggregates(answers, 1e6, 2)

    assert found[FlinkMetric.PENDING_RECORDS].total == expected


@pytest.mark.parametrize(
    ("details", "is_refused"),
    [
        pytest.param(some_details(), False, id="as they are"),
        pytest.param(some_details(4, 4), False, id="as parallel as can be"),
        pytest.param(some_details(4, -1), False, id="a max parallelism that is not told"),
        pytest.param(some_details(4, 3), True, id="more parallel than can be"),
        pytest.param(some_details(0), True, id="no subtask at all"),
        pytest.param(some_details(-2), True, id="less than no subtask"),
        pytest.param(replace(some_details(), running_at_ms=-1), True, id="running since before all time"),
        pytest.param(replace(some_details(), running_at_ms=NOW, now_ms=NOW - 60_000), False, id="clocks a bit apart"),
        pytest.param(replace(some_details(), running_at_ms=2**53, now_ms=NOW), True, id="running in the future"),
    ],
)
def test_details_that_contradict_themselves_are_none(details: JobDetails, is_refused: bool) -> None:
    phase, error = pass_over(details, {})

    assert (phase is PassPhase.ERROR) is is_refused
    assert ("cannot" in error) is is_refused


def test_in_the_reference_details_are_taken_as_they_are() -> None:
    phase, _ = pass_over(some_details(4, 3), {"compat": "reference"})

    assert phase is PassPhase.COLLECTING


@pytest.mark.parametrize("cpu", [math.inf, math.nan])
def test_cpus_that_cannot_be_are_no_limit_and_that_is_said(cpu: float) -> None:
    room = available_capacity(Headroom("yarn", cpu=cpu, memory=None), TaskManagerSize(1, 1.0, 0), 0)

    assert (room.taskmanagers, room.unchecked) == (None, ("CPU",))


@pytest.mark.parametrize(
    ("running_since_ms", "expected"),
    [pytest.param(3 * MINUTE + 30_000, 25_000, id="measured"), pytest.param(2**53, None, id="until after the end")],
)
def test_an_outage_is_no_longer_than_the_rescale_is_ago(running_since_ms: int, expected: int | None) -> None:
    driver = JobDriver(a_context(SINGLE_SOURCE_OPTIONS))
    full_window(driver, rate=100.0, busy_ms=500.0)
    reading = single_source(4, rate=100.0, busy_ms=500.0)
    assert reading.details is not None
    (vertex,) = reading.details.vertices
    record = RescaleRecord(
        3 * MINUTE,
        3 * MINUTE,
        {vertex.vertex_id: 2},
        {vertex.vertex_id: 4},
        stage=Stage.PENDING,
        accepted_ms=3 * MINUTE,
    )
    supervision = Supervision(current=record, phase=SupervisionPhase.PROBATION, asked=record.target)
    driver.state = replace(driver.state, supervision=supervision, overrides=record.target)
    facts = RescaleFacts(
        now_ms=4 * MINUTE,
        running=record.target,
        all_running=True,
        stopped_ms=3 * MINUTE + 5_000,
        running_since_ms=running_since_ms,
        requirements={vertex.vertex_id: (1, 4)},
    )

    driver.run(4 * MINUTE, replace(reading, facts=facts))

    current = driver.state.supervision.current
    assert current is not None
    assert (current.stage, current.outage_ms) == (Stage.REACHED, expected)


@pytest.mark.parametrize("clock", [2**62, -(2**62), 10**400])
def test_a_clock_that_cannot_be_is_not_remembered(clock: int) -> None:
    driver = JobDriver(a_context(SINGLE_SOURCE_OPTIONS))
    full_window(driver, rate=100.0, busy_ms=500.0)
    reading: JobReading = single_source(4, rate=100.0, busy_ms=500.0)

    driver.state = replace(driver.state, overrides={"v": 1})
    driver.run(4 * MINUTE, replace(reading, facts=RescaleFacts(now_ms=clock, requirements={})))

    assert driver.state.supervision.heard_ms is None


NOW_MS = 1_900_000_000_000


SECOND = 1000


@pytest.mark.parametrize(
    ("at_ms", "expected"),
    [
        pytest.param(NOW_MS + 40 * SECOND, 40 * SECOND, id="a worker stood still"),
        pytest.param(NOW_MS + 10 * MINUTE, 10 * MINUTE, id="a pass on Spark, and again inline"),
        pytest.param(NOW_MS - 5 * SECOND, 0, id="a clock that is behind"),
        pytest.param(NOW_MS + 60 * MINUTE, 0, id="a simulation"),
        pytest.param(0, 0, id="nobody noted it"),
    ],
)
def test_how_late_an_instant_is(at_ms: int, expected: int) -> None:
    assert staleness_ms(at_ms, NOW_MS) == expected


@pytest.mark.parametrize(
    ("read_ms", "waited_ms", "expected"),
    [
        pytest.param(NOW_MS + 40 * SECOND, 1500, NOW_MS + 40 * SECOND, id="its answers were there"),
        pytest.param(0, 1500, NOW_MS + 1500, id="the cluster had gathered, in a simulation"),
        pytest.param(NOW_MS + 90, 50, NOW_MS, id="next to nothing"),
    ],
)
def test_a_pass_goes_on_with_the_instant_at_which(read_ms: int, waited_ms: int, expected: int) -> None:
    reading = JobReading(None, read_ms=read_ms)

    request = at_reading_time(a_request(a_context({}), now_ms=NOW_MS), reading, ClusterReading(waited_ms=waited_ms))

    assert request.now_ms == expected


LATE_MS = 40 * SECOND


INTERVAL_MS = 10 * SECOND


@pytest.mark.parametrize(
    ("asked_ms", "interval_ms", "expected"),
    [
        pytest.param(LATE_MS - 50, 0, LATE_MS, id="at its answers where Flink gathers for every one"),
        pytest.param(LATE_MS - 50, INTERVAL_MS, LATE_MS - INTERVAL_MS, id="an interval before where jobs were in line"),
        pytest.param(50, INTERVAL_MS, None, id="at none that is known where Flink gathered meanwhile"),
    ],
)
def test_a_job_that_was_read_late_has_its_sample(asked_ms: int, interval_ms: int, expected: int | None) -> None:
    driver, start_ms = JobDriver(a_context(SINGLE_SOURCE_OPTIONS)), 2 * MINUTE
    driver.run(MINUTE, single_source(1, rate=100.0, busy_ms=500.0))
    late = single_source((start_ms + LATE_MS) / MINUTE, rate=100.0, busy_ms=500.0)
    late = replace(late, asked_ms=start_ms + asked_ms, read_ms=start_ms + LATE_MS)

    outcome = driver.run(start_ms, late, replace(a_cluster(), read_ms=start_ms + 10, interval_ms=interval_ms))

    assert (outcome.observation.sample.at_ms - start_ms if outcome.observation.sample else None) == expected
    codes = [] if expected else ["METRICS_NOT_FRESH"]
    assert [each.code for each in outcome.decision.reasons if each.code == "METRICS_NOT_FRESH"] == codes
