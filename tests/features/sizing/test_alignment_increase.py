"""Alignment raises what is wanted by no more than a share of it, and says where it stays below even shares."""

from __future__ import annotations

import pytest

from flink_autoscaler.core.model.decision import Rescale
from flink_autoscaler.core.model.reading import JobReading
from flink_autoscaler.core.model.topology import IoMetrics, ShipStrategy
from flink_autoscaler.core.ports.passes import PassOutcome
from testkit.builders.core import (
    SINGLE_SOURCE,
    SINGLE_SOURCE_OPTIONS,
    JobDriver,
    a_context,
    a_reading,
    a_vertex,
    operator_answers,
    source_answers,
    vertex_id,
)

KEYED = vertex_id(2)
KEY = "scaling.parallelism-alignment.max-increase"


def keyed_job(minute: int, *, busy: float, parallelism: int) -> JobReading:
    """Read a source and a keyed vertex of 128 key groups behind it that is busy for a share of the time."""
    rate = 1000.0
    io = IoMetrics(records_in=round(rate * 60 * minute), records_out=round(rate * 60 * minute))
    source = a_vertex(1, parallelism=4, io=io)
    keyed = a_vertex(2, parallelism=parallelism, io=io, inputs={1: ShipStrategy.HASH})
    answers = {
        SINGLE_SOURCE: source_answers(busy_ms=500.0, rate=rate),
        KEYED: operator_answers(busy_ms=busy * 1000, rate=rate),
    }
    return a_reading([source, keyed], answers)


def partitioned_source(minute: int, *, busy: float, parallelism: int, partitions: int) -> JobReading:
    io = IoMetrics(records_in=round(1000.0 * 60 * minute), busy_ms=busy * 1000 * parallelism * 60 * minute)
    vertex = a_vertex(1, parallelism=parallelism, partitions=partitions, io=io)
    return a_reading([vertex], {SINGLE_SOURCE: source_answers(busy_ms=busy * 1000, rate=1000.0)})


def keyed_outcome(options: dict[str, str], *, parallelism: int, busy: float) -> PassOutcome:
    # A target of 0.5 and a band of nothing: a vertex that is busy for 0.523 of its time wants 67 instead of 64.
    driver = JobDriver(a_context({**SINGLE_SOURCE_OPTIONS, "utilization.max": "0.51", **options}))
    return driver.run_each_minute(keyed_job(minute, busy=busy, parallelism=parallelism) for minute in (1, 2, 3))


def new_parallelism(outcome: PassOutcome, vertex: str) -> int | None:
    decision = outcome.decision
    return decision.summaries[vertex].new if isinstance(decision, Rescale) and vertex in decision.summaries else None


def codes(outcome: PassOutcome) -> list[str]:
    return [reason.code for reason in outcome.decision.reasons]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        pytest.param({}, 67, id="128 is nearly twice as much"),
        pytest.param({KEY: "1"}, 128, id="allowed to double"),
        pytest.param({KEY: "0"}, 67, id="not at all"),
        pytest.param({"compat": "reference"}, 128, id="the reference"),
        pytest.param({"compat": "reference", KEY: "0.33"}, 67, id="the reference, told so"),
        pytest.param({"scaling.parallelism-alignment.mode": "EVENLY_SPREAD"}, 67, id="evenly spread"),
        pytest.param({"scaling.key-group.partitions.adjust.mode": "EVENLY_SPREAD"}, 67, id="legacy"),
        pytest.param({"scaling.parallelism-alignment.mode": "OFF"}, 67, id="off"),
    ],
)
def test_key_groups_raise_a_parallelism_by_a_third_at_most(options: dict[str, str], expected: int) -> None:
    assert new_parallelism(keyed_outcome(options, parallelism=64, busy=0.523), KEYED) == expected


def test_it_is_said_where_a_parallelism_stays_below_even_shares() -> None:
    outcome = keyed_outcome({}, parallelism=64, busy=0.523)

    reason = next(each for each in outcome.decision.reasons if each.code == "ALIGNMENT_TOO_FAR")
    assert reason.vertex_id == KEYED
    assert "128 key groups" in reason.text
    assert dict(reason.figures)["even"] == 128.0
    assert KEY in reason.text


def test_partitions_raise_a_parallelism_by_a_third_at_most() -> None:
    # 30 subtasks that are busy for 0.55 of their time want 33; 60 partitions are spread evenly by 60 only.
    driver = JobDriver(a_context({**SINGLE_SOURCE_OPTIONS, "utilization.max": "0.51"}))

    outcome = driver.run_each_minute(
        partitioned_source(minute, busy=0.55, parallelism=30, partitions=60) for minute in (1, 2, 3)
    )

    assert new_parallelism(outcome, SINGLE_SOURCE) == 33
    assert "ALIGNMENT_TOO_FAR" in codes(outcome)
