from __future__ import annotations

from dataclasses import replace

import pytest

from flink_autoscaler.core.model.vertex_patterns import VertexBounds, matching, parse_vertex_bounds
from flink_autoscaler.core.policies.base.sizing import SizingSettings, limits_of
from testkit.builders.core import a_topology, a_vertex, vertex_id

TOPOLOGY = a_topology(a_vertex(1), a_vertex(2), a_vertex(12))


@pytest.mark.parametrize(
    ("patterns", "numbers"),
    [(["vertex 1*"], [1, 12]), ([vertex_id(2)], [2]), (["*"], [1, 2, 12]), (["Vertex 1"], []), ([], [])],
    ids=["a name pattern", "an id", "all", "case counts", "none"],
)
def test_vertices_are_chosen_by_id_or_name(patterns: list[str], numbers: list[int]) -> None:
    assert matching(TOPOLOGY, patterns) == set(map(vertex_id, numbers))


@pytest.mark.parametrize("pattern", ["Source: orders[1]", "Source: *[1]", "source: orders[1]"])
def test_a_bracket_of_a_name_is_a_bracket(pattern: str) -> None:
    """Names of Flink SQL have them."""
    topology = a_topology(replace(a_vertex(1), name="Source: orders[1]"), replace(a_vertex(2), name="Source: orders1"))

    assert matching(topology, [pattern]) == ({vertex_id(1)} if pattern[0] == "S" else set())


@pytest.mark.parametrize(
    ("text", "bounds"),
    [
        ("", ()),
        ("map=2..8", (VertexBounds("map", 2, 8),)),
        ("Source: a=b=1..; sink=..3", (VertexBounds("Source: a=b", 1, None), VertexBounds("sink", None, 3))),
    ],
    ids=["nothing", "both ends", "open ends and odd names"],
)
def test_bounds_are_read(text: str, bounds: tuple[VertexBounds, ...]) -> None:
    assert parse_vertex_bounds(text) == bounds


@pytest.mark.parametrize("text", ["map", "map=3", "=1..2", "map=5..2", "map=0..2", "map=a..b"])
def test_unusable_bounds_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"parallelism|not|number"):
        parse_vertex_bounds(text)


@pytest.mark.parametrize(
    ("bounds", "lower", "bound"),
    [("", 1, 20), ("vertex 1=2..6", 2, 6), ("vertex 2=2..6", 1, 20), ("*=3..;vertex 1=9..9", 3, 20), ("*=..2", 1, 4)],
    ids=["none", "its own", "another one's", "the first match counts", "never below the present parallelism"],
)
def test_bounds_of_a_vertex_go_before_the_general_ones(bounds: str, lower: int, bound: int) -> None:
    settings = SizingSettings(
        utilization_target=0.7,
        catch_up=0,
        restart_time=0,
        min_factor=0.1,
        max_factor=10.0,
        min_parallelism=1,
        max_parallelism=20,
        caps_sources=True,
        bounds=parse_vertex_bounds(bounds),
    )

    limits = limits_of(a_vertex(1, parallelism=4), 4, settings)

    assert (limits.lower, limits.bound) == (lower, bound)
