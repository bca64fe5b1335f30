"""How old the checkpoints are that restarts go back to."""

from __future__ import annotations

import json
import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flink_autoscaler.core.policies.slo.restarts import NO_RESTARTS, Restarts

ASSUMED = 30.0
"""Seconds: half of a minute between checkpoints."""


def after_restarts(ages: list[float], deviation: float = 0.01, seconds: float = 120.0) -> Restarts:
    """Let a load of 10 with noise go through restarts after which so many seconds of it are read again."""
    chance, found = random.Random(7), NO_RESTARTS
    for age in ages:
        before, during, after = (10.0 * (1.0 + chance.gauss(0.0, deviation)) for _ in range(3))
        found = found.begun(seconds, during * (1.0 + age / seconds), before).after(after, deviation)
    return found


def test_before_the_first_restart_what_is_assumed_holds() -> None:
    assert NO_RESTARTS.age(ASSUMED) == ASSUMED
    assert NO_RESTARTS.after(10.0, 0.01) == NO_RESTARTS


@pytest.mark.parametrize("age", [0.0, 5.0, 30.0, 55.0])
def test_a_steady_load_tells_it_with_the_first_restart(age: float) -> None:
    assert after_restarts([age]).age(ASSUMED) == pytest.approx(age, abs=3.0)


def test_a_load_that_rises_is_no_old_checkpoint() -> None:
    found = NO_RESTARTS.begun(120.0, 11.0 * (1.0 + 5.0 / 120.0), 10.0).after(12.0, 0.01)

    assert found.age(ASSUMED) < 10.0


def test_a_noisy_load_tells_little_and_many_restarts_tell_it_nevertheless() -> None:
    once, often = after_restarts([5.0], 0.3), after_restarts([5.0] * 60, 0.3)

    assert once.weight < 1.0 / ASSUMED**2
    assert often.age(ASSUMED) < 0.6 * ASSUMED


def test_what_has_changed_is_learned_anew() -> None:
    found = after_restarts([30.0] * 40 + [2.0] * 40)

    assert found.age(ASSUMED) == pytest.approx(6.0, abs=4.0)


def test_a_restart_in_the_first_minute_tells_nothing() -> None:
    assert NO_RESTARTS.begun(60.0, 10.0, None).after(10.0, 0.01) == NO_RESTARTS


@pytest.mark.parametrize("found", [after_restarts([5.0] * 3), after_restarts([5.0]).begun(180.0, 11.0, 10.0)])
def test_it_survives_the_store(found: Restarts) -> None:
    read = Restarts.read(json.loads(json.dumps(found.as_json())))

    assert read.age(ASSUMED) == pytest.approx(found.age(ASSUMED), rel=1e-3)
    assert (read.last is None) == (found.last is None)
    assert len(json.dumps(found.as_json())) < 60


@pytest.mark.parametrize(
    "damaged",
    [None, 7, [], [1.0], ["x", 1.0], [1.0, -1.0], [math.nan, 1.0], [1.0, 1.0, 60.0], [1.0, 1.0, 60.0, 1.0, 0.0]],
)
def test_what_is_damaged_is_forgotten(damaged: object) -> None:
    assert Restarts.read(damaged) == NO_RESTARTS


@given(
    st.lists(st.tuples(st.floats(0.0, 1e6), st.floats(1e-3, 1e6), st.floats(1e-3, 1e6), st.floats(0.0, 0.4))),
    st.floats(0.0, 1e4),
)
def test_no_load_makes_it_lose_its_senses(restarts: list[tuple[float, float, float, float]], assumed: float) -> None:
    found = NO_RESTARTS
    for seconds, demand, before, noise in restarts:
        found = found.begun(seconds, demand, before).after(before, noise)
    assert 0.0 <= found.age(assumed) <= max(2.0 * assumed, 600.0)
    assert Restarts.read(found.as_json()).age(assumed) == pytest.approx(found.age(assumed), rel=1e-2, abs=1.0)
