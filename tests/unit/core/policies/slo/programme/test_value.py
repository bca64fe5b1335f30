from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flink_autoscaler.core.policies.slo.lateness import LagTerms, Spread, late_share, rescale_lateness
from flink_autoscaler.core.policies.slo.model import HORIZON, Forecasts, Level, Levels
from flink_autoscaler.core.policies.slo.price import Prices
from flink_autoscaler.core.policies.slo.programme.choices import COMMIT, Choices, courses, stages
from flink_autoscaler.core.policies.slo.programme.grid import NOISE_COUNTS, CostGrid, grid_step
from flink_autoscaler.core.policies.slo.programme.moves import SMALL
from flink_autoscaler.core.policies.slo.programme.value import Outlook, valued, values

TERMS = LagTerms(limit=60.0, outage=60.0, replay=5.0)
SPREAD = Spread(0.04, 0.9, 0.02)
PRICES = Prices(320.0, 900.0, 300.0)


def levels(most: int, each: float = 1.0) -> Levels:
    return Levels(tuple(range(1, most + 1)), tuple(each * slots for slots in range(1, most + 1)))


def one(path: Sequence[float]) -> Forecasts:
    return Forecasts({"last": path}, {"last": 1.0})


def a_wave(base: float, swing: float, phase: float = 0.0) -> list[float]:
    return [base * (1.0 + swing * math.sin(2 * math.pi * (bucket + phase) / HORIZON)) for bucket in range(HORIZON)]


def an_outlook(path: Sequence[float], slots: int, backlog: float = 0.0) -> Outlook:
    return Outlook(levels(80), Level(slots, float(slots), {}), one(path), SPREAD, TERMS, PRICES, backlog)


def exact(path: Sequence[float], capacities: Sequence[float], slots: Sequence[int], prices: Prices) -> list[float]:
    """Work the programme out as it is written, without a grid and over all pairs of sizes."""
    demands = list(stages(path))
    value = [8 * 3600.0 * (k + PRICES.late * _late(c, demands[-1])) for k, c in zip(slots, capacities, strict=True)]
    for stage in range(len(demands) - 1, 0, -1):
        seconds, x = (300.0 if stage < COMMIT else 900.0), demands[stage]
        held = [seconds * (k + PRICES.late * _late(c, x)) for k, c in zip(slots, capacities, strict=True)]
        late = [PRICES.late * rescale_lateness(c / x - 1, SPREAD.v, TERMS) for c in capacities]
        up, down = ([price * k + each for k, each in zip(slots, late, strict=True)] for price in (360.0, 960.0))
        more_up, more_down = ([price * k for k in slots] for price in (prices.small_up, prices.small_down))
        stay = [now + later for now, later in zip(held, value, strict=True)]
        value = [
            min(
                stay[k],
                *(
                    stay[other] + up[other] + more_up[other] * (slots[other] < SMALL * slots[k])
                    for other in range(k + 1, len(slots))
                ),
                *(
                    stay[other] + down[other] + more_down[other] * (slots[other] * SMALL > slots[k])
                    for other in range(k)
                    if stage >= COMMIT
                ),
                stay[k],
            )
            for k in range(len(slots))
        ]
    return value


def _late(capacity: float, demand: float) -> float:
    overload = min(max(demand / capacity - 1.0, 0.0), 1.0)
    return NOISE_COUNTS * late_share(capacity / demand - 1.0, SPREAD, TERMS.limit) + 6.0 * overload


@pytest.mark.parametrize(
    "path",
    [
        pytest.param([10.0] * HORIZON, id="flat"),
        pytest.param(a_wave(14.0, 0.5), id="a wave that rises first"),
        pytest.param(a_wave(14.0, 0.5, 48.0), id="a wave that falls first"),
        pytest.param([8.0] * 30 + [20.0] * 66, id="a step"),
    ],
)
@pytest.mark.parametrize(
    "prices",
    [
        pytest.param(PRICES, id="one price"),
        pytest.param(replace(PRICES, small_up=2400.0), id="small changes up are dearer"),
        pytest.param(replace(PRICES, small_up=2400.0, small_down=6750.0), id="all small changes are dearer"),
    ],
)
def test_values_are_those_of_the_exact_programme(path: list[float], prices: Prices) -> None:
    choices = Choices.of(levels(80), Level(16, 16.0, {}), one(path))
    (course,) = courses(one(path), grid_step(SPREAD))
    grid = CostGrid(choices, [course], SPREAD, TERMS, prices)

    found = values(course, grid)[::-1]

    wanted = exact(path, choices.capacities, choices.slots, prices)
    for slots, here, there in zip(choices.slots, found, wanted, strict=True):
        assert here == pytest.approx(there, rel=0.02), slots


def test_stages_are_an_hour_of_buckets_and_then_quarters_by_their_greatest() -> None:
    demand = list(stages([float(bucket) for bucket in range(HORIZON)]))

    assert demand[:13] == [*range(12), 14]
    assert len(demand) == 40
    assert demand[-1] == 95


@pytest.mark.parametrize(
    ("urgency", "counts"),
    [
        pytest.param(1.0, 0.25, id="a quarter within the error budget"),
        pytest.param(2.0, 0.5, id="half where four fifths of it are used"),
        pytest.param(4.0, 1.0, id="whole where it is used up"),
    ],
)
def test_time_that_noise_makes_late_counts_as_the_error_budget_is_used(urgency: float, counts: float) -> None:
    path = one([10.0] * HORIZON)
    choices = Choices.of(levels(80), Level(10, 10.0, {}), path)
    (course,) = courses(path, grid_step(SPREAD))

    prices = replace(PRICES, urgency=urgency)
    shares = CostGrid(choices, [course], SPREAD, TERMS, prices).share(course.grid[0])

    here = choices.present
    assert shares[here] == pytest.approx(counts * late_share(0.0, SPREAD, TERMS.limit), rel=0.02)


@pytest.mark.parametrize(
    ("path", "slots", "best"),
    [
        pytest.param([10.0] * HORIZON, 11, 11, id="enough: stays"),
        pytest.param([10.0] * HORIZON, 18, 12, id="far too large: smaller"),
        pytest.param([10.0] * HORIZON, 10, 11, id="just full: larger"),
        pytest.param([10.0] + [20.0] * 95, 12, 21, id="it will double in five minutes: at once"),
        pytest.param([10.0] * 2 + [20.0] * 94, 12, 12, id="it will double in ten minutes: in five minutes"),
        pytest.param([10.0] * 40 + [20.0] * 56, 11, 11, id="it will double in three hours: later"),
        pytest.param([10.0] * 6 + [20.0] * 90, 22, 22, id="half an hour of less: not worth a rescale"),
    ],
)
def test_the_best_size_is_the_cheapest_over_the_next_hours(path: list[float], slots: int, best: int) -> None:
    assert valued(an_outlook(path, slots)).best == pytest.approx(best, abs=1)


def test_a_backlog_that_is_late_makes_a_job_larger() -> None:
    calm, late = valued(an_outlook([10.0] * HORIZON, 11)), valued(an_outlook([10.0] * HORIZON, 11, 3000.0))

    assert calm.best == 11
    assert late.best > 12
    assert late.costs[11].late_seconds > late.costs[late.best].late_seconds


def test_one_forecast_of_a_burst_in_hours_puts_no_scale_down_off() -> None:
    """To wait for the forecast that is right would cost slots for hours: nothing tells before the burst comes."""
    flat, burst = [14.0] * HORIZON, [14.0] * 50 + [26.0] * 6 + [14.0] * 40
    paths = {"last": flat, "analog": burst}
    outlook = replace(an_outlook(flat, 30), forecasts=Forecasts(paths, {"last": 0.5, "analog": 0.5}))

    assert valued(outlook).best < 20


def test_a_burst_that_fits_into_the_lag_costs_nothing() -> None:
    """Half a minute of what a minute brings waits, which the job works off within the limit."""
    assert valued(an_outlook([10.0] * HORIZON, 12, 300.0)).best == 12


def test_costs_are_shown_of_the_present_size_the_best_and_its_neighbours() -> None:
    valuation = valued(an_outlook([10.0] * HORIZON, 18))

    assert {valuation.best - 1, valuation.best, valuation.best + 1, 18} == set(valuation.costs)
    best = valuation.costs[valuation.best]
    assert best.total == best.held + best.late + best.rescale + best.future
    assert best.total < valuation.stay <= valuation.costs[18].total
    assert valuation.costs[18].rescale == 0.0


def test_a_size_for_which_it_is_early_by_minutes_is_the_rival_of_the_present_one() -> None:
    """To stay for good is dearer than to go now, and to go in five minutes cheaper than both."""
    early = valued(an_outlook([10.0] * 2 + [20.0] * 94, 12))

    assert early.best == 12
    assert early.rival is not None
    assert early.rival == pytest.approx(21, abs=1)
    assert early.stay < early.costs[early.rival].total < early.costs[12].total
    assert valued(an_outlook([10.0] * HORIZON, 11)).rival is None
    assert valued(an_outlook([10.0] * HORIZON, 18)).rival is None


def test_forecasts_that_come_to_the_same_count_together() -> None:
    flat = [10.0] * HORIZON
    forecasts = Forecasts(
        {"last": flat, "slow": flat, "week": a_wave(10.0, 0.5)}, {"last": 0.3, "slow": 0.3, "week": 0.4}
    )

    found = courses(forecasts, 0.005)

    assert sorted(each.weight for each in found) == pytest.approx([0.4, 0.6])


def test_one_size_is_all_there_is() -> None:
    outlook = replace(an_outlook([10.0] * HORIZON, 4), levels=Levels((4,), (4.0,)))

    assert valued(outlook).best == 4


def test_a_size_that_is_not_among_the_levels_is_compared_with_them() -> None:
    outlook = replace(an_outlook([10.0] * HORIZON, 14), present=Level(14, 9.0, {}))

    assert valued(outlook).best == pytest.approx(11, abs=1)


def test_of_many_sizes_those_are_compared_that_differ() -> None:
    many = levels(5000, 0.9)

    choices = Choices.of(many, Level(1203, 0.9 * 1203, {}), one(a_wave(1000.0, 0.6)))

    assert len(choices.slots) <= 41
    assert choices.slots[choices.present] == 1203
    assert choices.slots[0] <= 0.6 * 400 / 0.9 + 1
    assert choices.slots[-1] >= 1.85 * 1600 / 0.9
    gaps = [b / a for a, b in zip(choices.slots, choices.slots[1:], strict=False)]
    assert max(gaps) < 1.25


@settings(max_examples=60)
@given(st.data())
def test_any_outlook_has_a_best_size(data: st.DataObject) -> None:
    noise = random.Random(data.draw(st.integers(0, 1000)))
    base = data.draw(st.sampled_from([1e-3, 0.1, 1.0, 30.0, 5e3]))
    paths = {name: [base * noise.uniform(0.0, 3.0) for _ in range(HORIZON)] for name in ("last", "slow", "day")}
    most = data.draw(st.integers(1, 300))
    slots = data.draw(st.integers(1, most))
    spread = Spread(data.draw(st.floats(0.01, 0.4)), data.draw(st.floats(1e-6, 50.0)), data.draw(st.floats(0.0, 0.3)))
    terms = LagTerms(data.draw(st.floats(0.0, 600.0)), data.draw(st.floats(0.0, 1800.0)), 5.0)
    outlook = Outlook(
        levels(most),
        Level(slots, float(slots), {}),
        Forecasts(paths, dict.fromkeys(paths, 1 / 3)),
        spread,
        terms,
        Prices(8.0 * slots, 450.0, 60.0),
        data.draw(st.sampled_from([0.0, 10.0, 1e12])),
    )

    valuation = valued(outlook)

    assert 1 <= valuation.best <= most
    assert all(math.isfinite(cost.total) for cost in valuation.costs.values())
