"""The policy ``capacity``: what it sizes a job for, and with a forecast for what is expected where that is more."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given as for_all
from hypothesis import strategies as st

from flink_autoscaler.core.evaluate.evaluation import EvaluationSettings, evaluate
from flink_autoscaler.core.model.metrics import ScalingMetric
from flink_autoscaler.core.model.policy_values import DemandForecast, Outage, Proposal, SourceForecast
from flink_autoscaler.core.model.state import JobState
from flink_autoscaler.core.policies.capacity import CapacityPolicy, SourceRates, expected_arrivals
from flink_autoscaler.core.ports.passes import EvaluatedJob
from testkit.builders.core import MINUTE, a_cluster, a_context, a_sample, a_topology, a_vertex, vertex_id

SOURCE = vertex_id(1)


def sized(
    rate: float,
    demand: DemandForecast | None = None,
    options: Mapping[str, str] | None = None,
    *,
    busy: float | None = None,
    lag: float = 0.0,
    ceilings: Mapping[str, int] | None = None,
) -> Proposal:
    """Size a source of 110 subtasks that take 1 000 records/s each; it keeps up unless told how busy it is."""
    load = rate / 110_000.0 if busy is None else busy
    samples = tuple(
        a_sample(
            at * MINUTE,
            {
                SOURCE: {
                    ScalingMetric.NUM_RECORDS_IN: 60.0 * rate * at,
                    ScalingMetric.LOAD: load,
                    ScalingMetric.ACCUMULATED_BUSY_TIME: 60_000.0 * 110 * load * at,
                    ScalingMetric.LAG: lag,
                }
            },
        )
        for at in (1, 2, 3)
    )
    wide = {"vertex.max-parallelism": "1000", "catch-up.duration": "0", **(options or {})}
    context, topology = a_context(wide), a_topology(a_vertex(1, parallelism=110, max_parallelism=1_000))
    job = EvaluatedJob(
        context=context,
        topology=topology,
        metrics=evaluate(topology, samples, EvaluationSettings.of(context.options, 300)),
        state=JobState(samples=samples),
        cluster=a_cluster(),
        excluded=frozenset(),
        restart_time=300,
        now_ms=3 * MINUTE,
        demand=demand,
        outage=Outage(60.0, 600.0) if demand else None,
    )
    return CapacityPolicy().size(job, ceilings or {})


def source(up: float, down: float | None = None, level: float = 80_000.0) -> DemandForecast:
    return {SOURCE: SourceForecast(up, up if down is None else down, level)}


def test_a_job_is_sized_for_what_arrives_at_the_target_utilization() -> None:
    proposal = sized(21_000.0)

    assert proposal.capacity == {SOURCE: 30_000.0}
    assert proposal.targets == {SOURCE: 44}, "not 30: one step down is 60 % at most"


@pytest.mark.parametrize(
    ("lag", "capacity"), [(0.0, 134_000.0), (30_000_000.0, 150_667.0)], ids=["a restart", "a backlog, too"]
)
def test_catching_up_takes_capacity_for_the_restart_and_the_backlog(lag: float, capacity: float) -> None:
    options = {"catch-up.duration": "30 min", "backlog-processing.lag-threshold": "1 h"}

    # 84 000 / 0.7, and within half an hour what arrives in 300 s, and what waits.
    assert sized(84_000.0, options=options, lag=lag).capacity == {SOURCE: capacity}


def test_no_vertex_gets_more_than_its_ceiling() -> None:
    proposal = sized(110_000.0, options={"utilization.max": "0.9"}, ceilings={SOURCE: 120})

    assert proposal.targets == {SOURCE: 120}


def test_the_job_is_sized_for_the_coming_peak() -> None:
    narrow = {"utilization.max": "0.9"}
    reactive, ahead = sized(77_000.0, options=narrow), sized(77_000.0, source(109_627.0), narrow)

    assert reactive.targets == {SOURCE: 110}
    assert ahead.capacity == {SOURCE: 156_610.0}
    assert ahead.targets == {SOURCE: 157}
    assert "FORECAST_HIGHER" in {reason.code for reason in ahead.reasons}


def test_a_slow_restart_is_planned_for_where_a_peak_is_expected() -> None:
    # 600 s instead of 300 s within half an hour.
    options = {"catch-up.duration": "30 min", "utilization.max": "0.9"}

    assert sized(77_000.0, source(105_000.0), options).capacity == {SOURCE: 185_000.0}


def test_a_peak_that_the_job_can_just_carry_is_within_the_widest_band() -> None:
    proposal = sized(77_000.0, source(109_627.0))

    assert proposal.capacity == {SOURCE: 156_610.0}
    assert proposal.targets == {SOURCE: 110}


@pytest.mark.parametrize(
    ("demand", "expected"),
    [
        pytest.param(source(21_000.0), 44, id="stays as it is: one step down"),
        pytest.param(source(21_000.0, 38_500.0), 55, id="more later: only so far down"),
    ],
)
def test_what_comes_later_counts_for_going_down(demand: DemandForecast, expected: int) -> None:
    assert sized(21_000.0, demand).targets == {SOURCE: expected}


@pytest.mark.parametrize(
    ("up", "level", "expected"),
    [
        pytest.param(5.0, 0.0, 10.0, id="less than arrives now"),
        pytest.param(20.0, 0.0, 20.0, id="more"),
        pytest.param(90.0, 0.0, 30.0, id="three times at most"),
        pytest.param(90.0, 50.0, 50.0, id="or the usual level"),
        pytest.param(45.0, 50.0, 45.0, id="below the usual level"),
    ],
)
def test_a_forecast_counts_within_limits(up: float, level: float, expected: float) -> None:
    assert expected_arrivals({SOURCE: 10.0}, source(up, level=level), 3.0).up == {SOURCE: expected}


def test_each_source_is_taken_separately() -> None:
    expected = expected_arrivals({"a": 10.0, "b": 10.0}, {"a": SourceForecast(20.0, 25.0, 0.0)}, 3.0)

    assert expected == SourceRates({"a": 20.0, "b": 10.0}, {"a": 25.0, "b": 10.0})


rates = st.floats(0.0, 1e9)


@for_all(now=rates, up=rates, down=rates, level=rates, cap=st.floats(1.0, 10.0))
def test_a_forecast_only_raises_demand(now: float, up: float, down: float, level: float, cap: float) -> None:
    expected = expected_arrivals({SOURCE: now}, source(up, down, level), cap)

    assert now <= expected.up[SOURCE] <= expected.down[SOURCE]
