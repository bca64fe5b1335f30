"""Backtests of jobs with forecasts."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache

from flink_autoscaler.core.model.load_profile import LoadProfile, ProfileResult
from flink_autoscaler.pipeline.simulator import BacktestResult, JobModel, RescaleParams, Simulation, VertexModel, run
from flink_autoscaler.pipeline.simulator.run import MONDAY_MS
from flink_autoscaler.pipeline.simulator.workloads import HOUR, MINUTE, from_shape

SOURCE, WORK = "a" * 32, "c" * 32
BEFORE, AFTER = 500.0, 2000.0
RAMP_AT, RAMP_UNTIL = 3 * HOUR, 3.25 * HOUR
PREFIX = "job.autoscaler."
OPTIONS = {
    PREFIX + "metrics.window": "5 min",
    PREFIX + "stabilization.interval": "1 min",
    PREFIX + "catch-up.duration": "15 min",
    PREFIX + "scaling.parallelism-alignment.mode": "OFF",
}
WITH_FORECAST = {**OPTIONS, PREFIX + "forecast.enabled": "true"}


def rate(at: float) -> float:
    """Give the records/s so many seconds after midnight: they grow fourfold in the quarter of an hour after three."""
    share = min(max(0.0, (at - RAMP_AT) / (RAMP_UNTIL - RAMP_AT)), 1.0)
    return BEFORE + (AFTER - BEFORE) * share


def a_profile(asof: float = MONDAY_MS / 1000) -> ProfileResult:
    """Make the profile of a source to which that arrives every day."""
    q50 = tuple(rate(number % 96 * 15 * MINUTE + 7.5 * MINUTE) / 1000.0 for number in range(672))
    profile = LoadProfile(
        q50, tuple(1.05 * share for share in q50), 5, level=1000.0, growth=1.0, asof=asof, wape=0.05, exceed=0.1
    )
    return ProfileResult("main/orders", SOURCE, asof, profile)


RAMP = Simulation(
    JobModel.chain(
        [VertexModel(SOURCE, "Source: orders", 1000.0), VertexModel(WORK, "work", 100.0, max_parallelism=720)]
    ),
    from_shape("ramp", rate, 6 * HOUR),
    OPTIONS,
    terms=RescaleParams(60.0),
)


@cache
def reactive() -> BacktestResult:
    return run(RAMP)


@cache
def ahead() -> BacktestResult:
    return run(replace(RAMP, configuration=WITH_FORECAST, profiles=[a_profile()]))


def first_up(result: BacktestResult) -> float:
    return min((each.instant for each in result.decisions if each.wanted[WORK] > 8), default=math.inf)


def test_the_scale_up_comes_before_the_load_that_the_profile_knows() -> None:
    assert first_up(ahead()) < RAMP_AT <= first_up(reactive())


def test_the_lag_stays_lower_than_without_a_forecast() -> None:
    assert ahead().measures.lag_max < reactive().measures.lag_max
    assert ahead().measures.over_slo < reactive().measures.over_slo


def test_a_profile_that_is_made_later_is_not_used_yet() -> None:
    late = run(replace(RAMP, configuration=WITH_FORECAST, profiles=[a_profile(MONDAY_MS / 1000 + 5 * HOUR)]))

    assert first_up(late) == first_up(reactive())
    assert late.holds["FORECAST_DISABLED"] > 0
