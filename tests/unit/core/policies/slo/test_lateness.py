import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flink_autoscaler.core.policies.slo.lateness import (
    Change,
    LagTerms,
    Spread,
    fluid,
    late_share,
    rescale_lateness,
    transition,
)
from flink_autoscaler.core.policies.slo.model import Noise

HOUR = 12
CORRELATED_3, CORRELATED_5, WHITE_20 = Spread(0.03, 0.770, 0.0), Spread(0.05, 2.138, 0.0), Spread(0.2, 1.8, 0.0)


@pytest.mark.parametrize(
    ("spread", "headroom", "share"),
    [
        pytest.param(CORRELATED_3, 0.0, 0.5, id="noise of 3 %, no head-room: late half of the time"),
        pytest.param(CORRELATED_3, 0.05, 0.00211, id="noise of 3 %, 5 %"),
        pytest.param(CORRELATED_3, 0.10, 8.4e-7, id="noise of 3 %, 10 %"),
        pytest.param(CORRELATED_5, 0.05, 0.0516, id="noise of 5 %, 5 %"),
        pytest.param(CORRELATED_5, 0.10, 0.00241, id="noise of 5 %, 10 %"),
        pytest.param(CORRELATED_5, 0.15, 4.65e-5, id="noise of 5 %, 15 %"),
        pytest.param(WHITE_20, 0.10, 0.0214, id="white noise of 20 %, 10 %: the lag absorbs most of it"),
        pytest.param(WHITE_20, 0.20, 7.66e-4, id="white noise of 20 %, 20 %"),
        pytest.param(Spread(0.05, 2.138, 0.02), 0.10, 0.00531, id="a capacity that is known within 2 %"),
    ],
)
def test_late_share_follows_head_room_and_noise(spread: Spread, headroom: float, share: float) -> None:
    assert late_share(headroom, spread, 60.0) == pytest.approx(share, rel=0.01)


@pytest.mark.parametrize("spread", [CORRELATED_3, WHITE_20, Spread(0.05, 2.138, 0.08)])
def test_transition_is_where_the_share_changes(spread: Spread) -> None:
    low, high = transition(spread, 60.0)

    assert late_share(low, spread, 60.0) == pytest.approx(1.0, abs=1e-7)
    assert late_share(high, spread, 60.0) < 1e-7


def test_a_spread_is_wider_for_capacities_and_forecasts_that_are_less_known() -> None:
    assert Spread.of(Noise(0.05, 2.0, 0.04), 0.03).sigma == pytest.approx(0.05)


@pytest.mark.parametrize(
    ("behind", "headroom", "seconds"),
    [
        pytest.param(65.0, 0.1, 269.0, id="more than the limit: the outage drains, then noise"),
        pytest.param(65.0, 0.2, 83.5, id="twice the head-room"),
        pytest.param(15.0, 0.1, 26.1, id="less than the limit: noise alone"),
        pytest.param(185.0, 0.1, 1589.0, id="a long outage"),
        pytest.param(1000.0, 0.02, 3600.0, id="an hour at most"),
    ],
)
def test_a_rescale_costs_late_seconds(behind: float, headroom: float, seconds: float) -> None:
    terms = LagTerms(60.0, behind - 5.0, 5.0)

    assert rescale_lateness(headroom, 2.14, terms) == pytest.approx(seconds, rel=0.005)


TERMS = LagTerms(limit=60.0, outage=60.0, replay=5.0)


@pytest.mark.parametrize(
    ("backlog", "capacity", "change", "late", "lag"),
    [
        pytest.param(0.0, 12.0, None, 0.0, 0.0, id="enough: never late"),
        # 1200 s of demand wait: 1140 s x 10 above the limit go at 2 a second.
        pytest.param(2000.0, 12.0, None, 700.0, 0.0, id="a backlog of 200 s drains"),
        # After 65 s behind: 5 s above it, at 1 per 10.
        pytest.param(0.0, 10.0, Change(11.0), 5.0 + 50.0, 0.0, id="a rescale to a bit more than enough"),
        pytest.param(0.0, 12.0, Change(20.0, 300.0), 5.0 + 5.0, 0.0, id="a rescale in five minutes"),
        # Lag grows by a second in ten, and is above 60 s from 600 s on; the rest at the end.
        pytest.param(0.0, 9.0, None, 1200.0 + 120.0 / 0.01 * (1 + 10 / 9), 180.0, id="too small for ever"),
    ],
)
def test_fluid_counts_late_seconds(
    backlog: float, capacity: float, change: Change | None, late: float, lag: float
) -> None:
    seconds, left = fluid([10.0] * HOUR, backlog, capacity, TERMS, change)

    assert seconds == pytest.approx(late)
    assert left == pytest.approx(lag, abs=1e-6)


def test_fluid_sees_demand_that_comes_later() -> None:
    rising = [10.0, 10.0, 14.0, 10.0, 10.0, 10.0, 10.0]

    # At 900 s 600 slot-seconds wait, 43 s of 14 and just 60 s of 10.
    assert fluid(rising, 0.0, 12.0, TERMS)[0] == 0.0
    # 900 wait: more than 840 in the last 20 s under 14, then above 600 until they have gone at 1 a second.
    assert fluid(rising, 0.0, 11.0, TERMS)[0] == pytest.approx(20.0 + 300.0)


@given(
    path=st.lists(st.floats(1e-3, 1e6), min_size=1, max_size=12),
    backlog=st.floats(0.0, 1e12),
    capacity=st.floats(0.0, 1e6),
    after=st.sampled_from([None, 0.0, 300.0]),
    outage=st.floats(0.0, 7200.0),
)
def test_fluid_is_finite_and_not_negative(
    path: list[float], backlog: float, capacity: float, after: float | None, outage: float
) -> None:
    change = None if after is None else Change(2.0 * capacity, after)

    late, lag = fluid(path, backlog, capacity, LagTerms(60.0, outage, 5.0), change)

    assert math.isfinite(late)
    assert math.isfinite(lag)
    assert min(late, lag) >= 0.0
