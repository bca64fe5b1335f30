"""What leaks is blamed, and what is bounded is not."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from testkit.scenarios.soak.growth import Tolerance, judged, slope

SMALL = Tolerance(0.02, 1.0)
ROUNDS = 10

Values = Callable[[int, random.Random], float]


def noisy(value: Callable[[int], float], noise: float = 0.5) -> Values:
    return lambda number, chance: value(number) + chance.gauss(0.0, noise)


@pytest.mark.parametrize(
    "values",
    [
        pytest.param(noisy(lambda number: 120.0 + number), id="a megabyte more in every round"),
        pytest.param(lambda number, _: 30.0 + number, id="a descriptor more in every round"),
        pytest.param(lambda number, _: 30.0 + number // 2 * 2, id="two more in every second round"),
        pytest.param(noisy(lambda number: 500.0 * 1.05**number, 5.0), id="some more every time"),
        pytest.param(lambda number, chance: 120.0 + number + (60.0 if number == 4 else 0.0), id="with an outlier"),
    ],
)
def test_what_leaks_grows(values: Values) -> None:
    for seed in range(50):
        chance = random.Random(seed)

        growth = judged([values(number, chance) for number in range(ROUNDS)], SMALL)

        assert growth.grows


@pytest.mark.parametrize(
    "values",
    [
        pytest.param(lambda number, _: 40.0, id="always the same"),
        pytest.param(noisy(lambda number: 120.0, 2.0), id="up and down by chance"),
        pytest.param(noisy(lambda number: 1000.0 + 300.0 * (number % 3), 5.0), id="filled and emptied again"),
        pytest.param(noisy(lambda number: 120.0 + 8.0 * (number >= 5)), id="one step"),
        pytest.param(noisy(lambda number: 130.0 - 20.0 * 0.3**number, 0.2), id="on the way to its bound"),
        pytest.param(lambda number, _: 120.0 + 0.05 * number, id="by less than is told apart"),
        pytest.param(noisy(lambda number: 200.0 - number), id="less and less"),
        pytest.param(noisy(lambda number: 120.0 + 90.0 * (number in (8, 9))), id="more in the last two rounds"),
    ],
)
def test_what_is_bounded_does_not_grow(values: Values) -> None:
    for seed in range(50):
        chance = random.Random(seed)

        growth = judged([values(number, chance) for number in range(ROUNDS)], SMALL)

        assert not growth.grows


def test_slope_of_a_line_is_that_of_the_line() -> None:
    found = slope([5.0 + 3.0 * number for number in range(ROUNDS)])

    assert (found.low, found.middle, found.high) == (3.0, 3.0, 3.0)


def test_interval_has_the_slope_that_there_is_as_often_as_it_says() -> None:
    chance, hits = random.Random(7), 0
    for _ in range(1000):
        found = slope([0.7 * number + chance.gauss(0.0, 3.0) for number in range(ROUNDS)])
        hits += found.low <= 0.7 <= found.high

    assert hits >= 980


def test_few_rounds_tell_nothing() -> None:
    with pytest.raises(ValueError, match="too few"):
        slope([1.0, 2.0, 3.0, 4.0])
