from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flink_autoscaler.core.decide.limits.shares import Claim, fair_shares

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


@pytest.mark.parametrize(
    ("claims", "free", "granted"),
    [
        ([Claim("a", 2, 6), Claim("b", 2, 6)], 4, {"a": 2, "b": 2}),
        ([Claim("a", 2, 3), Claim("b", 2, 9)], 4, {"a": 1, "b": 3}),
        ([Claim("a", 1, 9), Claim("b", 5, 9)], 4, {"a": 4, "b": 0}),
        ([Claim("a", 2, 9, weight=3.0), Claim("b", 2, 9)], 4, {"a": 4, "b": 0}),
        ([Claim("a", 2, 9), Claim("b", 2, 5, priority=1)], 4, {"a": 1, "b": 3}),
        ([Claim("a", 2, 9)], 0, {"a": 0}),
        ([], 4, {}),
    ],
    ids=["equal", "what one does not want", "the smaller one first", "weights", "priorities", "nothing free", "nobody"],
)
def test_free_slots_are_dealt_out_fairly(claims: list[Claim], free: int, granted: dict[str, int]) -> None:
    assert fair_shares(claims, free) == granted


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
