from __future__ import annotations

import math
from dataclasses import replace

import pytest

from flink_autoscaler.core.model.events import Reason
from flink_autoscaler.core.policies.slo.acting import Acting, Moment
from flink_autoscaler.core.policies.slo.explained import (
    cost_reasons,
    forecast_reason,
    limited_reason,
    noise_reason,
    outcome_reason,
    price_reason,
    quiet_reason,
    size_reason,
)
from flink_autoscaler.core.policies.slo.lateness import LagTerms
from flink_autoscaler.core.policies.slo.model import Forecasts, Noise
from flink_autoscaler.core.policies.slo.price import Prices
from flink_autoscaler.core.policies.slo.programme.value import Cost, Valuation

MOMENT = Moment(at=600.0, slots=12, capacity=11.4, demand=10.0, lag=3.0, expected=10.1)
LIMIT = 60.0


def a_cost(slots: int, lag: float = 0.0) -> Cost:
    return Cost(
        slots, held=300.0 * slots, late=3600.0, rescale=510.0 * slots, future=36000.0, lag=lag, late_seconds=9.0
    )


def a_valuation(best: int, lag: float = 0.0) -> Valuation:
    return Valuation(
        best, 0.0, {12: replace(a_cost(12, lag), rescale=0.0), best: a_cost(best) if best != 12 else a_cost(12)}
    )


def figures(reason: Reason) -> dict[str, float]:
    return dict(reason.figures)


def test_the_size_is_said_with_its_head_room() -> None:
    reason = size_reason(MOMENT)

    assert reason.code == "SLO_SIZE"
    assert reason.text == "10 slots of work arrive, 12 slots can do 11.4: head-room 14 %, lag 3 s"
    assert figures(reason) == pytest.approx(
        {"demand": 10.0, "capacity": 11.4, "slots": 12.0, "headroom": 0.14, "lag": 3.0}
    )
    assert "lag unknown" in size_reason(replace(MOMENT, lag=None)).text


def test_noise_is_said_in_per_cent() -> None:
    reason = noise_reason(Noise(0.034, 0.49, 0.02), 0.0075)

    assert reason.code == "SLO_NOISE"
    assert "3.4 %" in reason.text
    assert "0.8 %" in reason.text


def test_forecasts_are_said_by_how_much_they_are_believed() -> None:
    paths = {"last": [10.0] * 96, "day": [10.0, 11.0, 12.0, 13.0, 14.0, 15.0] + [20.0] * 90, "ramp": [50.0] * 96}

    reason = forecast_reason(Forecasts(paths, {"last": 0.25, "day": 0.746, "ramp": 0.004}))

    assert reason.code == "SLO_FORECAST"
    assert "day (75 %) 10 / 15 / 20, last (25 %) 10 / 10 / 10" in reason.text
    assert "ramp" not in reason.text
    assert figures(reason)["day 2 h"] == 20.0
    assert figures(reason)["mixed 5 min"] == pytest.approx(0.25 * 10 + 0.746 * 10 + 0.004 * 50)


def test_costs_are_said_in_slot_hours() -> None:
    stays, goes = cost_reasons(a_valuation(10), 12)

    assert stays.code == goes.code == "SLO_COST"
    assert stays.text.startswith("12 slots (the job stays) in slot-hours: total 12")
    assert goes.text.startswith("10 slots, the cheapest (the job goes) in slot-hours: total 13.25")
    assert figures(goes)["rescale"] == pytest.approx(510 * 10 / 3600)


UP_ONCE = Acting().evaluated(MOMENT, 15)


def test_going_up_is_said_with_the_lag_of_both() -> None:
    once = outcome_reason(UP_ONCE, MOMENT, a_valuation(15, lag=240.0), 0.0, LIMIT)
    twice = outcome_reason(UP_ONCE.evaluated(MOMENT, 15), MOMENT, a_valuation(15, lag=240.0), 0.0, LIMIT)

    assert once.code == twice.code == "SLO_UP"
    assert once.text == (
        "to 15 slots after one more evaluation that says so: 240 s of lag are expected in 30 min if the job stays, "
        "0 s if it goes"
    )
    assert twice.text.startswith("to 15 slots now")


def test_waiting_to_go_down_is_said_with_what_is_lacking() -> None:
    acting = Acting(600.0, 12, 10, downs=2, regret=1200.0, recalled=10.0)

    reason = outcome_reason(acting, replace(MOMENT, lag=40.0), a_valuation(10), 4800.0, LIMIT)

    assert reason.code == "SLO_DOWN_WAITS"
    assert reason.text == (
        "10 slots would save 2; waiting has forgone 1200 of the 4800 slot-seconds that the rescale has to be worth: "
        "about 30 min more, one more evaluation that says so, the lag has to be below 30 s"
    )


def test_going_down_is_said() -> None:
    acting = Acting(600.0, 12, 10, downs=20, regret=5000.0, recalled=10.0)

    reason = outcome_reason(acting, MOMENT, a_valuation(10), 4800.0, LIMIT)

    assert reason.code == "SLO_DOWN"
    assert reason.text.endswith("the job goes down now")


def test_staying_is_said() -> None:
    assert outcome_reason(Acting(), MOMENT, a_valuation(12), 0.0, LIMIT).code == "SLO_STAYS"


def test_waiting_for_five_minutes_is_said_with_what_it_costs_to_go_now() -> None:
    """The present size alone looks dearer then than another one that is shown: it is not for good."""
    rival = replace(a_cost(15), late=0.0)
    valuation = replace(a_valuation(12), stay=9 * 3600.0, costs={12: a_cost(12), 15: rival}, rival=15)

    reason = outcome_reason(Acting(), MOMENT, valuation, 0.0, LIMIT)

    assert reason.code == "SLO_WAITS"
    assert reason.text == (
        "12 slots stay for now: to go in five minutes, to what is best by then, costs 9 slot-hours over the next "
        "hours, to go to 15 slots now 13.38"
    )
    assert not any("the cheapest" in each.text for each in cost_reasons(valuation, 12))


def test_prices_bounds_and_quiet_passes_are_said() -> None:
    price = price_reason(Prices(96.0, 513.0, 60.0, 0.5, 3), LagTerms(LIMIT, 50.0, 4.0))
    assert "outage of 50 s and 4 s that are read again, after 3 in 24 h" in price.text
    assert "half or less" not in price.text
    assert price.text.endswith("; before a scale-down 50 % of its price have to be forgone")
    small = price_reason(Prices(96.0, 513.0, 60.0, small_up=480.0, small_down=1e3), LagTerms(LIMIT, 50.0))
    assert "; a change by half or less costs 480 s more up and 1000 s more down; " in small.text
    limited = limited_reason(MOMENT, 8.0)
    assert limited.code == "SLO_LIMITED"
    assert "8 of 10 slots" in limited.text
    assert "in 180 s at the latest" in quiet_reason(Acting(480.0), MOMENT).text


def test_nothing_infinite_is_said() -> None:
    odd = Moment(at=0.0, slots=1, capacity=math.inf, demand=1e-3, lag=1e300, expected=1.0)

    reason = size_reason(odd)

    assert all(math.isfinite(each) for each in figures(reason).values())
