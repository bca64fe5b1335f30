"""The planner: what sizes cost, and when a rescale pays."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from flink_autoscaler.core.policies.slo.constants import CONSTANTS
from flink_autoscaler.core.policies.slo.forecasters import LAST, OF_DAY, Forecast
from flink_autoscaler.core.policies.slo.load_history import HORIZON
from flink_autoscaler.core.policies.slo.planner import ActionSet, Planner, SwitchingCosts, shortage_table, stage_loads

COSTS = SwitchingCosts(up=3600.0, down=3600.0, late=300.0, short=10.0, outage=60.0, replay=5.0, limit=60.0)
SIZES = [(slots, float(slots)) for slots in range(5, 41)]
EVEN = Forecast({LAST: [10.0] * HORIZON}, {LAST: 1.0}, [10.0] * HORIZON)
TEN = round(10.0 * math.log(10.0)) + 128


def errors(error: float) -> bytes:
    """Return a hundred errors of loads of ten: ten of one size, the rest none."""
    root = round(127.0 * math.sqrt(error / 4.0)) + 128
    return bytes([TEN, 128, 128] * 90 + [TEN, root, root] * 10)


ERRORS = errors(0.1)
"""One need of ten is a tenth above what was expected."""


def planned(
    slots: int,
    forecast: Forecast = EVEN,
    *,
    quantile: float = 0.95,
    costs: SwitchingCosts = COSTS,
    late: dict[int, float] | None = None,
    is_late: bool = False,
) -> int:
    """Return the slots to go to from some; ``late`` seconds are those of the first half hour, by slots."""
    actions = ActionSet.of(SIZES, (slots, float(slots)))
    planner = Planner(actions, ERRORS, replace(costs, short=costs.short / (1.0 - quantile)))
    first = [(late or {}).get(each, 0.0) for each in actions.slots]
    return actions.slots[planner.best(planner.costs(forecast, first), is_late=is_late)]


LEVEL = round(math.log(10.0) / 0.3)
ONE = 50
"""Place of a capacity that is what was expected."""


def test_shortage_falls_with_capacity_to_nothing() -> None:
    table = shortage_table(ERRORS, 0, LEVEL)

    assert list(table) == sorted(table, reverse=True)
    # A tenth of the time a tenth is missing; of the errors the third counts that is the newest of those that are alike.
    assert table[ONE] == pytest.approx(10 / 34 * 0.105, rel=0.05)
    assert table[ONE + 6] == 0.0
    assert table[0] > 0.5


def test_error_that_a_rescale_ends_counts_no_more_than_its_lateness() -> None:
    assert shortage_table(errors(1.0), 0, LEVEL)[ONE] == pytest.approx(10 / 34 * CONSTANTS.max_shortage)


def test_errors_made_at_another_load_say_little() -> None:
    elsewhere = bytes([TEN, 128, 128] * 90 + [TEN + 20, 200, 200] * 40)

    assert shortage_table(elsewhere, 1, LEVEL)[ONE] == 0.0
    assert shortage_table(elsewhere, 1, LEVEL + 7)[ONE] > 0.1


def test_new_job_has_errors_assumed() -> None:
    table = shortage_table(b"", 0, LEVEL)

    assert table[ONE] > table[ONE + 5] > 0.0


def test_outage_within_the_acceptable_lag_makes_nothing_late() -> None:
    assert replace(COSTS, outage=50.0).late_after(0.1) == 0.0
    assert COSTS.late_after(3.5) == pytest.approx(5 * (1 + 1 / 3.5))
    assert COSTS.late_after(-0.5) == pytest.approx(5 * 51)


def test_stages_have_the_greatest_load_within_them() -> None:
    loads = stage_loads([float(place) for place in range(HORIZON)])

    assert loads[:4] == [1.0, 2.0, 4.0, 6.0]
    assert loads[-1] == HORIZON - 1


def test_size_that_keeps_pace_is_kept() -> None:
    assert planned(11) == 11


def test_size_that_is_far_too_large_is_left() -> None:
    assert planned(30) in {10, 11, 12}


def test_caution_asks_for_more() -> None:
    assert planned(30, quantile=0.99) >= planned(30, quantile=0.8)


def test_small_steps_are_made_by_late_jobs_alone() -> None:
    assert planned(12) == 12
    assert planned(9, late={9: 1500.0}, is_late=True) in {10, 11}


def test_load_that_is_foreseen_is_met_before_it_comes() -> None:
    course = [10.0] + [30.0] * (HORIZON - 1)

    assert planned(11, Forecast({OF_DAY: course}, {OF_DAY: 1.0}, course)) >= 30


def test_rise_for_which_there_is_time_is_waited_for() -> None:
    course = [10.0] * 36 + [30.0] * (HORIZON - 36)

    assert planned(11, Forecast({OF_DAY: course}, {OF_DAY: 1.0}, course)) == 11


def test_short_dip_is_not_worth_two_rescales() -> None:
    course = [10.0] * 3 + [30.0] * (HORIZON - 3)

    assert planned(33, Forecast({OF_DAY: course}, {OF_DAY: 1.0}, course)) == 33


def test_dear_rescale_is_put_off() -> None:
    assert planned(14, costs=replace(COSTS, down=1e6)) == 14


def test_first_step_is_chosen_for_all_scenarios_together() -> None:
    low, high = [10.0] * HORIZON, [30.0] * HORIZON
    both = {LAST: low, OF_DAY: high}

    assert planned(33, Forecast(both, {LAST: 0.05, OF_DAY: 0.95}, high)) == 33
    assert planned(33, Forecast(both, {LAST: 0.95, OF_DAY: 0.05}, low)) < 33


def test_sizes_are_thinned_to_those_that_can_be_compared() -> None:
    actions = ActionSet.of([(slots, float(slots)) for slots in range(1, 500)], (77, 76.5))

    assert len(actions.slots) <= CONSTANTS.max_sizes + 1
    assert actions.slots[actions.present] == 77
    assert actions.capacities[actions.present] == 76.5
    assert actions.slots[0] == 1
