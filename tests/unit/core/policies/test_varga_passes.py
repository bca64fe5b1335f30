"""``varga`` as published in whole passes: it goes by the idle times that the job details have."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from core_builders import (
    MINUTE,
    JobDriver,
    a_context,
    a_reading,
    a_vertex,
    operator_answers,
    source_answers,
    vertex_id,
)

from flink_autoscaler.core.model.decision import Hold, Rescale
from flink_autoscaler.core.model.reading import JobReading
from flink_autoscaler.core.model.topology import IoMetrics, ShipStrategy
from flink_autoscaler.core.ports.passes import PassOutcome

RATE = 30_000.0
SUBTASKS = 8
OPTIONS: Mapping[str, str] = {
    "policy": "varga",
    "varga.hardened": "false",
    "hpa.behavior": "kubernetes",
    "metrics.window": "2 min",
    "stabilization.interval": "1 min",
    "scale-down.interval": "0",
    "scale-down.max-factor": "1",
    "scale-down.economics.enabled": "false",
    "scaling.parallelism-alignment.mode": "OFF",
}


def a_job(minute: float, *, idle: float, lag: float, tells_waiting: bool = True, since: float = 0.0) -> JobReading:
    """Read a job whose two vertices read 30,000 records/s, are idle for a share of their time and otherwise busy."""
    seconds = 60 * (minute - since)
    io = IoMetrics(
        records_in=round(RATE * seconds),
        records_out=round(RATE * seconds),
        busy_ms=1000 * SUBTASKS * (1 - idle) * seconds,
        idle_ms=1000 * SUBTASKS * idle * seconds if tells_waiting else None,
        backpressured_ms=0.0 if tells_waiting else None,
    )
    vertices = [
        a_vertex(1, parallelism=SUBTASKS, io=io),
        a_vertex(2, parallelism=SUBTASKS, io=io, inputs={1: ShipStrategy.HASH}),
    ]
    busy_ms = 1000 * (1 - idle)
    answers = {
        vertex_id(1): source_answers(busy_ms=busy_ms, rate=RATE, pending=lag),
        vertex_id(2): operator_answers(busy_ms=busy_ms, rate=RATE),
    }
    return a_reading(vertices, answers, running_at_ms=round(since * MINUTE))


def passes(minutes: int, *, idle: float, lag: float, slope: float) -> list[PassOutcome]:
    """Do a pass per minute; at minute 3, the first that may decide, the sources have ``lag`` before them."""
    driver, outcomes = JobDriver(a_context(OPTIONS)), []
    for minute in range(1, minutes + 1):
        before = max(0.0, lag + slope * 60 * (minute - 3))
        outcomes.append(driver.run(minute * MINUTE, a_job(minute, idle=idle, lag=before)))
    return outcomes


@pytest.mark.parametrize(
    ("idle", "lag", "slope", "expected"),
    [
        pytest.param(0.38, 2e6, 6_000.0, 10, id="A: the lag grows"),
        pytest.param(0.38, 20e3, 6_000.0, None, id="B: it grows, but is small"),
        pytest.param(0.02, 2e6, -9_000.0, 12, id="D: draining, the ratchet"),
        pytest.param(0.30, 2e6, 0.0, None, id="E: a standing backlog is never worked off"),
    ],
)
def test_the_published_policy_follows_the_idle_time_of_the_job_details(
    idle: float, lag: float, slope: float, expected: int | None
) -> None:
    decision = passes(3, idle=idle, lag=lag, slope=slope)[-1].decision

    if expected is None:
        assert isinstance(decision, Hold)
        assert "METRIC_MISSING" not in {reason.code for reason in decision.reasons}
    else:
        assert isinstance(decision, Rescale)
        assert {summary.new for summary in decision.summaries.values()} == {expected}


def test_an_idle_job_shrinks_once_five_minutes_agree() -> None:
    outcomes = passes(9, idle=0.65, lag=20e3, slope=0.0)

    first = next(at for at, outcome in enumerate(outcomes, start=1) if isinstance(outcome.decision, Rescale))
    assert first == 3 + 5
    assert set(outcomes[first - 1].wanted.values()) == {4}


def test_it_abstains_where_the_cluster_does_not_tell_idle_times() -> None:
    driver = JobDriver(a_context(OPTIONS))
    readings = [a_job(minute, idle=0.02, lag=0.0, tells_waiting=False) for minute in (1, 2, 3)]

    decision = driver.run_each_minute(readings).decision

    assert "METRIC_MISSING" in {reason.code for reason in decision.reasons}


def test_idle_time_of_before_a_restart_does_not_count() -> None:
    driver = JobDriver(a_context(OPTIONS))
    driver.run_each_minute([a_job(minute, idle=0.9, lag=0.0) for minute in (1, 2)])
    for minute in (4, 5, 6):
        outcome = driver.run(minute * MINUTE, a_job(minute, idle=0.02, lag=0.0, since=3.0))

    assert set(outcome.wanted.values()) == {12}
