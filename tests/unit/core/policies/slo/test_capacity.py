"""What a subtask can do is learned from busy time."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flink_autoscaler.core.policies.slo.capacity import (
    SubtaskCapacity,
    effective_subtasks,
    measured_rate,
    update_capacity,
)


def after(capacity: SubtaskCapacity, count: int, rate: float, subtasks: float) -> SubtaskCapacity:
    for _ in range(count):
        capacity = capacity.with_drift(1.0).with_measurement(rate, subtasks)
    return capacity


def test_what_is_lost_with_more_subtasks_is_learned_from_another_parallelism() -> None:
    capacity = after(after(SubtaskCapacity.first(5000.0, 10.0), 30, 5000.0, 10.0), 10, 4200.0, 30.0)

    assert [round(capacity.rate(each)) for each in (30.0, 10.0, 20.0)] == [4207, 4989, 4480]
    assert capacity.slope == pytest.approx(0.155, abs=5e-4)


@pytest.mark.parametrize(
    ("parallelism", "groups", "expected"),
    [
        pytest.param(3, None, 3.0, id="records are spread evenly"),
        pytest.param(4, 128, 4.0, id="groups are spread evenly"),
        pytest.param(3, 4, 2.0, id="one subtask has two of four groups"),
        pytest.param(8, 4, 4.0, id="four of eight have nothing"),
    ],
)
def test_effective_parallelism_is_that_of_even_shares(parallelism: int, groups: int | None, expected: float) -> None:
    assert effective_subtasks(parallelism, groups) == expected


@pytest.mark.parametrize(
    ("records", "busy", "expected"),
    [
        pytest.param(60_000.0, 0.5, 1000.0, id="half busy: twice as much at full load"),
        pytest.param(60_000.0, 1.7, 500.0, id="more than always busy: always busy"),
        pytest.param(60_000.0, 0.004, None, id="hardly busy"),
        pytest.param(60_000.0, None, None, id="busy time unknown"),
        pytest.param(0.0, 0.5, None, id="nothing was read"),
    ],
)
def test_rate_at_full_load_is_measured_from_busy_time(
    records: float, busy: float | None, expected: float | None
) -> None:
    assert measured_rate(records, 60.0, busy, 2.0) == expected


def test_rough_estimate_gives_way_to_the_first_good_one() -> None:
    rough = update_capacity(None, 100.0, 4.0, busy=0.05, minutes=1.0)
    assert rough is not None
    assert rough.is_rough

    kept = update_capacity(rough, 150.0, 4.0, busy=0.06, minutes=1.0)
    good = update_capacity(kept, 200.0, 4.0, busy=0.6, minutes=1.0)

    assert kept is not None
    assert kept.rate(4.0) == pytest.approx(100.0)
    assert good is not None
    assert good.rate(4.0) == pytest.approx(200.0)


def test_single_outlier_moves_the_rate_by_little() -> None:
    capacity = after(SubtaskCapacity.first(5000.0, 10.0), 60, 5000.0, 10.0)

    capacity = after(capacity, 1, 50.0, 10.0)

    assert capacity.rate(10.0) > 4900.0


@pytest.mark.parametrize(
    "damage", [{"log_rate": 1e300}, {"slope": 1.0}, {"parallelism": 0.0}, {"rate_variance": -1.0}, {"noise": 0.0}]
)
def test_damaged_capacity_is_known_for_one(damage: dict[str, Any]) -> None:
    capacity = SubtaskCapacity.first(5000.0, 10.0)

    assert capacity.is_sound
    assert not replace(capacity, **damage).is_sound


POSITIVE = st.floats(1e-11, 1e11)


@given(st.lists(st.tuples(POSITIVE, st.floats(0.5, 40_000.0), st.floats(-10.0, 1e9)), min_size=1, max_size=60))
def test_no_measurements_make_it_lose_its_senses(measurements: list[tuple[float, float, float]]) -> None:
    capacity = SubtaskCapacity.first(*measurements[0][:2])
    for rate, subtasks, minutes in measurements:
        capacity = capacity.with_drift(minutes).with_measurement(rate, subtasks)

    assert math.isfinite(capacity.rate(7.0))
    assert capacity.is_sound
