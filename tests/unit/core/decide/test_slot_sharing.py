"""Fair shares of free slots, and redistribution where somebody has too few."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flink_autoscaler.core.decide.slot_sharing import Claim, fair_shares, redistribute

CLAIMS = st.lists(
    st.builds(
        Claim,
        job_key=st.uuids().map(str),
        held=st.integers(0, 20),
        wanted=st.integers(21, 60),
        priority=st.integers(0, 2),
        weight=st.floats(0.1, 10),
    ),
    max_size=8,
    unique_by=lambda claim: claim.job_key,
)


@given(CLAIMS, st.integers(0, 200))
def test_nobody_gets_more_than_wanted_and_nothing_is_left_while_somebody_wants(claims: list[Claim], free: int) -> None:
    granted = fair_shares(claims, free)

    assert all(0 <= granted[claim.job_key] <= claim.wanted - claim.held for claim in claims)
    assert sum(granted.values()) == min(free, sum(claim.wanted - claim.held for claim in claims))


@given(CLAIMS, st.integers(0, 200))
def test_a_lower_priority_gets_something_only_when_higher_ones_have_all(claims: list[Claim], free: int) -> None:
    granted = fair_shares(claims, free)

    for claim in claims:
        if granted[claim.job_key]:
            higher = [other for other in claims if other.priority > claim.priority]
            assert all(granted[other.job_key] == other.wanted - other.held for other in higher)


# --- redistribution


def a_holder(key: str, held: int, *, least: int = 1, priority: int = 0, weight: float = 1.0) -> Claim:
    return Claim(key, held, held, priority, weight, least)


def a_starving(key: str, *, least: int = 1, wanted: int = 9, priority: int = 0) -> Claim:
    return Claim(key, 0, wanted, priority, 1.0, least)


@pytest.mark.parametrize(
    ("claims", "free", "expected"),
    [
        pytest.param([a_holder("a", 6), a_holder("b", 1)], 2, {"a": 6, "b": 1}, id="nobody starves: all stays"),
        pytest.param([a_holder("a", 6), a_starving("b")], 0, {"a": 3, "b": 3}, id="halves"),
        pytest.param([a_holder("a", 6), a_starving("b", wanted=2)], 0, {"a": 4, "b": 2}, id="no more than it wants"),
        pytest.param([a_holder("a", 6), a_holder("c", 1), a_starving("b")], 2, {"a": 4, "c": 1, "b": 4}, id="the rich"),
        pytest.param([a_holder("a", 6, weight=2.0), a_starving("b")], 0, {"a": 4, "b": 2}, id="twice the weight"),
        pytest.param([a_holder("a", 6, least=5), a_starving("b")], 0, {"a": 5, "b": 1}, id="its least is kept"),
        pytest.param(
            [a_holder("a", 6), a_starving("b", least=6)], 0, {"a": 6, "b": 0}, id="what cannot be is not tried"
        ),
        pytest.param([a_holder("a", 6, priority=1), a_starving("b")], 0, {"a": 6, "b": 0}, id="it comes first"),
        pytest.param([a_holder("a", 6), a_starving("b", priority=1)], 0, {"a": 1, "b": 5}, id="the other one does"),
        pytest.param(
            [a_holder("a", 3), a_starving("b", least=3), a_starving("c")],
            0,
            {"a": 2, "b": 0, "c": 1},
            id="who needs little is helped where not all can be",
        ),
    ],
)
def test_slots_are_redistributed_where_somebody_has_too_few(
    claims: list[Claim], free: int, expected: dict[str, int]
) -> None:
    assert redistribute(claims, free) == expected


HOLDERS = st.builds(
    lambda key, least, more, priority, weight: a_holder(
        key, least + more, least=least, priority=priority, weight=weight
    ),
    st.uuids().map(str),
    st.integers(1, 4),
    st.integers(0, 9),
    st.integers(0, 2),
    st.sampled_from([0.5, 1.0, 3.0]),
)
STARVING = st.builds(
    lambda key, held, lacks, more, priority: Claim(key, held, held + lacks + more, priority, 1.0, held + lacks),
    st.uuids().map(str),
    st.integers(0, 2),
    st.integers(1, 5),
    st.integers(0, 9),
    st.integers(0, 2),
)


@given(claims=st.lists(HOLDERS | STARVING, max_size=7, unique_by=lambda claim: claim.job_key), free=st.integers(0, 9))
def test_shares_never_exceed_the_slots_and_nobody_is_worse_off_than_it_may_be(claims: list[Claim], free: int) -> None:
    shares = redistribute(claims, free)

    assert sum(shares.values()) <= free + sum(claim.held for claim in claims)
    for claim in claims:
        share = shares[claim.job_key]
        assert share <= claim.wanted
        assert share >= (min(claim.held, claim.least) if claim.deficit else claim.least)
        assert share == claim.held or not claim.deficit or share >= claim.least
    helped = [claim.priority for claim in claims if claim.deficit and shares[claim.job_key] > claim.held]
    for claim in claims:
        if not claim.deficit and claim.priority > max(helped, default=claim.priority - 1):
            assert shares[claim.job_key] == claim.held
