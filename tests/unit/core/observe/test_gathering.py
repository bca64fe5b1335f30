"""The instant of a sample where its answers came late."""

from __future__ import annotations

from dataclasses import replace

import pytest

from flink_autoscaler.core.model.decision import PassPhase
from flink_autoscaler.core.model.reading import ClusterReading, JobReading
from flink_autoscaler.core.observe.gathering import at_reading_time, late_ms
from testkit.builders.core import (
    MINUTE,
    SINGLE_SOURCE_OPTIONS,
    JobDriver,
    a_cluster,
    a_context,
    a_request,
    single_source,
)

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
    assert late_ms(at_ms, NOW_MS) == expected


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

    assert (outcome.sample.at_ms - start_ms if outcome.sample else None) == expected
    codes = [] if expected else ["METRICS_NOT_FRESH"]
    assert [each.code for each in outcome.decision.reasons if each.code == "METRICS_NOT_FRESH"] == codes


def test_the_first_sample_is_taken_from_a_cluster_that_is_always_slow() -> None:
    driver = JobDriver(a_context(SINGLE_SOURCE_OPTIONS))
    slow = replace(single_source(1, rate=100.0, busy_ms=500.0), asked_ms=MINUTE, read_ms=MINUTE + LATE_MS)

    outcome = driver.run(MINUTE, slow, replace(a_cluster(), read_ms=MINUTE, interval_ms=INTERVAL_MS))

    assert outcome.phase is PassPhase.COLLECTING
