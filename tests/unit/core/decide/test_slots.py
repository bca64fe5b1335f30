"""How far a plan goes with what a resource manager can still give."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flink_autoscaler.core.decide.slots import (
    AvailableCapacity,
    FreeSlotsCheck,
    Quota,
    TaskManagerSize,
    available_capacity,
    exceeds_quota,
    free_slots,
    limit_text,
    slots_after,
    slots_of,
    taskmanagers_for,
    taskmanagers_to_add,
    within_capacity,
)
from flink_autoscaler.core.model.decision import Hold, Rescale
from flink_autoscaler.core.model.job import Headroom
from flink_autoscaler.core.model.reading import ClusterReading
from flink_autoscaler.core.model.state import ScalingSummaries
from flink_autoscaler.core.model.topology import JobTopology, ShipStrategy
from flink_autoscaler.core.ports.plugins import ResourceRequest
from testkit.builders.core import a_plan, a_topology, a_vertex, vertex_id
from testkit.builders.core_passes import SOURCE, outcome_after_full_window

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


GROUPS = a_topology(
    a_vertex(1, parallelism=8, group="g1"),
    a_vertex(2, parallelism=5, inputs={1: HASH}, group="g1"),
    a_vertex(3, parallelism=3, inputs={2: HASH}, group="g2"),
    a_vertex(4, parallelism=40, inputs={3: HASH}, group="g2"),
)


GIB = 1 << 30


def quota(cpu: float | None = None, memory_gib: int | None = None) -> Quota:
    return Quota(cpu, None if memory_gib is None else memory_gib * GIB, 2.0, 4 * GIB, 4)


def test_a_plan_that_needs_no_more_taskmanagers_is_within_any_quota() -> None:
    assert not exceeds_quota(GROUPS, a_plan({1: (8, 9)}), quota(cpu=0.1))


def test_a_scale_down_is_within_any_quota() -> None:
    assert not exceeds_quota(GROUPS, a_plan({4: (40, 20)}), quota(cpu=0.1))


def test_there_is_no_quota_without_slot_sharing_groups() -> None:
    assert not exceeds_quota(CHAIN, a_plan({1: (4, 400)}), quota(cpu=0.1))


@pytest.mark.parametrize(
    ("reported", "expected"),
    [("3", 3), ("0", 0), ("3.0", 3), ("NaN", None), ("Infinity", None), ("many", None), (None, None)],
)
def test_free_slots_are_what_the_jobmanager_reports(reported: str | None, expected: int | None) -> None:
    metrics = {} if reported is None else {"taskSlotsAvailable": reported}

    assert free_slots(ClusterReading(jobmanager=metrics)) == expected


CHOSEN = {"job.autoscaler.resource-check": "free-slots"}


# Needs twice the slots that the job has: at a target of 0.25 its ten subtasks become twenty.
GROWS = {"job.autoscaler.utilization.target": "0.25", "job.autoscaler.utilization.max": "0.3"}


@pytest.mark.parametrize(
    ("more", "available", "expected"),
    [
        pytest.param(3, "3", True, id="just enough"),
        pytest.param(4, "3", False, id="one short"),
        pytest.param(-2, "0", True, id="shrinking needs nothing"),
        pytest.param(0, None, True, id="no growth, number unknown"),
        pytest.param(1, None, False, id="growth, number unknown"),
        pytest.param(1, "many", False, id="growth, not a number"),
        pytest.param(1, "NaN", False, id="growth, NaN"),
    ],
)
def test_a_plan_has_to_fit_into_the_free_slots(more: int, available: str | None, expected: bool) -> None:
    request = ResourceRequest(1, 2, 1.0, 1, slots_used=4, slots_needed=4 + more, more_slots=more)
    cluster = ClusterReading({} if available is None else {"taskSlotsAvailable": available})

    assert FreeSlotsCheck().try_schedule(request, cluster) is expected


def test_a_job_that_chose_the_check_is_held_back_where_no_slot_is_free() -> None:
    options = {**GROWS, "job.autoscaler.utilization.min": "0"}

    free, checked = outcome_after_full_window(options), outcome_after_full_window({**options, **CHOSEN})

    assert isinstance(free.decision, Rescale)
    assert free.decision.summaries[SOURCE].new > 10
    assert isinstance(checked.decision, Hold)
    assert [event.reason for event in checked.events] == ["NotSchedulable"]
    assert dict(checked.state.overrides) == {}


def test_a_job_that_chose_the_check_may_shrink() -> None:
    outcome = outcome_after_full_window(CHOSEN)

    assert isinstance(outcome.decision, Rescale)
    assert outcome.decision.summaries[SOURCE].new < 10


MB = 1 << 20


ROOMY = Headroom("somebody")


GROUPED = a_topology(
    a_vertex(1, parallelism=8, group="g1"),
    a_vertex(2, parallelism=5, inputs={1: ShipStrategy.HASH}, group="g1"),
    a_vertex(3, parallelism=3, inputs={2: ShipStrategy.HASH}, group="g2"),
)


@pytest.mark.parametrize(
    ("plan", "room", "expected"),
    [
        pytest.param({1: (8, 20)}, AvailableCapacity(0, 3, 4), {1: 20}, id="all of it fits"),
        pytest.param({1: (8, 20)}, AvailableCapacity(0, None, 4), {1: 20}, id="no limit is known"),
        pytest.param({1: (8, 20)}, AvailableCapacity(0, 2, 4), {1: 16}, id="two TaskManagers"),
        pytest.param({1: (8, 20)}, AvailableCapacity(3, 2, 4), {1: 19}, id="and slots that are free"),
        pytest.param({1: (8, 20)}, AvailableCapacity(0, 0, 4), {}, id="nothing left"),
        pytest.param({1: (8, 20)}, AvailableCapacity(5, 0, 4), {1: 13}, id="free slots only"),
        # Half of 12 and of 6 steps are nine more slots.
        pytest.param(
            {1: (8, 20), 3: (3, 9)}, AvailableCapacity(1, 2, 4), {1: 14, 3: 6}, id="an equal share of every scale-up"
        ),
        pytest.param(
            {1: (8, 4), 3: (3, 9)}, AvailableCapacity(0, 0, 4), {1: 4, 3: 6}, id="what a scale-down frees may be used"
        ),
        pytest.param({1: (8, 4), 3: (3, 2)}, AvailableCapacity(0, 0, 4), {1: 4, 3: 2}, id="scale-downs only"),
        pytest.param({2: (5, 8)}, AvailableCapacity(0, 0, 4), {2: 8}, id="below the widest vertex of the group"),
    ],
)
def test_a_plan_goes_as_far_as_the_room_allows(
    plan: dict[int, tuple[int, int]], room: AvailableCapacity, expected: dict[int, int]
) -> None:
    allowed = within_capacity(GROUPED, a_plan(plan), room)

    assert allowed == {vertex_id(number): parallelism for number, parallelism in expected.items()}


@pytest.mark.parametrize(
    ("headroom", "allowed", "expected"),
    [
        pytest.param(
            Headroom("YARN queue root.streaming", cpu=5.0, memory=9000 * MB),
            {1: 16, 3: 3},
            "YARN queue root.streaming can give 2 more TaskManagers (9000 MB, 5 CPUs left), 1 slot free: "
            "vertex 1 8 -> 16 instead of 20, vertex 3 stays at 3 instead of 9",
            id="memory and CPUs",
        ),
        pytest.param(
            Headroom("the ledger", taskmanagers=0, slots=0),
            {1: 20},
            "the ledger can give no more TaskManagers: vertex 3 stays at 3 instead of 9",
            id="what goes through is not named",
        ),
        pytest.param(
            Headroom("x", taskmanagers=1, cpu=1.5, slots=2),
            {1: 20, 3: 4},
            "x can give 1 more TaskManager (1.5 CPUs left), 2 slots free: vertex 3 3 -> 4 instead of 9",
            id="one of each",
        ),
    ],
)
def test_the_limit_is_told_with_numbers(headroom: Headroom, allowed: dict[int, int], expected: str) -> None:
    room = available_capacity(headroom, TaskManagerSize(4, memory=4 * GIB), 1)

    text = limit_text(
        headroom,
        room,
        topology=GROUPED,
        summaries=a_plan({1: (8, 20), 3: (3, 9)}),
        allowed={vertex_id(number): parallelism for number, parallelism in allowed.items()},
    )

    assert text == expected


def test_the_text_stays_short_whatever_the_job() -> None:
    topology = a_topology(*(replace(a_vertex(number), name="x" * 500) for number in range(1, 301)))
    plan = a_plan(dict.fromkeys(range(1, 301), (1, 2)))

    text = limit_text(ROOMY, AvailableCapacity(0, 0, 1), topology=topology, summaries=plan, allowed={})

    assert len(text) < 600
    assert text.endswith("295 more vertices likewise")


parallelisms = st.integers(1, 60)


rooms = st.builds(AvailableCapacity, st.integers(0, 20), st.integers(0, 20), st.integers(1, 5))


@st.composite
def plans(draw: st.DrawFn) -> tuple[JobTopology, ScalingSummaries]:
    """Make a job of one to five vertices in up to two slot sharing groups, and a plan that changes some of them."""
    now = draw(st.lists(parallelisms, min_size=1, max_size=5))
    has_groups = draw(st.booleans())
    groups = draw(st.lists(st.sampled_from(["a", "b"]), min_size=len(now), max_size=len(now)))
    topology = a_topology(
        *(
            a_vertex(number, parallelism=current, group=groups[number - 1] if has_groups else None)
            for number, current in enumerate(now, start=1)
        )
    )
    wanted = draw(st.lists(parallelisms, min_size=len(now), max_size=len(now)))
    changes = {number: pair for number, pair in enumerate(zip(now, wanted, strict=True), start=1) if pair[0] != pair[1]}
    return topology, a_plan(changes or {1: (now[0], now[0] + 1)})


def slots_more(topology: JobTopology, allowed: dict[str, int]) -> int:
    now = {vertex.vertex_id: vertex.parallelism for vertex in topology.vertices.values()}
    return slots_of(topology, {**now, **allowed}) - slots_of(topology, now)


@given(planned=plans(), room=rooms)
def test_what_is_left_of_a_plan_never_takes_more_than_the_room(
    planned: tuple[JobTopology, ScalingSummaries], room: AvailableCapacity
) -> None:
    topology, summaries = planned

    allowed = within_capacity(topology, summaries, room)

    beyond = slots_more(topology, allowed) - room.free_slots
    assert room.taskmanagers is not None
    assert taskmanagers_for(max(0, beyond), room.slots_per_taskmanager) <= room.taskmanagers


@given(planned=plans(), room=rooms)
def test_no_vertex_leaves_the_way_from_its_parallelism_to_the_planned_one(
    planned: tuple[JobTopology, ScalingSummaries], room: AvailableCapacity
) -> None:
    topology, summaries = planned

    allowed = within_capacity(topology, summaries, room)

    for vertex, summary in summaries.items():
        parallelism = allowed.get(vertex, summary.current)
        if summary.is_scale_up:
            assert summary.current <= parallelism <= summary.new
        else:
            assert parallelism == summary.new
    assert allowed.keys() <= summaries.keys()


@given(planned=plans(), room=rooms, slots=st.integers(0, 20), taskmanagers=st.integers(0, 20))
def test_more_room_never_leaves_less_of_a_plan(
    planned: tuple[JobTopology, ScalingSummaries], room: AvailableCapacity, slots: int, taskmanagers: int
) -> None:
    topology, summaries = planned
    assert room.taskmanagers is not None
    greater = replace(room, free_slots=room.free_slots + slots, taskmanagers=room.taskmanagers + taskmanagers)

    less, more = within_capacity(topology, summaries, room), within_capacity(topology, summaries, greater)

    for vertex, summary in summaries.items():
        assert less.get(vertex, summary.current) <= more.get(vertex, summary.current)


@given(planned=plans(), slots=st.integers(1, 5))
def test_ample_room_leaves_all_of_a_plan(planned: tuple[JobTopology, ScalingSummaries], slots: int) -> None:
    topology, summaries = planned
    needed = taskmanagers_to_add(topology, summaries, AvailableCapacity(0, None, slots))

    allowed = within_capacity(topology, summaries, AvailableCapacity(0, needed, slots))

    assert allowed == {vertex: summary.new for vertex, summary in summaries.items()}


@given(
    left=st.integers(0, 10**15),
    cpu_left=st.floats(0, 1e6),
    memory=st.integers(1, 10**12),
    cpu=st.floats(0.1, 100),
    step=st.integers(1, 10**10),
)
def test_the_worth_of_a_headroom_never_exceeds_it(
    left: int, cpu_left: float, memory: int, cpu: float, step: int
) -> None:
    headroom = Headroom("x", cpu=cpu_left, memory=left, memory_step=step)

    room = available_capacity(headroom, TaskManagerSize(1, cpu, memory), 0)

    assert room.taskmanagers is not None
    assert room.taskmanagers * memory <= left
    assert room.taskmanagers * cpu <= cpu_left * (1 + 1e-12)
