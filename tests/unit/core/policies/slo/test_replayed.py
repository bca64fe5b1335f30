"""How late other head-rooms would have been."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flink_autoscaler.core.policies.slo.replayed import (
    HEADROOMS,
    NOTHING_REPLAYED,
    PRIOR,
    WILD,
    Replayed,
    share_at,
)

LIMIT = 60.0
ALLOWED = 0.005
DAY = 86400.0


def replayed(load: Iterable[float], foreseen: float = 10.0, mean: float = 10.0) -> Replayed:
    found = NOTHING_REPLAYED
    for minute, demand in enumerate(load):
        found = found.after(60.0 * minute, demand, foreseen, mean, LIMIT)
    return found


def followed_for_three_days() -> Replayed:
    """Follow a load that goes by days; what is foreseen is what has just come."""
    found = NOTHING_REPLAYED
    for minute in range(4320):
        demand = 10.0 + 8.0 * math.sin(minute / 229.0)
        found = found.after(60.0 * minute, demand, demand, 10.0, LIMIT)
    return found


def spiky(days: int, factor: float = 1.8, minutes: int = 3) -> list[float]:
    """A spike every four hours."""
    return ([10.0] * (240 - minutes) + [10.0 * factor] * minutes) * 6 * days


def test_a_load_as_foreseen_is_never_late() -> None:
    assert replayed([10.0] * 600).shares == (0.0,) * len(HEADROOMS)


def test_spikes_make_those_late_that_are_too_small() -> None:
    shares = replayed(spiky(4)).shares

    assert list(shares) == sorted(shares, reverse=True)
    assert share_at(shares, 0.1) > ALLOWED
    assert share_at(shares, 0.55) == 0.0


def test_a_load_that_is_foreseen_makes_nobody_late() -> None:
    found = followed_for_three_days()

    assert share_at(found.shares, 0.1) < ALLOWED
    assert 17.5 < found.capacity_kept(10.0, ALLOWED) <= 20.0


@pytest.mark.parametrize(
    ("load", "is_sudden"),
    [
        pytest.param([10.0] * 60 + [19.0] * 5, True, id="one burst"),
        pytest.param([10.0] * 60 + [19.0] * 5 + [10.0] * 2880, True, id="two days ago"),
        pytest.param([10.0] * 60 + [19.0] * 5 + [10.0] * 14400, False, id="ten days ago"),
        pytest.param([10.0] * 60 + [11.5] * 60, False, id="a seventh more"),
        pytest.param([10.0] * 60 + [19.0] * 2, False, id="over before anybody is late"),
    ],
)
def test_a_load_is_sudden_that_made_a_fifth_more_than_was_foreseen_late(load: list[float], is_sudden: bool) -> None:
    assert replayed(load).is_sudden is is_sudden


def test_a_load_that_is_followed_within_minutes_is_not_sudden() -> None:
    assert not followed_for_three_days().is_sudden


def test_a_share_is_between_those_of_the_head_rooms_beside() -> None:
    shares = tuple(float(len(HEADROOMS) - place) for place in range(len(HEADROOMS)))

    assert share_at(shares, 0.025) == pytest.approx(17.5)
    assert share_at(shares, -0.5) == 18.0
    assert share_at(shares, 1e9) == 1.0


def test_what_would_have_stayed_in_time_is_kept() -> None:
    found = replayed(spiky(4), foreseen=100.0)

    assert found.capacity_kept(10.0, 0.0) == pytest.approx(14.0)
    assert 12.0 < found.capacity_kept(10.0, ALLOWED) < 13.5
    assert 10.0 < found.capacity_kept(10.0, 0.5) < 10.5


def test_what_is_late_itself_is_late_whatever_is_followed() -> None:
    found, calm = NOTHING_REPLAYED, NOTHING_REPLAYED
    for minute in range(2880):
        demand, is_late = (13.0, True) if minute % 60 == 59 else (10.0, False)
        found = found.after(60.0 * minute, demand, 10.0, 10.0, LIMIT, 12.5 if is_late else 0.0)
        calm = calm.after(60.0 * minute, demand, 10.0, 10.0, LIMIT)

    assert share_at(calm.shares, 0.2) == 0.0
    assert share_at(found.shares, 0.3) > ALLOWED
    assert share_at(found.shares, 0.4) == 0.0
    assert found.capacity_kept(10.0, 0.0) == pytest.approx(14.0)


def test_what_is_late_without_a_queue_says_nothing_of_its_size() -> None:
    found = NOTHING_REPLAYED
    for minute in range(2880):
        found = found.after(60.0 * minute, 10.0, 10.0, 10.0, LIMIT, 30.0 if minute % 3 else 0.0)

    assert share_at(found.shares, 0.1) == 0.0
    assert found.capacity_kept(10.0, 0.0) <= 10.5


def test_bursts_out_of_nothing_are_wild_and_a_doubled_load_is_not() -> None:
    out_of_nothing = replayed(([0.05] * 57 + [20.0] * 3) * 96, foreseen=0.05, mean=1.0)

    assert share_at(out_of_nothing.shares, WILD) > ALLOWED
    assert share_at(replayed(spiky(4, 2.0, 30)).shares, WILD) == 0.0


def test_what_came_once_is_no_rule_and_what_came_twice_is() -> None:
    once = [*[10.0] * 600, *[10.0 + 0.5 * minute for minute in range(120)], *[70.0] * 720]
    found = replayed([*once, *once])

    assert replayed(once, foreseen=70.0).shares == (0.0,) * len(HEADROOMS)
    assert max(replayed(once, foreseen=65.0).shares) > ALLOWED
    assert share_at(found.shares, 1.0) > ALLOWED


def test_what_was_late_long_ago_fades() -> None:
    late = replayed(spiky(1))
    later = replayed([*spiky(1), *[10.0] * 1440 * 9])

    assert share_at(later.shares, 0.1) < 0.1 * share_at(late.shares, 0.1)


def test_after_a_gap_queues_are_empty_and_lateness_is_remembered() -> None:
    late = replayed([10.0, *[30.0] * 30])

    found = late.after((late.at or 0.0) + DAY, 10.0, 10.0, 10.0, LIMIT)

    assert found.near.backlogs == (0.0,) * len(HEADROOMS)
    assert found.shares == late.shares


def test_a_new_job_is_not_judged_by_its_first_minutes() -> None:
    shares = replayed([10.0, *[30.0] * 10]).shares

    assert max(shares) <= 600.0 / PRIOR


def test_it_survives_the_store() -> None:
    found = replayed(spiky(2))

    read = Replayed.read(json.loads(json.dumps(found.as_json())))

    assert read.at == found.at
    assert read.shares == pytest.approx(found.shares, rel=5e-3)
    assert read.capacity_kept(10.0, ALLOWED) == pytest.approx(found.capacity_kept(10.0, ALLOWED), rel=5e-3)
    assert len(json.dumps(found.as_json())) <= 430


@pytest.mark.parametrize(
    "damaged", [None, [], 7, "text", [1.0], [1.0, 2.0, "AAA", "AAA"], [math.inf, 1.0] + ["AAA" * 18] * 5]
)
def test_what_is_damaged_is_forgotten(damaged: object) -> None:
    assert Replayed.read(damaged) == NOTHING_REPLAYED


@given(
    st.lists(
        st.tuples(st.floats(1.0, 1e5), st.floats(1e-3, 1e6), st.floats(1e-3, 1e6), st.floats(0.0, 1e6)), max_size=40
    )
)
def test_no_load_makes_it_lose_its_senses(passes: list[tuple[float, float, float, float]]) -> None:
    found, at = NOTHING_REPLAYED, 0.0
    for elapsed, demand, foreseen, mean in passes:
        at += elapsed
        found = found.after(at, demand, foreseen, mean, LIMIT)
    assert all(0.0 <= each <= 1.0 for each in found.shares)
    assert 0.0 <= found.capacity_kept(10.0, ALLOWED) <= 410.0
