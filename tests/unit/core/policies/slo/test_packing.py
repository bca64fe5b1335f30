"""Numbers as text."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flink_autoscaler.core.policies.slo import packing

NUMBERS = st.lists(st.floats(packing.LEAST, packing.GREATEST), max_size=50)


@given(NUMBERS)
def test_short_numbers_come_back_within_a_quarter_of_a_per_cent(numbers: list[float]) -> None:
    text = "".join(map(packing.short, numbers))

    assert len(text) == packing.SHORT * len(numbers)
    assert packing.is_series(json.loads(json.dumps(text)))
    assert packing.shorts(text) == pytest.approx(numbers, rel=0.003)


@given(st.lists(st.floats(1e-11, 1e7), max_size=50))
def test_long_numbers_come_back_within_a_hundredth_of_a_per_cent(numbers: list[float]) -> None:
    text = packing.longs(numbers)

    assert len(text) == packing.LONG * len(numbers)
    assert packing.is_long_series(text)
    assert packing.from_longs(text) == pytest.approx(numbers, rel=1e-4)


@given(NUMBERS)
def test_packing_what_was_unpacked_changes_nothing(numbers: list[float]) -> None:
    text = "".join(map(packing.short, numbers))

    assert "".join(map(packing.short, packing.shorts(text))) == text


@given(st.floats() | st.none())
def test_any_number_can_be_packed(number: float | None) -> None:
    text = packing.short(number)

    assert packing.is_series(text, gaps=True)
    assert (packing.from_short(text) is None) == (number is None or not number > 0.0)


def test_long_zero_stays_zero() -> None:
    assert packing.from_longs(packing.longs([0.0, -1.0, float("nan")])) == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("text", [None, 5, "abc", "a+", "AA", "zzAAzz"])
def test_what_is_no_series_is_told(text: object) -> None:
    assert not packing.is_series(text)


def test_number_that_is_not_there_is_only_where_a_number_begins() -> None:
    assert packing.is_series("bAAb")


@given(st.lists(st.tuples(st.floats(packing.LEAST, packing.GREATEST), st.floats(-9.0, 9.0)), max_size=50))
def test_series_times_factors_is_that_of_the_products(pairs: list[tuple[float, float]]) -> None:
    text = "".join(packing.short(number) for number, _ in pairs)

    found = packing.scaled(text, [log for _, log in pairs])

    products = (number * math.exp(log) for number, log in pairs)
    assert packing.shorts(found) == pytest.approx(
        [min(max(each, packing.LEAST), packing.GREATEST) for each in products], rel=0.006
    )
