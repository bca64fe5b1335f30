from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flink_autoscaler.core.forecast.guard import (
    ForecastScore,
    PendingForecast,
    SourceState,
    issue,
    rejection_reasons,
    score_forecasts,
)
from flink_autoscaler.core.forecast.online import Bucket, OpenBucket
from flink_autoscaler.core.forecast.pass_forecast import forecast_document, forecast_states
from flink_autoscaler.core.model.load_profile import BUCKET, LoadProfile
from flink_autoscaler.core.options.forecast import ForecastParams

MONDAY = int(datetime(2026, 11, 2, tzinfo=UTC).timestamp())
SETTINGS = ForecastParams()
PROFILE = LoadProfile(
    q50=(1.0,) * 672, q90=(1.2,) * 672, weeks=5, level=100.0, growth=1.0, asof=MONDAY, wape=0.1, exceed=0.1
)
MINUTES_OF_A_DAY = 1440


def passes(
    rate_at: Callable[[int], float | None],
    count: int,
) -> SourceState:
    """Make one pass per minute, from the beginning of Monday on."""
    state = SourceState()
    for minute in range(count):
        now = MONDAY + minute * 60
        state = issue(score_forecasts(state, now, rate_at(minute)), PROFILE, now, SETTINGS)
    return state


def scored(rates: Sequence[float], *, forecast: float = 100.0) -> SourceState:
    """Make a state whose last scores are some rates."""
    ends = range(MONDAY - BUCKET * len(rates), MONDAY, BUCKET)
    return SourceState(
        scores=tuple(ForecastScore(at, rate, forecast, 1.2 * forecast) for at, rate in zip(ends, rates, strict=True))
    )


def problems(state: SourceState, profile: LoadProfile = PROFILE, now: float = MONDAY) -> tuple[str, ...]:
    return rejection_reasons(state, profile, now, SETTINGS)


def test_one_forecast_is_issued_per_quarter_hour_half_an_hour_ahead() -> None:
    state = passes(lambda _: 100.0, 16)

    assert state.issued == (PendingForecast(MONDAY + 1800, 100.0, 120.0), PendingForecast(MONDAY + 2700, 100.0, 120.0))


def test_forecast_is_scored_when_its_quarter_hour_is_over() -> None:
    before = passes(lambda _: 100.0, 45)

    after = passes(lambda minute: 130.0 if minute >= 30 else 100.0, 46)

    assert before.scores == ()
    assert after.scores == (ForecastScore(MONDAY + 1800, 130.0, 100.0, 120.0),)


def test_forecast_follows_the_last_hour() -> None:
    state = passes(lambda _: 110.0, 61)

    # Half an hour on, 10 % more than usual have faded to 7.8 %.
    assert state.issued[-1].f50 == pytest.approx(107.8, abs=0.02)


def test_quarter_hour_that_was_not_measured_is_not_scored() -> None:
    state = passes(lambda minute: None if 30 <= minute < 36 else 100.0, 61)

    assert [bucket.start for bucket in state.recent] == [MONDAY, MONDAY + 900, MONDAY + 2700]
    assert [score.at for score in state.scores] == [MONDAY + 2700]


def test_state_holds_a_day() -> None:
    state = passes(lambda _: 100.0, 2 * MINUTES_OF_A_DAY)

    assert len(state.scores) == 96
    assert len(state.recent) == 4
    assert len(state.issued) == 3
    assert len(json.dumps(forecast_document({"source": state}))) < 5000


def test_state_forgets_while_the_job_is_away() -> None:
    state = score_forecasts(passes(lambda _: 100.0, MINUTES_OF_A_DAY), MONDAY + 3 * 86_400, None)

    assert (state.scores, state.recent, state.issued) == ((), (), ())


def test_clock_that_was_set_back_leaves_nothing_from_the_future() -> None:
    state = score_forecasts(passes(lambda _: 100.0, 300), MONDAY, 100.0)

    assert (state.scores, state.recent) == ((), ())
    assert state.bucket == OpenBucket(MONDAY, 1, 1, 100.0)


def test_backtest_speaks_until_there_is_a_day_of_scores() -> None:
    bad = replace(PROFILE, wape=0.21, exceed=0.21)

    assert problems(SourceState()) == ()
    assert problems(scored([100.0] * 76), bad) == (
        "the error of the backtest is 21%, more than 20%",
        "in 21% of the backtest more arrived than the upper quantile, more than 20%",
    )
    assert problems(scored([100.0] * 77), bad) == ()


def test_without_backtest_a_day_has_to_pass_first() -> None:
    untested = replace(PROFILE, wape=None, exceed=None)

    assert len(problems(SourceState(), untested)) == 1
    assert problems(scored([100.0] * 77), untested) == ()


@pytest.mark.parametrize(
    ("wape", "is_trusted", "is_used"),
    [
        pytest.param(0.20, False, True, id="20 % suffice to begin"),
        pytest.param(0.21, False, False, id="21 % do not"),
        pytest.param(0.25, True, True, id="25 % suffice to go on"),
        pytest.param(0.26, True, False, id="26 % do not"),
    ],
)
def test_error_has_hysteresis(wape: float, is_trusted: bool, is_used: bool) -> None:
    state = SourceState(is_trusted=is_trusted)

    assert (not problems(state, replace(PROFILE, wape=wape))) is is_used


def test_error_of_the_last_day_is_weighted_by_what_arrived() -> None:
    # 19 of 96 quarter hours took 300 instead of 100: 3800 of 9600 + 3800.
    rates = [300.0] * 19 + [100.0] * 77

    assert problems(scored(rates)) == ("the error of the last 24 h is 28%, more than 20%",)


def test_bias_of_the_last_hour_counts_at_once() -> None:
    rates = [100.0] * 92 + [160.0] * 4

    assert problems(scored(rates)) == ("the last hour was 38% above what was forecast",)
    assert problems(scored([100.0] * 92 + [70.0] * 4)) == ("the last hour was 43% below what was forecast",)
    assert problems(scored([100.0] * 92 + [150.0] * 4)) == ()


def test_nothing_arriving_where_something_was_forecast_is_beyond_measure() -> None:
    assert problems(scored([0.0] * 96)) == (
        "the error of the last 24 h is beyond measure, more than 20%",
        "the last hour was beyond measure below what was forecast",
    )


@pytest.mark.parametrize(("hours", "is_used"), [(48, True), (49, False)])
def test_old_profile_is_not_used(hours: int, is_used: bool) -> None:
    assert (not problems(SourceState(), now=MONDAY + hours * 3600)) is is_used


@pytest.mark.parametrize(("missing", "is_used"), [(0.20, True), (0.21, False)])
def test_profile_of_a_week_with_holes_is_not_used(missing: float, is_used: bool) -> None:
    assert (not problems(SourceState(), replace(PROFILE, missing=missing))) is is_used


rates = st.floats(0, 1e6).map(lambda rate: round(rate, 3))
starts = st.integers(0, 10**6).map(lambda number: number * BUCKET)
states = st.builds(
    SourceState,
    is_trusted=st.booleans(),
    bucket=st.none() | st.builds(OpenBucket, starts, st.integers(0, 2**15 - 1), st.integers(0, 99), st.floats(0, 1e9)),
    recent=st.lists(st.builds(Bucket, starts, rates)).map(tuple),
    issued=st.lists(st.builds(PendingForecast, starts, rates, rates)).map(tuple),
    scores=st.lists(st.builds(ForecastScore, starts, rates, rates, rates)).map(tuple),
)


@given(st.dictionaries(st.text(), states, max_size=3))
def test_states_survive_as_json(states: dict[str, SourceState]) -> None:
    assert forecast_states(json.loads(json.dumps(forecast_document(states)))) == states


def test_what_is_read_again_is_not_written_again_and_travels_as_json() -> None:
    scores = tuple(ForecastScore(900 * number, 1.23456, 1.0, 2.0) for number in range(3))
    first = forecast_document({"source": SourceState(scores=scores)})
    read = forecast_states(first)

    second = forecast_document(read, first)

    assert second == first == json.loads(json.dumps(first)) == pickle.loads(pickle.dumps(first))
    assert second["source"]["scores"] is first["source"]["scores"]
    assert forecast_states(second) == forecast_states(json.loads(json.dumps(first)))
    assert [each.rate for each in read["source"].scores] == [1.235] * 3
    assert (
        forecast_document({"source": SourceState(scores=scores[:2])}, first)["source"]["scores"]
        == (first["source"]["scores"][:2])
    )


@pytest.mark.parametrize(
    "document",
    [
        {"source": None},
        {"source": []},
        {"source": {"trusted": True, "bucket": [1], "recent": [], "issued": [], "scores": []}},
        {"source": {"trusted": True, "bucket": None, "recent": [[1]], "issued": [], "scores": []}},
        {"source": {"trusted": True, "bucket": None, "recent": [["x", 1]], "issued": [], "scores": []}},
    ],
)
def test_document_that_is_something_else_is_refused(document: dict[str, object]) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - several texts
        forecast_states(document)
