"""The sizes that a job can have, and what each is worth."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flink_autoscaler.core.policies.slo.arrivals import ObservedVertex
from flink_autoscaler.core.policies.slo.capacity import SubtaskCapacity
from flink_autoscaler.core.policies.slo.levels import Levels, levels, present_level, vertex_capacities

EASY = SubtaskCapacity.first(100.0, 4.0)
"""100 records/s per subtask, whatever the parallelism."""


def sizes(
    vertices: dict[str, ObservedVertex],
    mix: dict[str, float],
    reach: tuple[float, float] = (1.0, 20.0),
    capacity: SubtaskCapacity = EASY,
) -> Levels:
    found = levels(vertices, vertex_capacities(vertices, dict.fromkeys(vertices, capacity), mix, {}), reach)
    assert found is not None
    return found


def test_even_vertex_has_one_level_per_slot() -> None:
    found = sizes({"map": ObservedVertex(4)}, {"map": 100.0}, reach=(3.0, 8.0))

    places = {slots: capacity for slots, capacity in zip(found.slots, found.capacities, strict=True) if slots >= 3}
    assert list(places) == [3, 4, 5, 6, 7, 8]
    assert list(places.values()) == pytest.approx([3.0, 4.0, 5.0, 6.0, 7.0, 8.0])
    assert not found.is_limited


def test_level_is_worth_its_weakest_vertex() -> None:
    vertices = {"source": ObservedVertex(4), "window": ObservedVertex(4)}

    found = sizes(vertices, {"source": 50.0, "window": 100.0})

    assert dict(zip(found.slots, found.capacities, strict=True))[6] == pytest.approx(6.0)
    assert found.level(found.index(6)).parallelism == {"source": 4, "window": 6}


def test_spare_slots_of_a_group_go_to_other_vertices_up_to_a_tenth() -> None:
    vertices = {"source": ObservedVertex(4), "window": ObservedVertex(4)}

    found = sizes(vertices, {"source": 50.0, "window": 100.0}, reach=(1.0, 40.0))

    assert found.level(found.index(40)).parallelism == {"source": 22, "window": 40}


def test_vertex_that_will_need_more_gets_it_where_that_is_free() -> None:
    vertices = {"source": ObservedVertex(4), "window": ObservedVertex(4)}
    mix, max_mix = {"source": 50.0, "window": 100.0}, {"source": 80.0, "window": 100.0}

    found = levels(vertices, vertex_capacities(vertices, dict.fromkeys(vertices, EASY), mix, max_mix), (1.0, 40.0))

    assert found is not None
    assert found.level(found.index(40)).parallelism == {"source": 36, "window": 40}
    assert dict(zip(found.slots, found.capacities, strict=True))[40] == pytest.approx(40.0)


def test_groups_of_slots_add_up() -> None:
    vertices = {"source": ObservedVertex(2, slot_group="a"), "window": ObservedVertex(4, slot_group="b")}

    found = sizes(vertices, {"source": 50.0, "window": 100.0})

    assert dict(zip(found.slots, found.capacities, strict=True))[9] == pytest.approx(6.0)
    assert found.level(found.index(9)).parallelism == {"source": 3, "window": 6}


def test_key_groups_make_levels_that_even_shares_would_not() -> None:
    found = sizes({"window": ObservedVertex(4, groups=12)}, {"window": 100.0})

    assert found.slots == (1, 2, 3, 4, 6, 12)
    assert found.capacities == pytest.approx((1.0, 2.0, 3.0, 4.0, 6.0, 12.0))


def test_what_alignment_would_round_is_not_offered() -> None:
    found = sizes({"window": ObservedVertex(4, allowed=(1, 2, 4, 8, 16))}, {"window": 100.0}, reach=(1.0, 10.0))

    assert found.slots == (1, 2, 4, 8, 16)
    assert found.level(found.index(5)).parallelism == {"window": 8}


def test_bounds_of_one_vertex_limit_the_job() -> None:
    vertices = {"source": ObservedVertex(4, greatest=6), "window": ObservedVertex(4, least=3)}

    found = sizes(vertices, {"source": 100.0, "window": 100.0})

    assert found.slots == (3, 4, 5, 6)
    assert found.is_limited


def test_vertex_of_which_nothing_is_known_stays_as_it_is_within_the_slots() -> None:
    vertices = {"map": ObservedVertex(8), "sink": ObservedVertex(5)}

    found = levels(vertices, vertex_capacities(vertices, {"map": EASY}, {"map": 100.0}, {}), (1.0, 20.0))

    assert found is not None
    assert found.level(found.index(3)).parallelism == {"map": 3, "sink": 3}
    assert found.level(found.index(12)).parallelism == {"map": 12, "sink": 5}


def test_nothing_is_offered_while_nothing_is_known() -> None:
    assert levels({"map": ObservedVertex(4)}, {}, (1.0, 20.0)) is None


def test_present_size_has_the_capacity_of_its_own_vector() -> None:
    vertices = {"source": ObservedVertex(2), "window": ObservedVertex(8)}

    found = present_level(
        vertices, vertex_capacities(vertices, dict.fromkeys(vertices, EASY), dict.fromkeys(vertices, 100.0), {})
    )

    assert found.slots == 8
    assert found.capacity == pytest.approx(2.0)


def test_loss_with_parallelism_makes_a_level_worth_less() -> None:
    lossy = SubtaskCapacity(math.log(100.0), 0.2, 10.0)

    found = sizes({"map": ObservedVertex(10)}, {"map": 100.0}, reach=(1.0, 30.0), capacity=lossy)

    capacities = dict(zip(found.slots, found.capacities, strict=True))
    assert capacities[10] == pytest.approx(10.0)
    assert capacities[40] == pytest.approx(40.0 * 4.0**-0.2)


def test_thousands_of_slots_are_a_few_hundred_levels() -> None:
    found = sizes({"map": ObservedVertex(2000)}, {"map": 100.0}, reach=(500.0, 6000.0))

    assert 100 < len(found.slots) < 200
    assert all(after / before < 1.03 for before, after in zip(found.slots[1:-1], found.slots[2:], strict=True))


@st.composite
def seen_vertices(draw: st.DrawFn) -> ObservedVertex:
    least = draw(st.integers(1, 50))
    greatest = draw(st.integers(least, 3000))
    groups = draw(st.none() | st.integers(1, 32768))
    allowed = draw(
        st.none()
        | st.lists(st.integers(least, greatest), min_size=1, max_size=20).map(lambda each: tuple(sorted(set(each))))
    )
    return ObservedVertex(
        draw(st.integers(1, 3000)),
        least=least,
        greatest=greatest,
        groups=groups,
        allowed=allowed,
        slot_group=draw(st.sampled_from("ab")),
    )


STRENGTHS = st.tuples(st.floats(1e-9, 1e9), st.floats(-0.05, 0.8), st.floats(0.5, 3000.0), st.floats(0.0, 1e9))


@given(
    st.lists(st.tuples(seen_vertices(), STRENGTHS), min_size=1, max_size=4), st.floats(1e-3, 1e6), st.floats(1.0, 20.0)
)
def test_levels_rise_and_stay_within_bounds(
    drawn: list[tuple[ObservedVertex, tuple[float, float, float, float]]], low: float, factor: float
) -> None:
    vertices = {str(place): vertex for place, (vertex, _) in enumerate(drawn)}
    capacities = {str(place): SubtaskCapacity(math.log(s[0]), s[1], s[2]) for place, (_, s) in enumerate(drawn)}
    known = vertex_capacities(vertices, capacities, {str(place): s[3] for place, (_, s) in enumerate(drawn)}, {})

    found = levels(vertices, known, (low, low * factor))

    assert (found is None) == (not known)
    if found is not None:
        assert list(found.slots) == sorted(set(found.slots))
        assert list(found.capacities) == sorted(set(found.capacities))
        for index in (0, len(found.slots) // 2, len(found.slots) - 1):
            level = found.level(index)
            assert all(
                vertices[key].least <= each <= vertices[key].greatest
                for key, each in level.parallelism.items()
                if key in known
            )
