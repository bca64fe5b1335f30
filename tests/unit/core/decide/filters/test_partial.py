from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flink_autoscaler.core.decide.filters.partial import PartialCase


@pytest.mark.parametrize(
    ("slots_now", "wanted", "waited", "expected"),
    [
        pytest.param(1, 29, 0.0, 2, id="a small job: twice what it has"),
        pytest.param(7, 22, 0.0, 11, id="half of what is wanted is always enough"),
        pytest.param(7, 100, 0.0, 14, id="one that wants a lot: twice what it has"),
        pytest.param(7, 100, 30.0, 14, id="an outage later: still"),
        pytest.param(7, 100, 60.0, 7, id="two outages later: half of that"),
        pytest.param(7, 100, 420.0, 1, id="waiting has cost as much as the outage: any slot"),
        pytest.param(7, 1, 0.0, 1, id="never more than is wanted"),
    ],
)
def test_what_a_rescale_has_to_bring(slots_now: int, wanted: int, waited: float, expected: int) -> None:
    case = PartialCase(slots_now, brings=1, wanted=wanted, outage=30.0, waited=waited)

    assert case.has_to_bring(2.0) == expected


@given(
    slots_now=st.integers(1, 1000),
    wanted=st.integers(1, 1000),
    outage=st.floats(0.0, 3600.0),
    waited=st.floats(0.0, 7200.0),
    longer=st.floats(0.0, 7200.0),
)
def test_the_longer_it_waits_the_less_has_to_come(
    slots_now: int, wanted: int, outage: float, waited: float, longer: float
) -> None:
    early = PartialCase(slots_now, 1, wanted, outage, waited).has_to_bring(2.0)
    late = PartialCase(slots_now, 1, wanted, outage, waited + longer).has_to_bring(2.0)

    assert 1 <= late <= early <= wanted
