"""Forecasters: what each expects, how they are scored and blended, and what a need is."""

from __future__ import annotations

import math
import random
from itertools import pairwise

import pytest

from flink_autoscaler.core.policies.slo.constants import CONSTANTS
from flink_autoscaler.core.policies.slo.forecasters import (
    ANALOG,
    JUMP,
    LAST,
    MEAN,
    OF_DAY,
    TREND,
    Forecast,
    ForecastScores,
    forecast,
    forecast_courses,
    learn,
    like_errors,
)
from flink_autoscaler.core.policies.slo.load_history import DAY, HORIZON, LoadHistory, required_capacity

LIMIT = 60.0


def after(loads: list[float], limit: float = LIMIT) -> tuple[LoadHistory, ForecastScores]:
    """Return history and scores after loads of a minute each."""
    history, scores = LoadHistory(), ForecastScores()
    for load in loads:
        history, scores, completed = learn(history, scores, load, 1, limit)
        if completed and (found := forecast(history, scores)):
            scores = scores.with_forecasts(found.courses, found.blend)
    return history, scores


def expected(loads: list[float]) -> Forecast:
    found = forecast(*after(loads))
    assert found is not None
    return found


def of_day(minutes: int) -> list[float]:
    """Return a load that swings between 5 and 15 by the day."""
    return [10.0 + 5.0 * math.sin(2 * math.pi * minute / 1440) for minute in range(minutes)]


def test_history_keeps_minutes_and_means_of_five() -> None:
    history, _ = after([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0])

    assert history.minutes == (1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0)
    assert history.filling == 2
    assert [math.exp(log) for log in history.logs()] == [pytest.approx(3.0, rel=1e-3)]


def test_hole_is_filled_as_it_was_a_day_before() -> None:
    history, _ = after(of_day(1500))

    history, completed = history.after(20.0, 60)

    assert completed == 12
    assert history.minutes == (20.0,)
    assert history.since == 1.0
    assert math.exp(history.logs()[-1]) == pytest.approx(of_day(1560)[-1], rel=0.02)


@pytest.mark.parametrize(
    ("loads", "limit", "wanted"),
    [
        pytest.param([10.0] * 60, 60.0, 10.0, id="even load: as much as it"),
        pytest.param([10.0] * 59 + [20.0], 60.0, 31 / 3, id="burst of a minute that fits into the lag: the mean"),
        pytest.param([10.0] * 57 + [20.0] * 3, 60.0, 44 / 3, id="burst of three: what the lag does not take"),
        pytest.param([10.0] * 57 + [20.0] * 3, 300.0, 11.0, id="the same with a larger lag"),
    ],
)
def test_need_is_the_capacity_that_keeps_the_lag_acceptable(loads: list[float], limit: float, wanted: float) -> None:
    assert required_capacity(loads, limit) == pytest.approx(wanted, rel=1e-6)


def test_nothing_is_expected_of_what_was_never_seen() -> None:
    assert forecast_courses(LoadHistory()) == {}
    assert forecast(LoadHistory(), ForecastScores()) is None


def test_even_load_is_expected_to_stay_by_all() -> None:
    found = expected([10.0] * 2 * 1440)

    assert {LAST, TREND, MEAN, OF_DAY, ANALOG} == set(found.courses)
    assert all(each == pytest.approx(10.0, rel=5e-3) for course in found.courses.values() for each in course)
    assert sum(found.weights.values()) == pytest.approx(1.0)


def test_trend_goes_on_and_fades() -> None:
    course = expected([10.0 + minute / 10 for minute in range(120)]).courses[TREND]

    rises = [after - before for before, after in pairwise(course)]
    assert course[0] == pytest.approx(22.2, abs=0.1)
    assert rises[0] == pytest.approx(0.47, abs=0.02)
    assert rises == sorted(rises, reverse=True)
    assert course[-1] == pytest.approx(21.9 + 6.0, abs=0.1)


def test_day_is_repeated_at_the_level_of_today() -> None:
    loads = [*of_day(1440), *(1.2 * each for each in of_day(600))]

    course = expected(loads).courses[OF_DAY]

    wanted = [1.2 * each for each in of_day(1440)][600::5]
    assert course[: len(wanted)] == pytest.approx(wanted[:HORIZON], rel=0.03)


def test_forecaster_that_was_right_counts_for_most() -> None:
    weights = expected(of_day(3 * 1440)).weights

    assert weights[OF_DAY] + weights[ANALOG] > 0.75
    assert weights[MEAN] < 0.05


def test_errors_are_those_of_the_need_against_the_blend() -> None:
    chance = random.Random(1)
    _, scores = after([10.0 * math.exp(chance.gauss(0, 0.1)) for _ in range(1440)])

    errors = like_errors(scores.errors, math.log(10.0), 0)

    assert len(errors) == math.ceil(CONSTANTS.like * (DAY - 3))
    assert 0.0 < sum(errors) / len(errors) < 0.1
    assert max(errors) < 0.3


def test_bursts_that_have_ended_before_are_expected_to_end() -> None:
    quiet, burst = [10.0] * 120, [20.0] * 30

    first = expected([*quiet, *burst[:3]])
    again = expected([*(quiet + burst) * 4, *quiet, *burst[:3]])

    assert first.weights[JUMP] == 0.0
    assert first.blend[12] > 17.0
    assert again.courses[JUMP][3] == pytest.approx(20.0, rel=0.02)
    assert again.courses[JUMP][12] == pytest.approx(10.0, rel=0.05)
    assert again.blend[12] < 14.0


def test_load_that_jumped_for_good_is_expected_to_stay() -> None:
    steps = [10.0] * 120 + [14.0] * 120 + [20.0] * 120 + [28.0] * 3

    assert expected(steps).blend[12] > 25.0
