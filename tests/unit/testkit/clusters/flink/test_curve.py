"""The arrival curve in Python, which must be the one of the Java job."""

import pytest

from testkit.clusters.flink.curve import Curve

# Flat at 100, then up to 300 within 10 s, which then holds.
CURVE = Curve.parse("0:100,10:100,20:300")


@pytest.mark.parametrize(
    ("second", "expected"),
    [
        pytest.param(-1, 0, id="before the first point: nothing"),
        pytest.param(5, 100, id="flat"),
        pytest.param(15, 200, id="half way up"),
        pytest.param(1000, 300, id="last value holds"),
    ],
)
def test_rate_is_linear_between_points(second: float, expected: float) -> None:
    assert CURVE.rate(second) == expected


@pytest.mark.parametrize(
    ("second", "expected"),
    [
        pytest.param(-1, 0, id="before the first point: nothing"),
        pytest.param(10, 1000, id="flat"),
        pytest.param(15, 1000 + 750, id="half way up: (100 + 200) / 2 * 5"),
        pytest.param(20, 1000 + 2000, id="at the last point"),
        pytest.param(30, 1000 + 2000 + 3000, id="last value holds"),
    ],
)
def test_arrived_is_the_integral_of_the_rate(second: float, expected: float) -> None:
    assert CURVE.arrived(second) == expected
