from __future__ import annotations

import pytest

from flink_autoscaler.clients import ParallelismBounds
from flink_autoscaler.core.errors import RealizeError
from flink_autoscaler.realizers.in_place.requirements import (
    check_overrides,
    describe_change,
    wanted_requirements,
)

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


@pytest.mark.parametrize("unusable", [0, -1, True, 1.0, "2", None])
def test_an_unusable_override_is_refused_by_name(unusable: object) -> None:
    overrides: dict[str, object] = {"a": 1, "b": unusable}

    with pytest.raises(RealizeError, match="vertex b"):
        check_overrides(overrides)  # type: ignore[arg-type]


def test_a_change_reads_as_old_and_new_bounds_per_vertex() -> None:
    wanted = wanted_requirements(CURRENT, {"a": 3})

    assert describe_change(CURRENT, wanted) == "a 1..2 -> 1..3, b 2..4"
