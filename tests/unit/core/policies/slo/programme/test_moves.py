from __future__ import annotations

import pytest

from flink_autoscaler.core.policies.slo.lateness import LagTerms
from flink_autoscaler.core.policies.slo.price import Prices
from flink_autoscaler.core.policies.slo.programme.choices import Choices
from flink_autoscaler.core.policies.slo.programme.moves import Moves

TERMS = LagTerms(limit=60.0, outage=60.0)
SLOTS = (7, 8, 11, 12, 18, 19, 24)


@pytest.mark.parametrize(
    ("slots", "price"),
    [
        pytest.param(12, 0.0, id="stays"),
        pytest.param(18, 18 * (360.0 + 2400.0), id="half more is small"),
        pytest.param(19, 19 * 360.0, id="three fifths more is not"),
        pytest.param(24, 24 * 360.0, id="twice is not"),
        pytest.param(11, 11 * (960.0 + 5000.0), id="one less is small"),
        pytest.param(8, 8 * (960.0 + 5000.0), id="from half more is small"),
        pytest.param(7, 7 * 960.0, id="from seven tenths more is not"),
    ],
)
def test_a_change_by_half_or_less_costs_more_than_a_large_one(slots: int, price: float) -> None:
    prices = Prices(320.0, 900.0, 300.0, small_up=2400.0, small_down=5000.0)
    moves = Moves(Choices(SLOTS, tuple(map(float, SLOTS)), SLOTS.index(12)), TERMS, prices)

    assert moves.price(SLOTS.index(slots)) == pytest.approx(price)


def test_one_size_has_nowhere_to_go() -> None:
    moves = Moves(Choices((4,), (4.0,), 0), TERMS, Prices(320.0, 900.0, 300.0, small_up=2400.0))

    assert moves.either_way([1.0], [2.0], [3.0], [10.0]) == [11.0]
    assert moves.upwards([1.0], [2.0], [10.0]) == [11.0]
