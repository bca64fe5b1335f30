"""A week without a person in five minutes: some jobs, all that goes wrong, and nothing grows."""

from __future__ import annotations

import pytest
from soak import Plan, soak

SHORT = Plan(seconds=300.0, jobs=20, clusters=2, leaving=0.2, interval=2.0, patience=240.0)


@pytest.mark.soak
@pytest.mark.guard
def test_nothing_grows_in_a_week_and_every_fault_is_recovered_from() -> None:
    outcome = soak(SHORT, print)
    print(outcome.table())

    assert outcome.faults == []
