"""A week without a person in three minutes: a few jobs, all that goes wrong, and nothing grows."""

from __future__ import annotations

import os

import pytest

from testkit.scenarios.soak import Outcome, Plan, soak
from testkit.scenarios.soak.clock import MissingClockError
from testkit.servers.databases import MissingServerError

SHORT = Plan(seconds=150.0, jobs=8, clusters=2, leaving=0.1, interval=2.0, viewers=1, samples=3, patience=600.0)


def outcome_of(plan: Plan) -> Outcome:
    """Run a soak; skip the test where a program is missing, except in CI."""
    try:
        return soak(plan, lambda each: print(each, flush=True))
    except (MissingServerError, MissingClockError) as error:
        if "CI" in os.environ:
            raise
        pytest.skip(f"{error}; apt-get install postgresql faketime")


@pytest.mark.suite(name="soak")
@pytest.mark.guard
def test_nothing_grows_in_a_week_and_every_fault_is_recovered_from() -> None:
    outcome = outcome_of(SHORT)
    print(outcome.table())

    assert outcome.faults == []
