"""Lateness as it was measured steers its price, and a job that goes up and down is not made too small."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flink_autoscaler.core.policies.slo.budget import (
    MEMORY,
    NOTHING_USED,
    Budget,
    Restart,
)

ALLOWED = 0.005
LIMIT = 60.0


def lived(days: float, share: float, before: Budget = NOTHING_USED) -> Budget:
    """Return the budget of a job that was late for a share of the time, from halfway between two samples on."""
    budget = before
    start = budget.at or 0.0
    for minute in range(1 + int(days * 1440)):
        lag = 90.0 if minute % 400 >= 400 * (1 - share) else 30.0
        budget = budget.after(start + 60.0 * minute, lag, LIMIT)
    return budget


def test_a_new_job_counts_as_having_kept_its_budget() -> None:
    assert NOTHING_USED.share(ALLOWED) == pytest.approx(0.6 * ALLOWED)
    assert NOTHING_USED.factor(ALLOWED) == 1.0


@pytest.mark.parametrize(
    ("share", "factor"),
    [
        pytest.param(0.0, 1.0, id="never late"),
        pytest.param(0.0025, 1.0, id="half of the budget"),
        pytest.param(ALLOWED, 2.4, id="all of it, for a week"),
        pytest.param(0.0075, 4.0, id="half as much again"),
        pytest.param(0.05, 4.0, id="ten times"),
    ],
)
def test_lateness_makes_it_dearer_before_the_budget_is_used(share: float, factor: float) -> None:
    assert lived(7, share).factor(ALLOWED) == pytest.approx(factor, abs=0.15)


@pytest.mark.parametrize(
    ("late", "seconds", "does"),
    [
        pytest.param(0.0, 600.0, True, id="of a new week, 3107"),
        pytest.param(2500.0, 600.0, True, id="607 are left"),
        pytest.param(2500.0, 610.0, False, id="607 are left, and 610 are needed"),
        pytest.param(5000.0, 150.0, True, id="a twentieth of a week's budget, which is used up"),
        pytest.param(5000.0, 155.0, False, id="more than a twentieth"),
    ],
)
def test_a_budget_pays_for_what_is_left_of_it(late: float, seconds: float, does: bool) -> None:
    assert Budget(0.0, late, 500_000.0).pays_for(seconds, ALLOWED) is does


def test_a_new_job_can_pay_for_ten_minutes() -> None:
    assert NOTHING_USED.pays_for(600.0, ALLOWED)
    assert not NOTHING_USED.pays_for(610.0, ALLOWED)


def test_a_bad_day_is_forgotten_within_weeks() -> None:
    bad = lived(1, 0.1)

    good = [lived(7 * weeks, 0.0, bad).factor(ALLOWED) for weeks in (0, 1, 4)]

    assert bad.factor(ALLOWED) == 4.0
    assert all(later <= before for before, later in pairwise(good))
    assert good[-1] == 1.0


@pytest.mark.parametrize(("at", "lag"), [(50_000.0, 90.0), (-5.0, 90.0), (60.0, None), (0.0, 90.0)])
def test_what_no_sample_speaks_for_is_not_known(at: float, lag: float | None) -> None:
    budget = Budget(0.0, 10.0, 1000.0).after(at, lag, LIMIT)

    assert budget == Budget(at, 10.0, 1000.0, lag)


@pytest.mark.parametrize(
    ("restart", "late"),
    [
        pytest.param(None, 0.0, id="none: the lag rose between two samples below the limit"),
        pytest.param(Restart(1060.0, 55.0, 5.0, 0.5), 0.0, id="the limit was not reached"),
        pytest.param(
            Restart(1060.0, 65.0, 5.0, 1.0), 5.0, id="by what is read again, which takes five seconds to drain"
        ),
        pytest.param(Restart(1060.0, 90.0, 5.0, 2.0), 25.0 + 15.0, id="in the outage, and until it has drained"),
        pytest.param(Restart(1060.0, 90.0, 5.0, 0.1), 25.0 + 60.0 * 30.0 / 70.0, id="the last sample knows it better"),
        pytest.param(Restart(1060.0, 90.0, 5.0, -0.1), 25.0 + 60.0 * 30.0 / 70.0, id="with a capacity that cannot be"),
        pytest.param(Restart(1060.0, 1e9, 5.0, 0.5), 120.0, id="no longer than between the samples"),
        pytest.param(Restart(900.0, 90.0, 5.0, 0.5), 0.0, id="before the sample before"),
        pytest.param(Restart(1121.0, 90.0, 5.0, 0.5), 0.0, id="after the sample"),
    ],
)
def test_how_late_a_restart_made_the_job_counts_although_no_sample_saw_it(restart: Restart | None, late: float) -> None:
    before = Budget(1000.0, 0.0, 0.0, 10.0)

    assert before.after(1120.0, 20.0, LIMIT, restart).late == pytest.approx(late, abs=0.1)


def test_a_job_that_was_late_before_a_restart_is_late_until_it_has_drained() -> None:
    budget = Budget(1000.0, 0.0, 0.0, 70.0).after(1120.0, 20.0, LIMIT, Restart(1060.0, 135.0, 5.0, 3.0))

    assert budget.late == pytest.approx(60.0 + 75.0 / 3.0)


LAGS = st.floats(0.0, 1e12)
RESTARTS = st.builds(Restart, st.floats(-1e12, 1e12), LAGS, LAGS, st.floats(-1.0, 1e12))


@given(st.lists(st.tuples(st.floats(-1e12, 1e12), st.none() | LAGS, st.none() | RESTARTS), max_size=60))
def test_no_course_of_samples_leaves_the_bounds(samples: list[tuple[float, float | None, Restart | None]]) -> None:
    budget = NOTHING_USED
    for at, lag, restart in samples:
        budget = budget.after(at, lag, LIMIT, restart)

    assert 0.0 <= budget.late <= budget.known <= MEMORY
    assert 1.0 <= budget.factor(ALLOWED) <= 4.0
    assert Budget.read(budget.as_json()).factor(ALLOWED) == pytest.approx(budget.factor(ALLOWED), rel=1e-2)


def test_what_an_older_program_stored_is_read_on() -> None:
    assert Budget.read([60.0, 5.0, 1000.0]) == Budget(60.0, 5.0, 1000.0)


@pytest.mark.parametrize(
    "stored",
    [
        None,
        [],
        [1.0],
        [0.0, 0.0, 0.0, "x"],
        [0.0, 0.0, 0.0, 1.0, "x"],
        [0.0, 0.0, 0.0, 1.0, 0.5],
        [0.0, 0.0, 0.0, 1.0, 1.0, 1.0],
        ["x", 1, 2],
        [0.0, 5.0, 1.0],
        [0.0, -1.0, 1.0],
        [1e999, 0, 0],
        {},
    ],
)
def test_what_was_damaged_is_forgotten(stored: object) -> None:
    assert Budget.read(stored) == NOTHING_USED


@pytest.mark.parametrize(
    ("before", "lag", "restart", "is_short"),
    [
        pytest.param(Budget(0.0, lag=30.0), 90.0, None, True, id="becomes late while it runs"),
        pytest.param(Budget(0.0, lag=90.0, is_short=True), 80.0, None, True, id="and stays it"),
        pytest.param(Budget(0.0, lag=90.0, is_short=True), 60.0, None, False, id="until it is in time"),
        pytest.param(Budget(0.0, lag=30.0), 90.0, Restart(30.0, 95.0), False, id="late by a restart"),
        pytest.param(Budget(0.0, lag=90.0), 80.0, None, False, id="and still by it"),
        pytest.param(Budget(0.0, lag=90.0, is_short=True), 95.0, Restart(30.0, 99.0), False, id="a larger size"),
    ],
)
def test_a_job_is_short_that_becomes_late_without_a_restart(
    before: Budget, lag: float, restart: Restart | None, is_short: bool
) -> None:
    budget = before.after(60.0, lag, LIMIT, restart)

    assert budget.is_short is is_short
    assert Budget.read(budget.as_json()).is_short is is_short


@pytest.mark.parametrize(
    ("late", "left"),
    [
        pytest.param(0.0, 0.15 * ALLOWED, id="a share of it at most"),
        pytest.param(1.05 * ALLOWED, 0.1 * ALLOWED, id="what is left"),
        pytest.param(5 * ALLOWED, 0.0, id="nothing"),
    ],
)
def test_of_the_budget_a_part_may_be_spent(late: float, left: float) -> None:
    week = Budget(0.0, late * MEMORY, MEMORY)

    assert week.left(ALLOWED) == pytest.approx(left)
