"""What a job needs, what it can give, and what it looks like then."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flink_autoscaler.core.decide.slot_sharing import (
    Claim,
    fair_shares,
    is_preemptible,
    min_slots_of,
    redistribute,
    shrink_to,
    slots_in_groups,
    slots_needed,
)
from flink_autoscaler.core.model.job import JobStatus, SlotDemand
from flink_autoscaler.core.model.orders import AuditStamp, Orders, PauseOrder, Pin
from flink_autoscaler.core.model.state import JobState
from flink_autoscaler.core.model.supervision import ForeignEdit, Supervision, SupervisionPhase
from flink_autoscaler.core.ports.passes import PassRequest
from testkit.builders.core import a_context, a_vertex, vertex_id

SIGNED = AuditStamp("ann", "a test", 0)
ADAPTIVE = {"jobmanager.scheduler": "Adaptive"}
VERTICES = (
    a_vertex(1, parallelism=6, group="first"),
    a_vertex(2, parallelism=2, group="first"),
    a_vertex(3, parallelism=3, group="second"),
)


def a_request(options: Mapping[str, str] | None = None, orders: Orders | None = None) -> PassRequest:
    return PassRequest(a_context(options or {}, ADAPTIVE), JobState(), 0, orders=orders or Orders())


@pytest.mark.parametrize(
    ("requirements", "options", "expected"),
    [
        pytest.param({}, {}, SlotDemand(2, 9), id="not known: one per group to start, as it is at most"),
        pytest.param({1: (2, 8), 2: (3, 4), 3: (1, 1)}, {}, SlotDemand(4, 9), id="the widest of each group"),
        pytest.param({1: (1, 8)}, {"vertex.min-parallelism": "2"}, SlotDemand(4, 11), id="what options allow is more"),
        pytest.param(
            {1: (1, 8)}, {"vertex.bounds": "vertex 3=9.."}, SlotDemand(4, 11), id="but not more than it asks for"
        ),
    ],
)
def test_a_job_needs_the_least_of_every_group(
    requirements: Mapping[int, tuple[int, int]], options: Mapping[str, str], expected: SlotDemand
) -> None:
    known = {vertex_id(number): bounds for number, bounds in requirements.items()}

    assert slots_needed(VERTICES, known, a_context(options).options) == expected


@pytest.mark.parametrize(
    ("slots", "options", "orders", "expected"),
    [
        pytest.param(9, {}, Orders(), (6, 2, 3), id="no more than it may have"),
        pytest.param(7, {}, Orders(), (4, 2, 3), id="the widest group gives"),
        pytest.param(4, {}, Orders(), (2, 2, 2), id="both give"),
        pytest.param(2, {}, Orders(), (1, 1, 1), id="one slot each"),
        pytest.param(1, {}, Orders(), (1, 1, 1), id="less cannot be"),
        pytest.param(2, {"vertex.bounds": "vertex 1=4.."}, Orders(), (4, 2, 1), id="bounds"),
        pytest.param(2, {"vertex.exclude.names": "vertex 3"}, Orders(), (1, 1, 3), id="an excluded vertex"),
        pytest.param(2, {}, Orders(pins=(Pin("vertex 2", 2, SIGNED),)), (2, 2, 1), id="a pin"),
    ],
)
def test_a_job_gives_from_its_widest_group(
    slots: int, options: Mapping[str, str], orders: Orders, expected: tuple[int, int, int]
) -> None:
    left = shrink_to(VERTICES, a_request(options, orders), slots)

    assert left == {vertex_id(number): parallelism for number, parallelism in enumerate(expected, 1)}


@given(
    parallelism=st.lists(st.integers(1, 9), min_size=1, max_size=5),
    groups=st.lists(st.sampled_from(["a", "b", "c"]), min_size=5, max_size=5),
    least=st.integers(1, 4),
    slots=st.integers(0, 30),
)
def test_what_is_left_fits_or_is_the_least(parallelism: list[int], groups: list[str], least: int, slots: int) -> None:
    vertices = [a_vertex(n, parallelism=p, group=groups[n - 1]) for n, p in enumerate(parallelism, 1)]
    request = a_request({"vertex.min-parallelism": str(least)})

    left = shrink_to(vertices, request, slots)

    assert slots_in_groups(vertices, left) <= max(slots, min_slots_of(vertices, request))
    assert all(min(each.parallelism, least) <= left[each.vertex_id] <= each.parallelism for each in vertices)


RUNNING = a_request()


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        pytest.param(RUNNING, True, id="a job that runs"),
        pytest.param(
            replace(RUNNING, context=a_context({}, ADAPTIVE, status=JobStatus.CREATED)), False, id="one that waits"
        ),
        pytest.param(replace(RUNNING, context=a_context()), False, id="another scheduler"),
        pytest.param(a_request({"scaling.enabled": "false"}), False, id="scaling is off"),
        pytest.param(a_request({"scale-down.enabled": "false"}), False, id="scaling down is off"),
        pytest.param(a_request({"dry-run": "true"}), False, id="a dry run"),
        pytest.param(a_request({}, Orders(dry_run=SIGNED)), False, id="a dry run that was ordered"),
        pytest.param(a_request({}, Orders(pause=PauseOrder(SIGNED))), False, id="paused"),
        pytest.param(a_request({"supervised-rescales.enabled": "false"}), False, id="nobody follows rescales"),
        pytest.param(a_request({"excluded.periods": "* * * * * ?"}), False, id="an excluded period"),
        pytest.param(
            replace(RUNNING, state=JobState(supervision=Supervision(edit=ForeignEdit(0, {}, 9)))), False, id="edited"
        ),
        pytest.param(
            replace(RUNNING, state=JobState(supervision=Supervision(phase=SupervisionPhase.PAUSED))),
            False,
            id="after a rollback",
        ),
    ],
)
def test_who_may_be_asked_to_give(request_: PassRequest, expected: bool) -> None:
    assert is_preemptible(request_) is expected


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


# --- dealing anew


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
def test_slots_are_dealt_anew_where_somebody_starves(claims: list[Claim], free: int, expected: dict[str, int]) -> None:
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
        assert share >= (min(claim.held, claim.minimum) if claim.deficit else claim.minimum)
        assert share == claim.held or not claim.deficit or share >= claim.minimum
    helped = [claim.priority for claim in claims if claim.deficit and shares[claim.job_key] > claim.held]
    for claim in claims:
        if not claim.deficit and claim.priority > max(helped, default=claim.priority - 1):
            assert shares[claim.job_key] == claim.held
