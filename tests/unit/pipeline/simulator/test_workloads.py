"""Workloads: repeatable, and of the shape that they promise."""

from __future__ import annotations

import math
from itertools import pairwise
from statistics import mean, stdev

import pytest

from flink_autoscaler.pipeline.simulator.workloads import (
    DAY,
    HOUR,
    MINUTE,
    WEEK,
    WORKLOADS,
    Workload,
    from_rates,
    office,
    random_walk,
    sine,
    traffic,
    week_sine,
)

CHANCY = sorted(set(WORKLOADS) - {"sine", "swing"})
MONDAY, SATURDAY = 0.0, 5 * DAY


def rates(workload: Workload) -> list[float]:
    return [row[0] for row in workload.rows]


def around(workload: Workload, instant: float, minutes: int = 30) -> float:
    """Return the mean rate around an instant, in which noise cancels out."""
    return mean(workload.at(instant + minute * MINUTE)[0] for minute in range(-minutes, minutes + 1))


def test_fourteen_are_built_in() -> None:
    assert list(WORKLOADS) == [
        *("office", "week-sine", "growth", "holiday", "swing", "step", "spikes", "bursts", "upstream-outage"),
        *("opposite", "three-sources", "traffic", "random", "sine"),
    ]


@pytest.mark.parametrize("name", WORKLOADS)
def test_same_seed_gives_the_same_rates(name: str) -> None:
    assert WORKLOADS[name](seed=3) == WORKLOADS[name](seed=3)


@pytest.mark.parametrize("name", CHANCY)
def test_other_seed_gives_other_rates(name: str) -> None:
    assert WORKLOADS[name](seed=3) != WORKLOADS[name](seed=4)


@pytest.mark.parametrize("name", WORKLOADS)
def test_rates_are_finite_and_never_negative(name: str) -> None:
    assert all(rate >= 0 and math.isfinite(rate) for row in WORKLOADS[name](seed=1).rows for rate in row)


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
