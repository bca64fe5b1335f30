"""The policy ``capacity`` with a forecast: it sizes a job for what is expected where that is more than arrives now."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given as for_all
from hypothesis import strategies as st

from flink_autoscaler.core.errors import ConfigError
from flink_autoscaler.core.model.policy_values import (
    DemandForecast,
    JobObservation,
    Proposal,
    SourceForecast,
)
from flink_autoscaler.core.policies.base.quantities import SourceRates, expected_arrivals
from flink_autoscaler.core.policies.capacity import CapacityPolicy
from flink_autoscaler.core.policies.testing.model_job import balanced_jobs
from testkit.builders.policies import codes, given, observation, vertex

POLICY = CapacityPolicy()
NO_CATCH_UP = {"catch-up.duration": "0"}


def morning() -> JobObservation:
    """77 000 records/s arrive, at a utilization of 0.7 with 1 000 records/s per subtask."""
    return observation(vertex(parallelism=110, rate_in=77_000.0, busy=0.7, max_parallelism=1_000))


def propose(obs: JobObservation, demand: DemandForecast | None, options: dict[str, str] | None = None) -> Proposal:
    return POLICY.propose(given(obs, {**NO_CATCH_UP, **(options or {})}, demand=demand))


def source(up: float, down: float | None = None, level: float = 80_000.0) -> DemandForecast:
    return {"source": SourceForecast(up, up if down is None else down, level)}


def test_the_job_is_sized_for_the_coming_peak() -> None:
    narrow = {"utilization.max": "0.9"}
    reactive, ahead = propose(morning(), None, narrow), propose(morning(), source(109_627.0), narrow)

    assert reactive.capacity["source"] == pytest.approx(110_000.0)
    assert reactive.targets == {"source": 110}
    assert ahead.capacity["source"] == pytest.approx(156_610.0, abs=1.0)
    assert ahead.targets == {"source": 157}
    assert "FORECAST_HIGHER" in codes(ahead)


def test_a_peak_that_the_job_can_just_carry_is_within_the_widest_band() -> None:
    proposal = propose(morning(), source(109_627.0))

    assert proposal.capacity["source"] == pytest.approx(156_610.0, abs=1.0)
    assert proposal.targets == {"source": 110}


def quiet() -> JobObservation:
    """21 000 records/s arrive at 110 subtasks of 1 000 records/s: 44 are the least after one step down."""
    return observation(vertex(parallelism=110, rate_in=21_000.0, busy=21 / 110, max_parallelism=1_000))


@pytest.mark.parametrize(
    ("demand", "expected"),
    [
        pytest.param(source(21_000.0), 44, id="stays as it is: one step down"),
        pytest.param(source(21_000.0, 50_000.0), 110, id="much more soon: within the band for that"),
        pytest.param(source(21_000.0, 38_500.0), 55, id="more soon: only so far down"),
    ],
)
def test_what_comes_later_counts_for_going_down(demand: DemandForecast, expected: int) -> None:
    assert propose(quiet(), demand).targets == {"source": expected}


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
    assert expected_arrivals({"source": 10.0}, source(up, level=level), 3.0).up == {"source": expected}


def test_each_source_is_taken_separately() -> None:
    expected = expected_arrivals({"a": 10.0, "b": 10.0}, {"a": SourceForecast(20.0, 25.0, 0.0)}, 3.0)

    assert expected == SourceRates({"a": 20.0, "b": 10.0}, {"a": 25.0, "b": 10.0})


rates = st.floats(0.0, 1e9)


@for_all(now=rates, up=rates, down=rates, level=rates, cap=st.floats(1.0, 10.0))
def test_a_forecast_only_raises_demand(now: float, up: float, down: float, level: float, cap: float) -> None:
    expected = expected_arrivals({"source": now}, source(up, down, level), cap)

    assert now <= expected.up["source"] <= expected.down["source"]


@for_all(number=st.integers(0, 49), up=st.floats(0.0, 1e6), down=st.floats(0.0, 1e6))
def test_a_forecast_never_lowers_a_target(number: int, up: float, down: float) -> None:
    job = JOBS[number]
    obs = job.observed(job.parallelism, 1e9)
    demand = {v: SourceForecast(up, down, job.arrival) for v, each in obs.vertices.items() if each.is_source}

    without, with_forecast = (propose(obs, each).targets or {} for each in (None, demand))

    assert all(with_forecast[v] >= target for v, target in without.items())


JOBS = balanced_jobs(50)


@pytest.mark.parametrize("changes", [{"target_rate": None}, {"complete": False}], ids=str)
def test_what_is_missing_makes_it_abstain(changes: dict[str, Any]) -> None:
    assert propose(observation(vertex(**changes)), source(1e6)).targets is None


@pytest.mark.parametrize(("key", "value"), [("forecast.cap-factor", "0.5")])
def test_an_invalid_setting_is_named(key: str, value: str) -> None:
    with pytest.raises(ConfigError, match=f"'{value}' for key 'job.autoscaler.{key}'"):
        propose(morning(), None, {key: value})
