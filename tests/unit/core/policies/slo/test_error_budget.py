"""The error budget: what is measured of lateness, and how careful that makes the policy."""

from __future__ import annotations

import pytest

from flink_autoscaler.core.policies.slo.constants import CONSTANTS
from flink_autoscaler.core.policies.slo.error_budget import ErrorBudget, Restart

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
