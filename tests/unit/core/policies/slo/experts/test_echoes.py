"""What becomes of jumps, as it was with those before."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flink_autoscaler.core.policies.slo.experts.echoes import AGES, NO_ECHOES, Echoes
from flink_autoscaler.core.policies.slo.experts.forecasts import ECHO, paths
from flink_autoscaler.core.policies.slo.experts.trust import Trust
from flink_autoscaler.core.policies.slo.history import History

SPIKE = [10.0] * 30 + [20.0] * 3 + [10.0] * 60
BURST = [10.0] * 30 + [20.0] * 30 + [10.0] * 60
STEP = [10.0] * 30 + [20.0] * 90


def heard(load: list[float], times: int = 1, until: int | None = None, echoes: Echoes = NO_ECHOES) -> Echoes:
    """Follow loads minute by minute; each jumps after half an hour, which is seen two minutes later."""
    for each in range(times):
        for minute in range(1, len(load) + 1 if until is None or each < times - 1 else until + 1):
            echoes = echoes.after(load[max(minute - 90, 0) : minute], 1, 2.0 if minute == 32 else None)
    return echoes


def test_nothing_is_expected_after_the_first_jump() -> None:
    echoes = heard(SPIKE, until=32)

    assert (echoes.age, echoes.before) == (2.0, 10.0)
    assert echoes.log_ratio == pytest.approx(math.log(2.0))
    assert echoes.belief == 0.0
    assert echoes.factors([2.5]) is None


@pytest.mark.parametrize(
    ("load", "expected"),
    [(SPIKE, [0.6, 0.5, 0.5, 0.5]), (BURST, [1.0, 1.0, 1.0, 1.0]), (STEP, [1.0, 1.0, 1.0, 1.0])],
    ids=["spike", "burst", "step"],
)
def test_a_jump_is_expected_to_do_what_those_before_did(load: list[float], expected: list[float]) -> None:
    echoes = heard(load, times=4, until=32)

    found = echoes.factors([2.5, 7.5, 12.5, 17.5]) or (1.0,) * 4  # of one that stays others know as much

    assert list(found) == pytest.approx(expected, abs=0.06)


def test_the_end_of_a_burst_is_expected() -> None:
    echoes = heard(BURST, times=4, until=50)  # it has lasted for twenty minutes

    found = echoes.factors([2.5, 27.5])

    assert found is not None
    assert found[0] == pytest.approx(1.0, abs=0.05)
    assert found[1] == pytest.approx(0.5, abs=0.05)


def test_it_is_believed_the_more_the_more_often_the_same_came() -> None:
    beliefs = [heard(SPIKE, times=times, until=32).belief for times in (1, 2, 3, 12, 36)]

    assert beliefs == sorted(beliefs)
    assert beliefs[-2:] == pytest.approx([0.9, 0.95], abs=0.01)


def test_what_comes_to_something_else_each_time_is_believed_less_than_what_comes_to_the_same() -> None:
    echoes = NO_ECHOES
    for load in (SPIKE, STEP, SPIKE, STEP, SPIKE, STEP):
        echoes = heard(load, echoes=echoes)
    echoes = heard(SPIKE, until=32, echoes=echoes)

    assert echoes.belief < heard(SPIKE, times=7, until=32).belief - 0.05


def test_a_load_that_goes_on_to_rise_after_a_jump_is_left_to_other_experts() -> None:
    rising = [10.0] * 30 + [14.0 + minute for minute in range(90)]

    assert heard(rising, times=6, until=32).belief == 0.0


def test_a_fall_is_no_jump_to_listen_to() -> None:
    assert heard([20.0] * 30 + [10.0] * 30).age is None


def test_it_is_forgotten_after_an_hour_and_over_a_hole() -> None:
    assert heard(STEP).age is None
    assert heard(SPIKE, until=40).silent().age is None


def test_passes_every_five_minutes_hear_as_much() -> None:
    echoes = NO_ECHOES
    for minute in range(5, len(BURST) + 1, 5):
        echoes = echoes.after(BURST[max(minute - 90, 0) : minute], 5, 2.0 if minute == 30 + 5 else None)

    assert sum(echoes.counts) >= len(AGES) - 4


def test_the_expert_says_it_and_is_weighed() -> None:
    echoes, history = heard(SPIKE, times=4, until=32), History()
    for each in SPIKE[:32]:
        history = history.after(each, 1)

    found = paths(history, (), echoes=echoes)
    weights = Trust().weights(found, is_surprised=True, echoed=echoes.belief)

    assert found[ECHO][1] == pytest.approx(10.0, rel=0.05)
    assert weights[ECHO] == pytest.approx(echoes.belief)
    assert sum(weights.values()) == pytest.approx(1.0)


def test_it_survives_the_store() -> None:
    echoes = heard(BURST, times=3, until=45)

    found = Echoes.read(json.loads(json.dumps(echoes.as_json())))

    assert (found.age, found.before, found.counts) == (echoes.age, echoes.before, echoes.counts)
    assert found.left == pytest.approx(echoes.left, abs=0.01)
    assert len(json.dumps(echoes.as_json())) <= 115


@pytest.mark.parametrize(
    "damaged",
    [
        None,
        [],
        "text",
        [2.0, 10.0, 0.7, "A", "B", "C"],
        [math.nan, 10.0, 0.7, *NO_ECHOES.as_json()[3:]],
        [2.0, -1.0, 0.7, *NO_ECHOES.as_json()[3:]],
        [2.0, 10.0, math.inf, *NO_ECHOES.as_json()[3:]],
        [2.0, 10.0, 0.7, 5, 6, 7],
    ],
)
def test_what_is_damaged_is_forgotten(damaged: object) -> None:
    assert Echoes.read(damaged) == NO_ECHOES


@given(
    st.lists(st.floats(1e-3, 1e6), min_size=40, max_size=200),
    st.sets(st.integers(3, 199), max_size=20),
    st.integers(1, 15),
)
def test_no_load_makes_it_lose_its_senses(load: list[float], jumps: set[int], step: int) -> None:
    echoes = NO_ECHOES
    for minute in range(step + 2, len(load) + 1, step):
        echoes = echoes.after(load[max(minute - 90, 0) : minute], step, 2.0 if minute in jumps else None)
        factors = echoes.factors([2.5 + 5.0 * place for place in range(96)]) or ()
        assert all(0.0 < each < 1e40 for each in factors)
        assert 0.0 <= echoes.belief <= 1.0
    read = Echoes.read(json.loads(json.dumps(echoes.as_json())))
    assert read.counts == echoes.counts
