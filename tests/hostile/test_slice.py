"""A liar harms only itself: a hundred lies of all kinds, told to a daemon with its own wiring and loop.

``make suite NAME=hostile`` tells 20,000, and one of them again with ``ARGS="--only '...'"``.
"""

from __future__ import annotations

import os

import pytest

from testkit.scenarios.hostile_flink.judging import Figures
from testkit.scenarios.hostile_flink.lies import chosen
from testkit.scenarios.hostile_flink.running import Plan, confirmed, run_lies

COUNT = int(os.environ.get("HOSTILE_LIES", "100"))
SEED = 16


@pytest.fixture(scope="module")
def figures() -> Figures:
    plan = Plan(slots=48, steps_every=12)
    found = confirmed(run_lies(chosen(COUNT, SEED), plan), Plan(slots=8))
    print(found.examples(), found.table(), sep="\n")
    return found


@pytest.mark.parametrize(
    "judgement",
    [
        pytest.param("missed", id="the healthy job is evaluated in every pass"),
        pytest.param("late", id="no pass takes longer than its interval"),
        pytest.param("wrong", id="no request that the truth does not call for"),
        pytest.param("tracebacks", id="no traceback"),
        pytest.param("not_back", id="back to normal within a window"),
        pytest.param("not_sent", id="what is called for is sent"),
        pytest.param("hung", id="never hung"),
        pytest.param("memory", id="no answer becomes more than it is"),
    ],
)
def test_a_liar_harms_only_itself(figures: Figures, judgement: str) -> None:
    assert [str(verdict) for verdict in figures.verdicts if judgement in verdict.faults] == []


def test_the_lies_were_heard(figures: Figures) -> None:
    lies = [verdict for verdict in figures.verdicts if verdict.lie]

    assert len(lies) == COUNT
    assert sum(bool(verdict.told) for verdict in lies) >= 0.97 * COUNT
    assert sum(verdict.was_ready for verdict in lies) >= 0.5 * COUNT
    assert figures.sent > 0
    assert not figures.unknown
