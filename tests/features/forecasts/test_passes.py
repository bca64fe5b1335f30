"""Passes over jobs with forecasts."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace

import pytest

from flink_autoscaler.core.forecast.pass_forecast import forecast_states, profiles_around
from flink_autoscaler.core.model.decision import Hold, PassPhase, Rescale
from flink_autoscaler.core.model.load_profile import LoadProfile, ProfileResult
from flink_autoscaler.core.model.topology import IoMetrics, ShipStrategy
from flink_autoscaler.core.policies.varga import VargaPolicy
from flink_autoscaler.core.ports.passes import PassOutcome
from flink_autoscaler.core.ports.plugins import Plugins
from testkit.builders.core import (
    MINUTE,
    SINGLE_SOURCE,
    SINGLE_SOURCE_OPTIONS,
    JobDriver,
    a_context,
    a_reading,
    a_vertex,
    full_window,
    operator_answers,
    single_source,
    source_answers,
    vertex_id,
)

# 200 records/s arrive at a source that is sized for them; its profile always expects 600, twice of which it needs.
PROFILE = LoadProfile(
    q50=(1.0,) * 672, q90=(3.0,) * 672, weeks=5, level=200.0, growth=1.0, asof=0.0, wape=0.1, exceed=0.1
)
RESULT = ProfileResult("a cluster/a job", SINGLE_SOURCE, 0.0, PROFILE)
WITH_FORECAST = {"forecast.enabled": "true"}


def a_driver(options: Mapping[str, str] = WITH_FORECAST, result: ProfileResult | None = RESULT) -> JobDriver:
    driver = JobDriver(a_context({**SINGLE_SOURCE_OPTIONS, **options}))
    driver.profiles = {} if result is None else profiles_around({SINGLE_SOURCE: result}, 0.0)
    return driver


def enough(driver: JobDriver) -> PassOutcome:
    return full_window(driver, rate=200.0, busy_ms=500.0)


def go_on(driver: JobDriver, minute: float) -> PassOutcome:
    return driver.run(round(minute * MINUTE), single_source(minute, rate=200.0, busy_ms=500.0))


def codes(outcome: PassOutcome) -> list[str]:
    return [reason.code for reason in outcome.decision.reasons]


def told(outcomes: Iterable[PassOutcome], code: str) -> list[str]:
    reasons = (reason for outcome in outcomes for reason in outcome.decision.reasons)
    return [reason.text for reason in reasons if reason.code == code]


def test_a_job_is_made_ready_for_what_is_forecast() -> None:
    outcome = enough(a_driver())

    assert isinstance(outcome.decision, Rescale)
    assert outcome.target.parallelism == {SINGLE_SOURCE: 12}
    assert "FORECAST_HIGHER" in codes(outcome)
    assert "FORECAST_DISABLED" not in codes(outcome)


def test_a_job_does_not_shrink_below_what_is_forecast() -> None:
    without, ahead = (
        full_window(a_driver({**options, "scale-down.interval": "0"}), rate=200.0, busy_ms=100.0)
        for options in ({}, WITH_FORECAST)
    )

    assert without.target.parallelism == {SINGLE_SOURCE: 2}
    assert ahead.target.parallelism == {SINGLE_SOURCE: 3}
    assert told([ahead], "FORECAST_HIGHER")[0].endswith("200 records/s arrive now; 600 are expected soon, 600 later")


def test_a_forecast_reaches_the_vertices_behind_its_source() -> None:
    driver = a_driver()
    for minute in (1, 2, 3):
        count, busy_ms = 12_000 * minute, 500.0 * 60 * minute
        source = a_vertex(1, parallelism=4, io=IoMetrics(records_in=0, records_out=count, busy_ms=4 * busy_ms))
        io = IoMetrics(records_in=count, busy_ms=4 * busy_ms)
        following = a_vertex(2, parallelism=4, io=io, inputs={1: ShipStrategy.REBALANCE})
        answers = source_answers(busy_ms=500.0, rate=200.0, records_in=count)
        behind = operator_answers(busy_ms=500.0, rate=200.0)
        outcome = driver.run(
            minute * MINUTE, a_reading([source, following], {vertex_id(1): answers, vertex_id(2): behind})
        )

    assert outcome.target.parallelism == {vertex_id(1): 12, vertex_id(2): 12}


def test_without_the_option_profiles_change_nothing() -> None:
    with_profile, without = (enough(a_driver({}, result)) for result in (RESULT, None))

    assert with_profile == without
    assert with_profile.state.forecast == {}
    assert with_profile.target.parallelism == {}


@pytest.mark.parametrize(
    ("result", "text"),
    [
        pytest.param(None, "there is no profile yet", id="no result"),
        pytest.param(
            replace(RESULT, profile=None, problem="too little history"), "too little history", id="no profile"
        ),
        pytest.param(
            replace(RESULT, profile=replace(PROFILE, wape=0.3)),
            "the error of the backtest is 30%, more than 20%",
            id="not accurate",
        ),
    ],
)
def test_a_forecast_that_is_not_trusted_says_why_and_the_rest_carries_on(
    result: ProfileResult | None, text: str
) -> None:
    outcome = enough(a_driver(result=result))

    assert isinstance(outcome.decision, Hold)
    [disabled] = [reason for reason in outcome.decision.reasons if reason.code == "FORECAST_DISABLED"]
    assert disabled.text == f"planned without a forecast: {text}"
    assert disabled.vertex_id == SINGLE_SOURCE
    assert "FORECAST_HIGHER" not in codes(outcome)


def test_what_arrives_is_remembered_from_the_second_sample_on() -> None:
    driver = a_driver()

    outcomes = [go_on(driver, minute) for minute in (1, 2)]

    assert [outcome.phase for outcome in outcomes] == [PassPhase.COLLECTING, PassPhase.WINDOW_FILLING]
    assert outcomes[0].state.forecast == {}
    memory = outcomes[1].state.forecast
    bucket = forecast_states(memory["sources"])[SINGLE_SOURCE].bucket
    assert bucket is not None
    assert (bucket.start, bucket.count, bucket.total) == (0, 1, 200.0)
    assert json.loads(json.dumps(memory)) == memory


def test_a_backlog_that_grows_is_part_of_what_arrives() -> None:
    driver = a_driver()
    for minute in (1, 2):
        driver.run(minute * MINUTE, single_source(minute, rate=200.0, busy_ms=500.0, pending=6_000.0 * minute))

    bucket = forecast_states(driver.state.forecast["sources"])[SINGLE_SOURCE].bucket
    assert bucket is not None
    assert bucket.total == 300.0


def test_forecasts_outlive_a_restart_and_a_change_of_the_graph() -> None:
    driver = a_driver()
    enough(driver)
    before = driver.state.forecast

    io = IoMetrics(records_in=0, busy_ms=0.0)
    vertices = [a_vertex(1, parallelism=4, io=io), a_vertex(2, parallelism=1, io=io)]
    answers = {vertex_id(number): source_answers(busy_ms=1.0, rate=1.0) for number in (1, 2)}
    outcome = driver.run(4 * MINUTE, a_reading(vertices, answers, running_at_ms=200_000))

    assert outcome.phase is PassPhase.COLLECTING
    assert outcome.state.policies == {}
    assert outcome.state.forecast == before


def test_switching_forecasts_off_forgets_them() -> None:
    driver = a_driver()
    enough(driver)
    driver.context = a_context(SINGLE_SOURCE_OPTIONS)

    state = go_on(driver, 4).state
    assert state.forecast == {}


def test_a_state_that_cannot_be_read_begins_anew() -> None:
    driver = a_driver()
    enough(driver)
    driver.state = replace(driver.state, forecast={"sources": {SINGLE_SOURCE: "nonsense"}})

    outcome = go_on(driver, 4)

    assert outcome.error is None
    assert list(forecast_states(outcome.state.forecast["sources"])) == [SINGLE_SOURCE]


def test_forecasts_that_nobody_looks_at_are_told_once() -> None:
    driver = a_driver({"policy": "varga", "forecast.enabled": "true"}, None)

    outcomes = [go_on(driver, minute) for minute in (1, 2, 3, 4)]

    assert [[event.reason for event in outcome.events] for outcome in outcomes] == [[], ["ForecastUnused"], [], []]
    assert codes(outcomes[-1])[-1] == "FORECAST_UNUSED"
    assert "FORECAST_DISABLED" not in codes(outcomes[-1])
    assert "Choose 'capacity'" in outcomes[1].events[0].message


def test_a_policy_that_judges_profiles_by_itself_sees_all_that_are_fresh() -> None:
    wrong = replace(RESULT, profile=replace(PROFILE, wape=0.9))
    driver = a_driver({"policy": "slo", "forecast.enabled": "true"}, wrong)

    outcomes = [go_on(driver, minute) for minute in (1, 2, 3, 4, 5)]

    assert not any(outcome.events for outcome in outcomes)
    assert not {"FORECAST_UNUSED", "FORECAST_DISABLED"} & set(codes(outcomes[-1]))
    assert any("profile" in text for text in told(outcomes, "SLO_FORECAST"))


@pytest.mark.parametrize(
    ("result", "text"),
    [
        pytest.param(None, "there is no profile yet", id="none"),
        pytest.param(
            replace(RESULT, profile=replace(PROFILE, asof=-3 * 86_400.0)), "the profile is 72 h old", id="old"
        ),
        pytest.param(
            replace(RESULT, profile=replace(PROFILE, timezone="Moon/Base")), "time zone 'Moon/Base'", id="of nowhere"
        ),
    ],
)
def test_a_policy_that_judges_profiles_by_itself_is_told_why_there_is_none(
    result: ProfileResult | None, text: str
) -> None:
    driver = a_driver({"policy": "slo", "forecast.enabled": "true"}, result)

    outcomes = [go_on(driver, minute) for minute in (1, 2, 3, 4, 5)]

    assert text in told(outcomes, "FORECAST_DISABLED")[-1]
    assert not any("profile" in each for each in told(outcomes, "SLO_FORECAST"))


def test_a_plugin_may_look_at_forecasts() -> None:
    driver = JobDriver(
        a_context({**SINGLE_SOURCE_OPTIONS, **WITH_FORECAST, "policy": "mine"}),
        plugins=Plugins(policies={"mine": VargaPolicy()}),
    )

    assert "FORECAST_UNUSED" not in codes(enough(driver))


def test_an_option_of_forecasts_that_cannot_be_read_is_told_before_anything_is_done() -> None:
    invalid = a_driver({**WITH_FORECAST, "forecast.decay-time": "soon"})
    contradiction = a_driver({**WITH_FORECAST, "forecast.wape.enable": "0.3"})
    off = a_driver({"forecast.decay-time": "soon"})

    phases = [enough(driver).phase for driver in (invalid, contradiction, off)]

    assert phases == [PassPhase.INVALID_CONFIG, PassPhase.INVALID_CONFIG, PassPhase.EXECUTED]
