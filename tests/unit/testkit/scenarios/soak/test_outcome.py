"""A soak says what grows, by name, and what did not recover."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest

from testkit.scenarios.soak.outcome import Outcome, Round
from testkit.scenarios.soak.plan import Plan

PLAN = Plan()

Figures = Callable[[int], dict[str, float]]


def an_outcome(figures: Figures = lambda number: {"threads": 20.0}, *, passes: float = 400.0) -> Outcome:
    rounds = [Round(number, figures(number), passes, rescales=9, gone=5) for number in range(PLAN.rounds)]
    return Outcome(PLAN, rounds)


def test_a_week_in_which_nothing_grows_has_no_fault() -> None:
    assert an_outcome().faults == []


@pytest.mark.parametrize(
    ("name", "level", "step"),
    [
        pytest.param("memory, MB", 150.0, 1.5, id="memory"),
        pytest.param("descriptors", 40.0, 1.0, id="descriptors"),
        pytest.param("threads", 20.0, 1.0, id="threads"),
        pytest.param("series of /metrics", 4000.0, 60.0, id="series"),
        pytest.param("rows of fa_decision", 900.0, 40.0, id="rows"),
        pytest.param("kB of fa_decision", 3000.0, 100.0, id="size of a table"),
        pytest.param("files of the history", 60.0, 8.0, id="files"),
    ],
)
def test_what_grows_is_named(name: str, level: float, step: float) -> None:
    outcome = an_outcome(lambda number: {"threads": 20.0, name: level + step * number})

    (fault,) = outcome.faults

    assert fault.startswith(f"{name} grows: ")
    assert f"{name:38}" in outcome.table()
    assert "GROWS" in outcome.table()


@pytest.mark.parametrize("name", ["memory, MB", "threads"])
@pytest.mark.parametrize(("step", "is_blamed"), [(1.5, False), (5.0, True)])
def test_before_all_has_settled_only_large_leaks_are_blamed(name: str, step: float, is_blamed: bool) -> None:
    outcome = an_outcome(lambda number: {name: 150.0 + step * number}, passes=60.0)

    assert bool(outcome.faults) is is_blamed


def test_what_fills_up_in_the_first_two_days_does_not_count() -> None:
    outcome = an_outcome(lambda number: {"rows of fa_decision": 1000.0 * min(number, 3)})

    assert outcome.faults == []


def test_a_round_after_which_the_daemon_was_not_well_is_a_fault() -> None:
    outcome = an_outcome()
    outcome.rounds[7] = dataclasses.replace(outcome.rounds[7], problem="cluster-1 has had no pass")

    assert outcome.faults == ["round 8: cluster-1 has had no pass"]


def test_a_week_in_which_nothing_was_rescaled_is_a_fault() -> None:
    outcome = an_outcome()
    outcome.rounds[4:] = [dataclasses.replace(each, rescales=0) for each in outcome.rounds[4:]]

    assert outcome.faults == ["nothing was rescaled in the rounds that are judged"]


def test_nobody_expects_a_rescale_on_a_machine_that_has_no_time_for_passes() -> None:
    outcome = an_outcome(passes=12.0)
    outcome.rounds[:] = [dataclasses.replace(each, rescales=0) for each in outcome.rounds]

    assert outcome.faults == []
