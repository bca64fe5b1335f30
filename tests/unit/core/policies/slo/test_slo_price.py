import pytest

from flink_autoscaler.core.options.policies import SloOptions
from flink_autoscaler.core.policies.slo.budget import Budget
from flink_autoscaler.core.policies.slo.lateness import LagTerms
from flink_autoscaler.core.policies.slo.price import (
    Prices,
    downs_of_a_day,
    mean_slots,
    rescales_of_the_day,
    scarcity,
)

TERMS = LagTerms(60.0, 60.0, 5.0)
DAY = 86400.0


def test_lateness_is_priced_by_the_mean_size() -> None:
    prices = Prices.of(SloOptions({}), 20.0, [10.0] * 96, 0)

    assert prices.late == 32 * 20.0


def test_lateness_of_a_small_job_is_priced_by_what_it_is_about_to_need() -> None:
    prices = Prices.of(SloOptions({}), 1.0, [50.0] * 24 + [900.0] * 72, 0)

    assert prices.late == pytest.approx(32 * 0.6 * 50.0)


@pytest.mark.parametrize(("recent", "seconds"), [(0, 900.0), (4, 1125.0), (8, 1800.0), (16, 4500.0)])
def test_each_rescale_of_the_day_makes_the_next_dearer(recent: int, seconds: float) -> None:
    prices = Prices.of(SloOptions({}), 20.0, [10.0] * 96, recent)

    assert prices.change(20, TERMS) == 20 * (seconds + 60.0)
    assert prices.change(20, TERMS, is_up=True) == 20 * (300.0 + 60.0)


def test_a_rescale_of_a_job_that_is_nearly_idle_costs_as_one_of_half_its_mean_size() -> None:
    prices = Prices.of(SloOptions({}), 20.0, [10.0] * 96, 0)

    assert prices.change(2, TERMS) == 900.0 * 10 + 60.0 * 2
    assert prices.change(2, TERMS, is_up=True) == 300.0 * 10 + 60.0 * 2
    assert prices.change(15, TERMS) == 960.0 * 15


@pytest.mark.parametrize(
    ("weight", "recent", "up", "down"),
    [
        pytest.param("1", 0, 2880.0, 0.0, id="nothing was rescaled: a surplus goes at the usual price"),
        pytest.param("1", 2, 2880.0, 3.125 * 956.25, id="a quarter of the rescales that double the price"),
        pytest.param("1", 3, 2880.0, 3600.0, id="an hour of the job at most"),
        pytest.param("1", 8, 2880.0, 3600.0, id="all of them"),
        pytest.param("0.5", 2, 1440.0, 1.5625 * 956.25, id="half as much"),
        pytest.param("0", 8, 0.0, 0.0, id="switched off"),
    ],
)
def test_changes_by_less_than_half_cost_more(weight: str, recent: int, up: float, down: float) -> None:
    options = SloOptions({"job.autoscaler.slo.small-rescales": weight})
    prices = Prices.of(options, 20.0, [10.0] * 96, recent)

    assert prices.small(20, is_up=True) == pytest.approx(20 * up)
    assert prices.small(20) == pytest.approx(20 * down)
    assert prices.small(2) == pytest.approx(10 * down), "of half the mean size at least"


def test_a_job_that_has_used_its_budget_pays_less_for_a_small_scale_up() -> None:
    used = Budget(0.0, 3600.0, 86400.0, 0.0)

    prices = Prices.of(SloOptions({}), 20.0, [10.0] * 96, 8, used)

    assert prices.urgency == 4.0
    assert prices.small(20, is_up=True) == pytest.approx(20 * 2880.0 / 16)
    assert prices.small(20) == pytest.approx(20 * 3600.0)


@pytest.mark.parametrize(
    ("recent", "budget", "times"),
    [
        pytest.param(0, 24, 1.0, id="none was used"),
        pytest.param(9, 24, 4 / 3, id="half of the 18"),
        pytest.param(17, 24, 324 / 35, id="one is left"),
        pytest.param(18, 24, 10.0, id="all of them"),
        pytest.param(30, 24, 10.0, id="more than these"),
        pytest.param(30, 0, 1.0, id="there is no budget"),
        pytest.param(1, 1, 10.0, id="a budget of one"),
    ],
)
def test_the_last_rescales_of_a_day_are_dear(recent: int, budget: int, times: float) -> None:
    assert scarcity(recent, downs_of_a_day(budget)) == pytest.approx(times)
    prices = Prices.of(SloOptions({}), 20.0, [10.0] * 96, recent, allowed=downs_of_a_day(budget))
    assert prices.rescale == pytest.approx(900.0 * (1 + (recent / 8) ** 2) * times)


def test_options_set_the_prices() -> None:
    set_to = {
        "late-weight": "2",
        "rescale-price": "100 s",
        "rescale-price-up": "10 s",
        "patience": "1",
        "small-rescales": "2",
    }
    options = SloOptions({f"job.autoscaler.slo.{key}": value for key, value in set_to.items()})

    assert Prices.of(options, 20.0, [10.0] * 96, 0) == Prices(40.0, 100.0, 10.0, 1.0, 0, least=10.0, small_up=192.0)


@pytest.mark.parametrize(
    ("slots", "late", "headroom", "price"),
    [
        pytest.param(15, 160.0, 0.5, 5025.0, id="510 x 15 + 160 x 15, half of it"),
        pytest.param(10, 80.0, 0.1, 4750.0, id="5100 + 80 x 55, half of it"),
        pytest.param(10, 80.0, -0.5, 0.5 * (5100 + 80 * 255), id="no head-room counts as 2 %"),
    ],
)
def test_a_scale_down_has_a_price(slots: int, late: float, headroom: float, price: float) -> None:
    assert Prices(late, 450.0, 60.0, 0.5).scale_down(slots, headroom, TERMS) == pytest.approx(price)


def test_only_rescales_of_the_last_day_count() -> None:
    assert rescales_of_the_day([0.0, 10.0, DAY, DAY + 5.0, DAY + 90.0], DAY + 10.0) == 2


def test_the_mean_size_begins_with_the_present_one_and_follows_it_over_days() -> None:
    assert mean_slots(None, 12, 0.0) == 12.0
    assert mean_slots(20.0, 10, 5 * DAY / 10) == 19.0
    assert mean_slots(20.0, 10, 50 * DAY) == 10.0
    assert mean_slots(float("nan"), 10, 60.0) == 10.0
