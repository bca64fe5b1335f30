import math
from decimal import ROUND_HALF_UP, Context, Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flink_autoscaler.core.model import numbers


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param(0.0004, 0.0004, id="a tiny value is not rounded to zero"),
        pytest.param(0.0005, 0.001, id="half goes up"),
        pytest.param(-0.0006, -0.001, id="away from zero"),
        pytest.param(1.0005, 1.001, id="by the decimal text, not the binary value"),
        pytest.param(2.6755, 2.676, id="by the decimal text again"),
        pytest.param(1234.56789, 1234.568, id="plain"),
        pytest.param(math.inf, math.inf, id="infinity stays"),
        pytest.param(-math.inf, -math.inf, id="negative infinity stays"),
        pytest.param(0.0, 0.0, id="zero"),
    ],
)
def test_r3_rounds_to_three_decimals(value: float, expected: float) -> None:
    assert numbers.r3(value) == expected


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_r3_fast_path_agrees_with_the_decimal_text(value: float) -> None:
    text = float(Decimal(repr(value)).quantize(Decimal("0.001"), ROUND_HALF_UP, Context(prec=400)))

    assert numbers.r3(value) == (text if text != 0 else value)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param(2.5, 3.0, id="tie upward"),
        pytest.param(-2.5, -2.0, id="negative tie upward"),
        pytest.param(0.49999999999999994, 0.0, id="no double rounding"),
        pytest.param(1515.5, 1516.0, id="plain"),
        pytest.param(math.nan, 0.0, id="NaN is zero"),
        pytest.param(math.inf, 9.223372036854775807e18, id="infinity saturates"),
    ],
)
def test_round64_rounds_ties_upward(value: float, expected: float) -> None:
    assert numbers.round64(value) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0.125, "0.13"),
        (1.005, "1.01"),
        (2.345, "2.35"),
        (math.inf, "Infinity"),
        (math.nan, "NaN"),
        (500.005, "500.01"),
        (1e306, f"1{'0' * 306}.00"),
    ],
)
def test_two_decimals_rounds_half_up_on_the_decimal_text(value: float, expected: str) -> None:
    assert numbers.two_decimals(value) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [(500.0, "500.0"), (0.51, "0.51"), (1.2e9, "1.2E9"), (1e7, "1.0E7"), (0.0005, "5.0E-4"), (-0.001, "-0.001")],
)
def test_plain_prints_the_shortest_text(value: float, expected: str) -> None:
    assert numbers.plain(value) == expected


@pytest.mark.parametrize(
    ("numerator", "denominator", "expected"), [(1.0, 0.0, math.inf), (-1.0, 0.0, -math.inf), (6.0, 3.0, 2.0)]
)
def test_divide_never_raises(numerator: float, denominator: float, expected: float) -> None:
    assert numbers.divide(numerator, denominator) == expected


def test_divide_zero_by_zero_is_unknown() -> None:
    assert math.isnan(numbers.divide(0.0, 0.0))


@pytest.mark.parametrize(
    ("value", "expected"), [(math.nan, 0), (1e300, 2**31 - 1), (-1e300, -(2**31)), (2.9, 2), (-2.9, -2)]
)
def test_trunc32_cuts_toward_zero_and_saturates(value: float, expected: int) -> None:
    assert numbers.trunc32(value) == expected


@pytest.mark.parametrize(("value", "decimals", "expected"), [(0.0002, 3, 0.001), (0.825, 2, 0.83), (0.8, 2, 0.8)])
def test_ceil_decimals_rounds_up(value: float, decimals: int, expected: float) -> None:
    assert numbers.ceil_decimals(value, decimals) == expected
