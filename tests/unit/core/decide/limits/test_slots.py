import math

import pytest

from flink_autoscaler.core.decide.limits.slots import (
    Quota,
    as_far_as,
    exceeds_quota,
    free_slots,
    slots_after,
    slots_of,
    taskmanagers_for,
    within_quota,
)
from flink_autoscaler.core.model.reading import ClusterReading
from flink_autoscaler.core.model.topology import ShipStrategy
from testkit.builders.core import a_plan, a_topology, a_vertex, vertex_id

HASH = ShipStrategy.HASH
CHAIN = a_topology(
    a_vertex(1, parallelism=4),
    a_vertex(2, parallelism=6, inputs={1: HASH}),
    a_vertex(3, parallelism=6, inputs={2: HASH}),
)


@pytest.mark.parametrize(
    ("slots_used", "expected"),
    [
        pytest.param(6.0, 10, id="shared: the widest vertex counts"),
        pytest.param(16.0, 22, id="not shared: all count"),
        pytest.param(10.0, 22, id="neither: all count"),
        pytest.param(math.nan, 22, id="unknown: all count"),
    ],
)
def test_slots_are_shared_when_as_many_are_used_as_the_widest_vertex_has(slots_used: float, expected: int) -> None:
    assert slots_after(CHAIN, a_plan({1: (4, 10)}), slots_used) == expected


@pytest.mark.parametrize(("slots", "expected"), [(12, 3), (22, 6), (0, 0), (1, 1)])
def test_taskmanagers_are_rounded_up(slots: int, expected: int) -> None:
    assert taskmanagers_for(slots, 4) == expected


GROUPS = a_topology(
    a_vertex(1, parallelism=8, group="g1"),
    a_vertex(2, parallelism=5, inputs={1: HASH}, group="g1"),
    a_vertex(3, parallelism=3, inputs={2: HASH}, group="g2"),
    a_vertex(4, parallelism=40, inputs={3: HASH}, group="g2"),
)
PLAN = a_plan({1: (8, 20), 2: (5, 6), 3: (3, 9)})
GIB = 1 << 30


def quota(cpu: float | None = None, memory_gib: int | None = None) -> Quota:
    return Quota(cpu, None if memory_gib is None else memory_gib * GIB, 2.0, 4 * GIB, 4)


@pytest.mark.parametrize(
    ("limit", "expected"),
    [
        pytest.param(quota(cpu=12), True, id="14 CPUs, 12 allowed"),
        pytest.param(quota(cpu=13.9), True, id="14 CPUs, 13.9 allowed"),
        pytest.param(quota(cpu=14), False, id="14 CPUs, 14 allowed"),
        pytest.param(quota(memory_gib=27), True, id="28 GiB, 27 allowed"),
        pytest.param(quota(memory_gib=28), False, id="28 GiB, 28 allowed"),
        pytest.param(quota(memory_gib=30), False, id="28 GiB, 30 allowed"),
        pytest.param(quota(cpu=99, memory_gib=27), True, id="one of two is enough"),
        pytest.param(quota(), False, id="no quota"),
    ],
)
def test_quota_counts_changed_vertices_only_and_rounds_down_in_the_reference(limit: Quota, expected: bool) -> None:
    assert exceeds_quota(GROUPS, PLAN, limit) is expected


def test_a_plan_that_needs_no_more_taskmanagers_is_within_any_quota() -> None:
    assert not exceeds_quota(GROUPS, a_plan({1: (8, 9)}), quota(cpu=0.1))


def test_a_scale_down_is_within_any_quota() -> None:
    assert not exceeds_quota(GROUPS, a_plan({4: (40, 20)}), quota(cpu=0.1))


def test_there_is_no_quota_without_slot_sharing_groups() -> None:
    assert not exceeds_quota(CHAIN, a_plan({1: (4, 400)}), quota(cpu=0.1))


def test_slots_of_a_job_are_those_of_its_groups_or_of_its_widest_vertex() -> None:
    groups = {vertex.vertex_id: vertex.parallelism for vertex in GROUPS.vertices.values()}
    chain = {vertex.vertex_id: vertex.parallelism for vertex in CHAIN.vertices.values()}

    assert slots_of(GROUPS, groups) == 8 + 40
    assert slots_of(CHAIN, chain) == 6


def test_a_group_that_does_not_change_does_not_count_in_the_reference() -> None:
    # 11 slots are still two TaskManagers, 12 are three of 2 CPUs.
    assert not exceeds_quota(GROUPS, a_plan({1: (8, 11)}), quota(cpu=0.1))
    assert not exceeds_quota(GROUPS, a_plan({1: (8, 12)}), quota(cpu=6))
    assert exceeds_quota(GROUPS, a_plan({1: (8, 16)}), quota(cpu=6))


UP = {1: (8, 20), 2: (5, 6), 3: (3, 13)}


@pytest.mark.parametrize(
    ("plan", "limit", "expected"),
    [
        # 20 and 40 slots are 15 TaskManagers; 14 have 56 slots, of which 16 are left for the first group.
        pytest.param(UP, quota(cpu=30), {1: 20, 2: 6, 3: 13}, id="all of it fits"),
        pytest.param(UP, quota(cpu=28), {1: 16, 3: 9}, id="an equal share of every scale-up"),
        pytest.param({1: (8, 21)}, quota(cpu=28), {1: 16}, id="the last slot counts"),
        pytest.param({1: (8, 9)}, quota(cpu=26), {1: 9}, id="a single step"),
        pytest.param({1: (8, 9)}, quota(cpu=24), {}, id="not even a single step"),
        pytest.param(UP, quota(cpu=10), {}, id="over the quota already"),
        pytest.param({1: (8, 4), 4: (40, 39)}, quota(cpu=10), {1: 4, 4: 39}, id="scale-downs only"),
        # Three of four steps take 9 and 43 slots, which are 13 TaskManagers.
        pytest.param({1: (8, 10), 4: (40, 44)}, quota(cpu=26), {1: 9, 4: 43}, id="three quarters of the plan"),
        pytest.param({1: (8, 30), 4: (40, 30)}, quota(cpu=26), {1: 22, 4: 30}, id="up and down"),
        pytest.param({1: (8, 20), 4: (40, 30)}, quota(cpu=1), {1: 18, 4: 30}, id="what a scale-down frees may be used"),
        pytest.param(UP, quota(), {1: 20, 2: 6, 3: 13}, id="no quota"),
    ],
)
def test_a_plan_goes_as_far_as_the_quota_allows(
    plan: dict[int, tuple[int, int]], limit: Quota, expected: dict[int, int]
) -> None:
    allowed = within_quota(GROUPS, a_plan(plan), limit)

    assert allowed == {vertex_id(number): parallelism for number, parallelism in expected.items()}


@pytest.mark.parametrize(
    ("reported", "expected"),
    [("3", 3), ("0", 0), ("3.0", 3), ("NaN", None), ("Infinity", None), ("many", None), (None, None)],
)
def test_free_slots_are_what_the_jobmanager_reports(reported: str | None, expected: int | None) -> None:
    metrics = {} if reported is None else {"taskSlotsAvailable": reported}

    assert free_slots(ClusterReading(jobmanager=metrics)) == expected


def test_a_limit_is_asked_a_few_times_however_far_a_plan_goes() -> None:
    asked: list[int] = []

    def fits(slots: int) -> bool:
        asked.append(slots)
        return slots <= 20_000

    allowed = as_far_as(CHAIN, a_plan({1: (4, 32_768)}), fits)

    assert allowed == {vertex_id(1): 20_000}
    assert len(asked) <= 17


def test_a_limit_is_not_asked_about_a_plan_that_needs_no_more_slots() -> None:
    assert as_far_as(CHAIN, a_plan({1: (4, 6)}), lambda slots: False) == {vertex_id(1): 6}
