"""The error budget: what is measured of lateness, and how careful that makes the policy."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flink_autoscaler.core.policies.slo.constants import CONSTANTS
from flink_autoscaler.core.policies.slo.error_budget import ErrorBudget, ReplayAge, Restart

ALLOWED = 0.005


WEEK = 7 * 86400.0


def after(samples: list[tuple[float, float | None]], restart: Restart | None = None) -> ErrorBudget:
    """Return the budget after samples of instant and lag; a restart lies before the last one."""
    budget = ErrorBudget()
    for at, lag in samples[:-1]:
        budget = budget.after(at, lag, 60.0, None)
    return budget.after(*samples[-1], 60.0, restart)


@pytest.mark.parametrize(
    ("samples", "late", "known"),
    [
        pytest.param([(0.0, 0.0), (60.0, 30.0)], 0.0, 60.0, id="in time"),
        pytest.param([(0.0, 120.0), (60.0, 120.0)], 60.0, 60.0, id="late all the time"),
        pytest.param([(0.0, 0.0), (60.0, 120.0)], 30.0, 60.0, id="late from half of it on"),
        pytest.param([(0.0, 120.0), (3600.0, 120.0)], 0.0, 0.0, id="gap: not known"),
        pytest.param([(0.0, None), (60.0, 120.0), (120.0, None)], 60.0, 60.0, id="unknown lag is not zero"),
    ],
)
def test_lateness_is_measured_between_samples(
    samples: list[tuple[float, float | None]], late: float, known: float
) -> None:
    budget = after(samples)

    assert [budget.late, budget.known] == pytest.approx([late, known], rel=1e-3)


def test_lateness_of_an_outage_between_two_samples_counts() -> None:
    # Away up to 90 s: 80 s behind when it runs again, of which it reads 5 s again, and caught up at 120.
    budget = after([(0.0, 0.0), (120.0, 0.0)], restart=Restart(90.0, 80.0, replay=5.0))

    assert budget.late == pytest.approx(15 + 30 * 20 / 80)


def test_new_job_counts_as_having_used_some_of_its_budget() -> None:
    assert ErrorBudget().used(ALLOWED) == pytest.approx(CONSTANTS.free)
    assert ErrorBudget().quantile(ALLOWED) == pytest.approx(CONSTANTS.quantile)


def test_job_that_was_late_plans_from_a_higher_quantile() -> None:
    found = [ErrorBudget(0.0, share * ALLOWED * WEEK, WEEK).quantile(ALLOWED) for share in (0.0, 0.5, 1.0, 1.2, 100.0)]

    assert found[0] == found[1] == pytest.approx(CONSTANTS.quantile)
    assert found == sorted(found)
    assert found[2] > 0.96
    assert found[-1] == CONSTANTS.max_quantile


ASSUMED = 30.0


"""Seconds: half of a minute between checkpoints."""


def after_restarts(ages: list[float], deviation: float = 0.01, seconds: float = 120.0) -> ReplayAge:
    """Let a load of 10 with noise go through restarts after which so many seconds of it are read again."""
    chance, found = random.Random(7), ReplayAge()
    for age in ages:
        before, during, after = (10.0 * (1.0 + chance.gauss(0.0, deviation)) for _ in range(3))
        found = found.began(seconds, during * (1.0 + age / seconds), before).after(after)
    return found


def test_before_the_first_restart_what_is_assumed_holds() -> None:
    assert ReplayAge().seconds(ASSUMED) == ASSUMED
    assert ReplayAge().after(10.0) == ReplayAge()


@pytest.mark.parametrize("age", [0.0, 5.0, 30.0, 55.0])
def test_a_steady_load_tells_it_with_the_first_restart(age: float) -> None:
    assert after_restarts([age]).seconds(ASSUMED) == pytest.approx(age, abs=3.0)


def test_a_load_that_rises_is_no_old_checkpoint() -> None:
    found = ReplayAge().began(120.0, 11.0 * (1.0 + 5.0 / 120.0), 10.0).after(12.0)

    assert found.seconds(ASSUMED) < 10.0


def test_many_restarts_of_a_noisy_load_tell_it_nevertheless() -> None:
    assert after_restarts([5.0] * 60, 0.3).seconds(ASSUMED) < 0.6 * ASSUMED


def test_what_has_changed_is_learned_anew() -> None:
    found = after_restarts([30.0] * 40 + [2.0] * 40)

    assert found.seconds(ASSUMED) == pytest.approx(6.0, abs=4.0)


def test_a_restart_in_the_first_minute_tells_nothing() -> None:
    assert ReplayAge().began(60.0, 10.0, None).after(10.0) == ReplayAge()


@given(
    st.lists(st.tuples(st.floats(0.0, 1e6), st.floats(1e-3, 1e6), st.floats(1e-3, 1e6))),
    st.floats(0.0, 1e4),
)
def test_no_load_makes_it_lose_its_senses(restarts: list[tuple[float, float, float]], assumed: float) -> None:
    found = ReplayAge()
    for seconds, demand, before in restarts:
        found = found.began(seconds, demand, before).after(before)
    assert 0.0 <= found.seconds(assumed) <= max(2.0 * assumed, 600.0)
