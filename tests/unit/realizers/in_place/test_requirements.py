from __future__ import annotations

import pytest

from flink_autoscaler.clients.flink.decode import ParallelismBounds
from flink_autoscaler.realizers.in_place.rescale_api import describe_change, wanted_requirements

CURRENT = {"a": ParallelismBounds(1, 2), "b": ParallelismBounds(2, 4)}


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        pytest.param({"a": 2}, CURRENT, id="equal: keep"),
        pytest.param({"a": 3}, {**CURRENT, "a": ParallelismBounds(1, 3)}, id="other upper bound"),
        pytest.param({"b": 4}, {**CURRENT, "b": ParallelismBounds(1, 4)}, id="other lower bound"),
        pytest.param({"c": 4}, CURRENT, id="unknown vertex"),
        pytest.param({"a": 1, "b": 1}, {"a": ParallelismBounds(1, 1), "b": ParallelismBounds(1, 1)}, id="all"),
    ],
)
def test_wanted_requirements_name_every_vertex(
    overrides: dict[str, int], expected: dict[str, ParallelismBounds]
) -> None:
    assert wanted_requirements(CURRENT, overrides) == expected


@pytest.mark.parametrize(
    ("overrides", "text"),
    [
        pytest.param({"a": 3}, "work 1..2 -> 1..3", id="a name"),
        pytest.param({"b": 3}, "b 2..4 -> 1..3", id="no name"),
        pytest.param({"a": 3, "b": 3}, "work 1..2 -> 1..3, b 2..4 -> 1..3", id="two"),
    ],
)
def test_a_change_reads_as_old_and_new_bounds_by_the_names_of_the_vertices(
    overrides: dict[str, int], text: str
) -> None:
    assert describe_change(CURRENT, wanted_requirements(CURRENT, overrides), {"a": "work"}) == text
