"""Workloads: repeatable, and of the shape that they promise."""

from __future__ import annotations

import cmath
import math
from collections.abc import Sequence
from itertools import groupby, pairwise
from statistics import mean, pstdev, stdev

import pytest

from flink_autoscaler.pipeline.simulator.workloads import (
    DAY,
    HOUR,
    MINUTE,
    WEEK,
    WORKLOADS,
    Workload,
    bursts,
    from_rates,
    growth,
    holiday,
    make_workload,
    office,
    opposite,
    past_workload,
    random_walk,
    short_spikes,
    side_by_side,
    sine,
    step,
    swing,
    traffic,
    upstream_outage,
    week_sine,
)

CHANCY = sorted(set(WORKLOADS) - {"sine", "swing"})


MONDAY, SATURDAY = 0.0, 5 * DAY


def test_fourteen_are_built_in() -> None:
    assert list(WORKLOADS) == [
        *("office", "week-sine", "growth", "holiday", "swing", "step", "spikes", "bursts", "upstream-outage"),
        *("opposite", "three-sources", "traffic", "random", "sine"),
    ]


@pytest.mark.parametrize("name", CHANCY)
def test_other_seed_gives_other_rates(name: str) -> None:
    assert WORKLOADS[name](seed=3) != WORKLOADS[name](seed=4)


@pytest.mark.parametrize("name", WORKLOADS)
def test_rates_are_sound_and_those_of_the_seed(name: str) -> None:
    workload = WORKLOADS[name](seed=3)

    assert workload == WORKLOADS[name](seed=3)
    assert all(rate >= 0 and math.isfinite(rate) for row in workload.rows for rate in row)


def test_random_walk_holds_its_level_and_keeps_within_bounds() -> None:
    workload = random_walk(seed=5, duration=DAY)

    values = rates(workload)
    levels = values[::10]
    assert all(values[number] == levels[number // 10] for number in range(len(values)))
    assert values[0] == 1.25e6
    assert max(abs(b - a) for a, b in pairwise(levels)) <= 5e5
    assert (min(values) >= 0, max(values) <= 2.5e6) == (True, True)


def test_sine_reaches_its_peak_once_per_cycle() -> None:
    workload = sine()

    assert [workload.at(hour * HOUR)[0] for hour in range(6)] == pytest.approx([0, 60e3, 0, 60e3, 0, 60e3], abs=1e-6)


def test_traffic_has_two_rush_hours() -> None:
    workload = traffic(seed=1)

    night, first, noon, second, evening = (around(workload, h * HOUR, 2) for h in (0.1, 2.0, 3.2, 4.5, 5.8))
    assert max(rates(workload)) == pytest.approx(100e3)
    assert first > 1.3 * noon
    assert second > 1.3 * noon
    assert max(night, evening) < noon


def test_week_sine_is_highest_in_the_afternoon_and_lower_at_weekends() -> None:
    workload = week_sine(seed=1)

    assert workload.duration == WEEK
    assert around(workload, MONDAY + 0.55 * DAY) == pytest.approx(150e3, rel=0.03)
    assert around(workload, MONDAY + 1.05 * DAY) == pytest.approx(50e3, rel=0.03)
    assert around(workload, SATURDAY + 0.55 * DAY) == pytest.approx(0.75 * 150e3, rel=0.03)


def test_noise_of_week_sine_is_slow_and_of_three_percent() -> None:
    noisy, other = rates(week_sine(seed=1)), rates(week_sine(seed=2))

    ratios = [math.log(a / b) / math.sqrt(2) for a, b in zip(noisy, other, strict=True)]
    pairs = list(pairwise(ratios))
    correlation = mean(a * b for a, b in pairs) / mean(a * a for a, _ in pairs)
    assert stdev(ratios) == pytest.approx(0.03, rel=0.1)
    assert correlation == pytest.approx(0.9, abs=0.02)


def test_office_opens_on_weekdays_and_grows() -> None:
    workload = office(seed=1)

    assert workload.duration == 5 * WEEK
    assert around(workload, MONDAY + 12 * HOUR) == pytest.approx(123e3, rel=0.08)
    assert around(workload, MONDAY + 3 * HOUR) == pytest.approx(36.4e3, rel=0.08)
    assert around(workload, SATURDAY + 12 * HOUR) == pytest.approx(44.5e3, rel=0.08)
    later = around(workload, 4 * WEEK + 12 * HOUR) / around(workload, 12 * HOUR)
    assert later == pytest.approx(1.03**4, rel=0.08)


def test_office_ramps_up_within_ten_minutes() -> None:
    workload = office(seed=1)

    assert workload.at(8.8 * HOUR)[0] < 60e3
    assert workload.at(9 * HOUR)[0] > 100e3
    assert workload.at(18 * HOUR)[0] > 100e3
    assert workload.at(18.2 * HOUR)[0] < 60e3


def test_recorded_series_is_scaled_to_its_peak() -> None:
    assert from_rates("mine", [1.0, 4.0, 2.0], step=10.0).scaled_to(100.0).rows == ((25.0,), (100.0,), (50.0,))
    assert from_rates("mine", [1.0, 4.0]).rows == ((1.0,), (4.0,))


@pytest.mark.parametrize("values", [[], [1.0, -1.0], [math.nan], [math.inf]])
def test_recorded_series_needs_real_rates(values: list[float]) -> None:
    with pytest.raises(ValueError, match="a recorded series needs rates"):
        from_rates("mine", values)


def test_nothing_cannot_be_scaled() -> None:
    with pytest.raises(ValueError, match="nothing arrives"):
        from_rates("mine", [0.0, 0.0]).scaled_to(5.0)


def test_workload_goes_on_beyond_its_ends() -> None:
    workload = from_rates("mine", [1.0, 2.0, 3.0])

    assert [workload.at(instant)[0] for instant in (-5.0, 59.9, 60.0, 1e9)] == [1.0, 1.0, 2.0, 3.0]
    assert workload.part(60.0, 180.0).rows == ((2.0,), (3.0,))


DATED = (
    *("week-sine", "office", "holiday", "growth", "swing", "step", "spikes", "bursts"),
    *("opposite", "three-sources"),
)


SEEDS = (0, 1)


WEDNESDAY, THURSDAY, FRIDAY = (day * DAY for day in (2, 3, 4))


def rates(workload: Workload, source: int = 0) -> list[float]:
    return [row[source] for row in workload.rows]


def around(workload: Workload, instant: float, minutes: int = 30) -> float:
    """Return the mean rate around an instant, in which noise cancels out."""
    return mean(sum(workload.at(instant + minute * MINUTE)) for minute in range(-minutes, minutes + 1))


def power(values: Sequence[float], period: float) -> float:
    """Return the share of the variance that is a wave of so many steps."""
    middle = mean(values)
    wave = sum((value - middle) * cmath.exp(-2j * math.pi * n / period) for n, value in enumerate(values))
    return 2 * abs(wave) ** 2 / len(values) / sum((value - middle) ** 2 for value in values)


@pytest.mark.parametrize("name", [*DATED, "upstream-outage"])
def test_longer_workload_begins_as_the_shorter_one(name: str) -> None:
    short, long = make_workload(name, 3, 1.5 * DAY), make_workload(name, 3, 4 * DAY)

    assert (short.duration, long.duration) == (1.5 * DAY, 4 * DAY)
    assert long.rows[: len(short.rows)] == short.rows


@pytest.mark.parametrize("name", [*DATED, "upstream-outage"])
def test_what_arrived_before_is_as_long_as_is_wanted_and_has_other_noise(name: str) -> None:
    before, now = past_workload(name, 3, 1), make_workload(name, 3, WEEK)

    assert before.duration == WEEK
    assert len(before.rows[0]) == len(now.rows[0])
    if name == "swing":  # has no noise
        assert rates(before) == pytest.approx(rates(now), abs=1e-3)
    else:
        assert rates(before)[:100] != pytest.approx(rates(now)[:100], abs=1e-3)


def test_step_doubles_once_and_stays() -> None:
    workload = step(seed=1)

    before, after = rates(workload)[: 8 * 60], rates(workload)[8 * 60 :]
    assert mean(before) == pytest.approx(60e3, rel=0.01)
    assert mean(after) == pytest.approx(120e3, rel=0.01)
    assert max(before) < 66e3
    assert min(after) > 108e3
    assert max(rates(past_workload("step", 1, 1))) < 66e3


@pytest.mark.parametrize(
    ("workload", "a_day", "minutes", "factor"),
    [
        *(pytest.param(short_spikes(seed=seed), 6, 3, 1.8, id=f"spikes {seed}") for seed in SEEDS),
        *(pytest.param(bursts(seed=seed), 4, 30, 1.9, id=f"bursts {seed}") for seed in SEEDS),
    ],
)
def test_spikes_and_bursts_are_as_many_as_long_and_as_high_as_they_say(
    workload: Workload, a_day: int, minutes: int, factor: float
) -> None:
    values = rates(workload)

    lengths = [len(list(run)) for is_high, run in groupby(rate > 95e3 for rate in values) if is_high]
    assert sum(lengths) == pytest.approx(7 * a_day * minutes, abs=1)
    assert len(lengths) == 7 * a_day
    assert mean(rate for rate in values if rate > 95e3) == pytest.approx(factor * 70e3, rel=0.02)
    assert mean(rate for rate in values if rate < 95e3) == pytest.approx(70e3, rel=0.01)


def test_spikes_of_another_seed_come_at_other_times() -> None:
    instants = [{n for n, rate in enumerate(rates(bursts(seed=seed))) if rate > 95e3} for seed in SEEDS]

    assert all(len(a & b) < 0.5 * len(a) for a, b in pairwise(instants))


def test_holiday_is_a_thursday_as_quiet_as_a_sunday() -> None:
    workload = holiday(seed=1)

    at_noon = [around(workload, day * DAY + 12 * HOUR) / 1e3 for day in range(7)]
    assert at_noon == pytest.approx([123, 123, 123, 43, 123, 43, 43], rel=0.08)
    assert around(holiday(seed=1, weeks=2.0), WEEK + THURSDAY + 12 * HOUR) == pytest.approx(123e3, rel=0.08)
    assert around(past_workload("holiday", 1, 1), THURSDAY + 12 * HOUR) == pytest.approx(123e3, rel=0.08)


def test_growth_is_ten_percent_a_week() -> None:
    workload = growth(seed=1, weeks=3.0)

    weeks = [mean(rates(workload.part(n * WEEK, (n + 1) * WEEK))) for n in range(3)]
    assert [b / a for a, b in pairwise(weeks)] == pytest.approx([1.1, 1.1], rel=0.01)
    assert around(growth(seed=1), 0.55 * DAY) == pytest.approx(around(week_sine(seed=1), 0.55 * DAY), rel=0.02)


def test_upstream_outage_lets_nothing_through_for_two_hours_and_then_all_of_it() -> None:
    workload, begin = upstream_outage(seed=1), WEDNESDAY + 10 * HOUR

    held = rates(workload.part(begin, begin + 2 * HOUR))
    assert held == [0.0] * 120
    tuesday, wednesday, thursday = (mean(rates(workload.part(day * DAY, (day + 1) * DAY))) for day in (1, 2, 3))
    assert wednesday == pytest.approx((tuesday + thursday) / 2, rel=0.01)
    usual = around(workload, begin + 3 * HOUR - DAY)
    assert around(workload, begin + 3 * HOUR) == pytest.approx(1.5 * usual, rel=0.03)
    assert around(workload, begin + 8 * HOUR) == pytest.approx(around(workload, begin + 8 * HOUR - DAY), rel=0.03)
    assert min(rates(past_workload("upstream-outage", 1, 1))) > 40e3


def test_sources_in_opposite_phase_take_turns() -> None:
    workload = opposite(seed=1)

    by_day, by_night = rates(workload, 0), rates(workload, 1)
    middles = mean(by_day), mean(by_night)
    together = sum((a - middles[0]) * (b - middles[1]) for a, b in zip(by_day, by_night, strict=True)) / len(by_day)
    assert middles == pytest.approx((60e3, 40e3), rel=0.01)
    assert (max(by_day), max(by_night)) == pytest.approx((104e3, 68e3), rel=0.05)
    assert together / pstdev(by_day) / pstdev(by_night) < -0.98


def test_swing_is_a_wave_of_six_hours() -> None:
    values = rates(swing())

    assert (min(values), max(values)) == (0.0, 150e3)
    assert power(values, 6 * 60) == pytest.approx(1.0, abs=1e-6)


def test_workloads_side_by_side_are_sources_of_one() -> None:
    both = side_by_side("both", from_rates("a", [1.0, 2.0]), from_rates("b", [3.0, 4.0]))

    assert (both.name, both.rows) == ("both", ((1.0, 3.0), (2.0, 4.0)))
    with pytest.raises(ValueError, match="shorter"):
        side_by_side("uneven", from_rates("a", [1.0, 2.0]), from_rates("b", [3.0]))


def test_every_name_is_that_of_its_workload() -> None:
    ours = [name for name in WORKLOADS if name in {*DATED, "upstream-outage"}]

    assert [WORKLOADS[name](seed=0).name for name in ours] == ours
