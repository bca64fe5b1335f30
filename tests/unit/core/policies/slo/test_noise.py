"""Noise of the load, from second differences."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flink_autoscaler.core.policies.slo.model import Noise
from flink_autoscaler.core.policies.slo.noise import (
    DISTANCES,
    PRIOR,
    Differences,
    accumulated,
    growth,
    noise,
    prior,
)


def observed(values: list[float], least: int = 1, day_mean: float = 10.0) -> Differences:
    differences = Differences()
    for end in range(1, len(values) + 1):
        window = values[max(end - 90, 0) : end]
        differences = differences.after(window, known=len(window), least=least, day_mean=day_mean)
    return differences


def test_second_differences_of_lasting_noise_grow_with_their_distance() -> None:
    assert [round(growth(0.9, each), 4) for each in DISTANCES] == [0.42, 0.8322, 1.6121, 2.9269, 3.9001]


@pytest.mark.parametrize(
    ("deviation", "persistence", "expected"),
    [
        pytest.param(0.03, 0.9, 0.770, id="lasting, 3 %"),
        pytest.param(0.05, 0.9, 2.138, id="lasting, 5 %"),
        pytest.param(0.2, 0.0, 1.8, id="white, 20 %"),
    ],
)
def test_lasting_noise_accumulates_faster(deviation: float, persistence: float, expected: float) -> None:
    assert accumulated(deviation**2, persistence) == pytest.approx(expected, abs=6e-4)


def test_noise_is_moderate_before_anything_is_known() -> None:
    found = noise(Differences(), 0.0)

    assert found.s == pytest.approx(0.0348, abs=5e-5)
    assert found.v == pytest.approx(0.491, abs=5e-4)


def test_thousand_observations_of_lasting_noise_outweigh_what_was_assumed() -> None:
    sums = tuple(1000 * 0.05**2 * growth(0.9, each) + PRIOR * prior(each) for each in DISTANCES)

    found = noise(Differences(sums, (1000 + PRIOR,) * 5), 0.0)

    assert found.s == pytest.approx(0.0409, abs=5e-5)
    assert found.v == pytest.approx(0.928, abs=5e-4)


def test_steady_growth_is_no_noise() -> None:
    found = noise(observed([10.0 + 0.05 * minute for minute in range(3000)]), 0.0)

    assert found.s <= 0.0101
    assert found.v < 0.01


def test_curve_of_a_day_is_little_noise() -> None:
    values = [10.0 + 6.0 * math.sin(2.0 * math.pi * minute / 1440.0) for minute in range(2880)]

    assert noise(observed(values), 0.0).v < 0.01


@pytest.mark.parametrize("deviation", [0.05, 0.2])
def test_white_noise_is_found(deviation: float) -> None:
    dice = random.Random(7)

    found = noise(observed([10.0 * (1.0 + dice.gauss(0.0, deviation)) for _ in range(3000)]), 0.0)

    assert found.s == pytest.approx(deviation, rel=0.2)
    assert found.v == pytest.approx(45.0 * deviation**2, rel=0.6)


def test_jump_is_not_noise() -> None:
    differences = Differences()
    for known in range(1, 60):
        window = [10.0] * 30 + [20.0] * known
        differences = differences.after(window, known=known, least=1, day_mean=10.0)

    assert differences.sums[0] < PRIOR * prior(1)


def test_interval_of_many_minutes_says_nothing_about_shorter_ones() -> None:
    differences = observed([10.0, 12.0] * 20, least=4)

    assert differences.sums[:2] == Differences().sums[:2]
    assert differences.counts[2] > PRIOR


def test_errors_of_the_forecast_count_where_noise_does_not_explain_them() -> None:
    quiet = Differences((0.0,) * 5, (500.0,) * 5)

    assert noise(quiet, 0.0).s_p == 0.0
    assert noise(quiet, 0.0020).s_p == pytest.approx(math.sqrt(0.001 - 0.6e-4))
    assert noise(quiet, 0.0144).s_p == pytest.approx(0.08)


DEMANDS = st.floats(0.0, 1e6)


@given(st.lists(DEMANDS, max_size=90), st.integers(0, 90), st.integers(1, 20), DEMANDS)
def test_no_load_makes_noise_lose_its_senses(minutes: list[float], known: int, least: int, day_mean: float) -> None:
    found = noise(Differences().after(minutes, known=known, least=least, day_mean=day_mean), 1e6)

    assert found == Noise(min(found.s, 0.4), max(found.v, 0.0), min(found.s_p, 0.08))


@given(st.lists(st.floats(0.0, 1.0), min_size=5, max_size=5))
def test_any_mean_squares_can_be_fitted(sums: list[float]) -> None:
    found = noise(Differences(tuple(sums), (1.0,) * 5), 0.0)

    assert 0.01 <= found.s <= 0.4
    assert 0.0 <= found.v < math.inf
