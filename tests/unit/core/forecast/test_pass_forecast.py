from __future__ import annotations

import math
import pickle
import zlib
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flink_autoscaler.core.forecast.guard import SourceState, issue
from flink_autoscaler.core.forecast.online import Bucket, Horizons, source_forecast
from flink_autoscaler.core.forecast.pass_forecast import DISABLED, DemandStep, forecast_demand, profiles_around
from flink_autoscaler.core.model.load_profile import BUCKET, DAY, LoadProfile, ProfileResult, bucket_start
from flink_autoscaler.core.model.policy_values import Outage
from flink_autoscaler.core.options.forecast import ForecastParams

MONDAY = datetime(2026, 11, 2, tzinfo=UTC).timestamp()
# A level of 100 that nothing changes; from 00:45 on the upper quantile is 300 instead of 120.
PROFILE = LoadProfile(
    q50=(1.0,) * 672,
    q90=(1.2,) * 3 + (3.0,) * 669,
    weeks=5,
    level=100.0,
    growth=1.0,
    asof=MONDAY,
    wape=0.1,
    exceed=0.1,
)
HORIZONS = Horizons(up=1800.0, down=3600.0)


def a_result(
    source: str = "source", profile: LoadProfile | None = PROFILE, problem: str | None = None
) -> ProfileResult:
    return ProfileResult("main/orders", source, MONDAY, profile, problem)


def step(
    rates: Mapping[str, float | None],
    *results: ProfileResult,
    states: Mapping[str, SourceState] | None = None,
    now: float = MONDAY,
) -> DemandStep:
    profiles = {result.source_id: result for result in results}
    return forecast_demand(rates, profiles, states or {}, now=now, horizons=HORIZONS, settings=ForecastParams())


def test_trusted_source_has_its_greatest_demand_until_each_horizon() -> None:
    found = step({"source": 100.0}, a_result())

    assert found.demand is not None
    forecast = found.demand["source"]
    assert [forecast.up, forecast.down, forecast.level] == pytest.approx([120, 300, 100])
    assert found.reasons == ()
    assert found.states["source"].is_trusted
    assert len(found.states["source"].issued) == 1


@pytest.mark.parametrize(
    ("result", "text"),
    [
        pytest.param(None, "there is no profile yet", id="never built"),
        pytest.param(a_result(profile=None, problem="too little history"), "too little history", id="not built"),
        pytest.param(
            a_result(profile=replace(PROFILE, timezone="Mars/Base")), "the time zone 'Mars/Base'", id="unknown zone"
        ),
        pytest.param(a_result(profile=replace(PROFILE, wape=0.5)), "the error of the backtest is 50%", id="inaccurate"),
        pytest.param(a_result(profile=replace(PROFILE, q90=(None,) * 672)), "knows nothing about", id="unknown hours"),
    ],
)
def test_source_without_forecast_says_why(result: ProfileResult | None, text: str) -> None:
    found = step({"source": 100.0}, *([] if result is None else [result]))

    assert found.demand is None
    [reason] = found.reasons
    assert (reason.code, reason.vertex_id) == (DISABLED, "source")
    assert text in reason.text


def test_sources_are_judged_each_by_itself() -> None:
    found = step({"good": 100.0, "new": 100.0}, a_result("good"))

    assert set(found.demand or {}) == {"good"}
    assert [reason.vertex_id for reason in found.reasons] == ["new"]


def test_forecasts_are_compared_while_they_are_not_used() -> None:
    inaccurate = a_result(profile=replace(PROFILE, wape=0.5))
    states: Mapping[str, SourceState] = {}

    for minute in range(24 * 60 + 60):
        found = step({"source": 100.0}, inaccurate, states=states, now=MONDAY + minute * 60)
        states = found.states

    assert found.demand is not None


def test_rate_that_is_not_known_changes_nothing() -> None:
    found = step({"source": None}, a_result())

    assert found.demand is not None
    assert found.states["source"].recent == ()


def test_sources_that_are_gone_are_forgotten() -> None:
    found = step({"source": 1.0}, states={"gone": SourceState()})

    assert set(found.states) == {"source"}


def test_growth_beyond_all_numbers_is_no_forecast() -> None:
    found = step({"source": 100.0}, a_result(profile=replace(PROFILE, growth=1e300)), now=MONDAY + 7 * 86_400)

    assert found.demand is None
    assert "beyond all numbers" in found.reasons[0].text


SHARES = tuple(1.5 + math.sin(number) for number in range(672))
WHOLE = LoadProfile(
    q50=SHARES, q90=tuple(2 * share for share in SHARES), weeks=5, level=100.0, growth=1.01, asof=0.0, wape=0.1
)
SETTINGS = ForecastParams()


@given(
    now=st.floats(0.0, 5e8),
    catch_up=st.floats(0.0, 3 * DAY),
    timezone=st.sampled_from(["UTC", "Europe/Berlin", "Australia/Lord_Howe", "Asia/Kathmandu"]),
)
def test_a_pass_comes_to_the_same_with_the_part_around_it(now: float, catch_up: float, timezone: str) -> None:
    profile = replace(WHOLE, timezone=timezone)
    horizons = Horizons.of(Outage(30.0, 60.0), catch_up)
    recent = tuple(Bucket(bucket_start(now) - number * BUCKET, 150.0) for number in (4, 3, 2, 1))
    state = SourceState(recent=recent)

    part = profile.around(now)

    assert source_forecast(part, recent, now, horizons, SETTINGS) == source_forecast(
        profile, recent, now, horizons, SETTINGS
    )
    assert issue(state, part, now, SETTINGS) == issue(state, profile, now, SETTINGS)


def test_the_part_around_a_pass_is_small() -> None:
    part = WHOLE.around(1e9)

    assert sum(share is not None for share in part.q90) < 110
    assert len(zlib.compress(pickle.dumps(part, 5), 1)) < 2_500
    assert len(zlib.compress(pickle.dumps(WHOLE, 5), 1)) > 7_000


def test_a_profile_of_a_time_zone_that_is_not_known_here_is_left_to_the_pass() -> None:
    result = ProfileResult("main/orders", "source", 0.0, replace(WHOLE, timezone="Mars/Base"))

    assert profiles_around({"source": result}, 0.0) == {"source": result}
