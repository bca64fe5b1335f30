"""Lateness as it was measured steers its price, and a job that goes up and down is not made too small."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flink_autoscaler.core.model.policy_values import PastRescale
from flink_autoscaler.core.policies.slo.budget import (
    DAY,
    MEMORY,
    NOTHING_USED,
    Budget,
    floor,
    late_share_of,
    reversals,
)
from flink_autoscaler.core.policies.slo.model import Levels

ALLOWED = 0.005
LIMIT = 60.0


def lived(days: float, share: float, before: Budget = NOTHING_USED) -> Budget:
    """Return the budget of a job that was late for a share of each hour."""
    budget = before
    start = budget.at or 0.0
    for minute in range(1 + int(days * 1440)):
        lag = 90.0 if minute % 400 >= 400 * (1 - share) else 5.0
        budget = budget.after(start + 60.0 * minute, lag, LIMIT)
    return budget


def test_a_new_job_counts_as_having_kept_its_budget() -> None:
    assert NOTHING_USED.share(ALLOWED) == ALLOWED
    assert NOTHING_USED.factor(ALLOWED) == 1.0


@pytest.mark.parametrize(
    ("share", "factor"),
    [
        pytest.param(0.0, 1.0, id="never late"),
        pytest.param(ALLOWED, 1.0, id="within the budget"),
        pytest.param(0.0075, 1.3, id="half as much again"),
        pytest.param(0.05, 4.0, id="ten times"),
    ],
)
def test_lateness_beyond_the_budget_makes_it_dearer(share: float, factor: float) -> None:
    assert lived(7, share).factor(ALLOWED) == pytest.approx(factor, abs=0.15)


def test_a_bad_day_is_forgotten_within_weeks() -> None:
    bad = lived(1, 0.1)

    good = [lived(7 * weeks, 0.0, bad).factor(ALLOWED) for weeks in (0, 1, 4)]

    assert bad.factor(ALLOWED) == 4.0
    assert all(later <= before for before, later in pairwise(good))
    assert good[-1] == 1.0


@pytest.mark.parametrize(("at", "lag"), [(50_000.0, 90.0), (-5.0, 90.0), (60.0, None), (0.0, 90.0)])
def test_what_no_sample_speaks_for_is_not_known(at: float, lag: float | None) -> None:
    budget = Budget(0.0, 10.0, 1000.0).after(at, lag, LIMIT)

    assert budget == Budget(at, 10.0, 1000.0)


@given(st.lists(st.tuples(st.floats(-1e12, 1e12), st.none() | st.floats(0.0, 1e12)), max_size=60))
def test_no_course_of_samples_leaves_the_bounds(samples: list[tuple[float, float | None]]) -> None:
    budget = NOTHING_USED
    for at, lag in samples:
        budget = budget.after(at, lag, LIMIT)

    assert 0.0 <= budget.late <= budget.known <= MEMORY
    assert 1.0 <= budget.factor(ALLOWED) <= 4.0
    assert Budget.read(budget.as_json()).factor(ALLOWED) == pytest.approx(budget.factor(ALLOWED), rel=1e-2)


@pytest.mark.parametrize("stored", [None, [], [1.0], ["x", 1, 2], [0.0, 5.0, 1.0], [0.0, -1.0, 1.0], [1e999, 0, 0], {}])
def test_what_was_damaged_is_forgotten(stored: object) -> None:
    assert Budget.read(stored) == NOTHING_USED


def past(*sizes: int, ago: float = 0.0) -> list[PastRescale]:
    return [
        PastRescale(DAY - ago + 60.0 * place, {"v": before}, {"v": after})
        for place, (before, after) in enumerate(pairwise(sizes))
    ]


def test_changes_of_direction_within_a_day_are_counted() -> None:
    assert reversals([], DAY) == 0
    assert reversals(past(1, 2, 3, 4), 2 * DAY) == 0
    assert reversals(past(1, 5, 2, 6, 3, 7), 2 * DAY - 1.0) == 4
    assert reversals(past(1, 5, 2, 6, 3, 7, ago=DAY), 2 * DAY) == 0


def test_the_last_day_is_followed_as_a_fluid() -> None:
    assert late_share_of([10.0] * 288, 10.0, LIMIT) == 0.0
    assert late_share_of([10.0] * 288, 9.0, LIMIT) == pytest.approx(286 / 288)
    assert late_share_of([], 9.0, LIMIT) == 0.0
    # 10 too many in one bucket: 3,000 slot-seconds, which the next takes at 9 per second; 333 s, more than a bucket.
    assert late_share_of([1.0, 20.0, *[1.0] * 98], 10.0, LIMIT) == pytest.approx(0.02)


def test_the_floor_is_the_least_size_that_would_have_kept_the_budget() -> None:
    day, sizes = [1.0] * 280 + [20.0] * 8, Levels((2, 8, 19, 20, 25), (2.0, 8.0, 19.0, 20.0, 25.0))

    assert floor([1.0] * 288, sizes, LIMIT, ALLOWED) == 2
    assert floor(day, sizes, LIMIT, ALLOWED) == 20
    assert floor([30.0] * 288, sizes, LIMIT, ALLOWED) == 25
