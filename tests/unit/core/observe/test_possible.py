"""What a cluster cannot be like."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from flink_autoscaler.core.decide.slots import TaskManagerSize, available_capacity
from flink_autoscaler.core.errors import ResponseError
from flink_autoscaler.core.model.decision import PassPhase
from flink_autoscaler.core.model.job import Headroom
from flink_autoscaler.core.model.metrics import Aggregate, FlinkMetric
from flink_autoscaler.core.model.reading import ClusterReading, JobReading
from flink_autoscaler.core.model.rescale_facts import RescaleFacts
from flink_autoscaler.core.model.supervision import RescaleRecord, Stage, Supervision, SupervisionPhase
from flink_autoscaler.core.model.topology import JobDetails
from flink_autoscaler.core.observe.freshness import at_reading_time, staleness_ms
from flink_autoscaler.core.observe.plausibility import possible_aggregates
from testkit.builders.core import (
    MINUTE,
    SINGLE_SOURCE_OPTIONS,
    JobDriver,
    a_cluster,
    a_context,
    a_request,
    full_window,
    single_source,
)

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
