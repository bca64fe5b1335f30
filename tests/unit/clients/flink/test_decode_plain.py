"""What is decoded in the quick way comes to the same as in the careful one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flink_autoscaler.clients.flink.decode import careful_aggregates, careful_node, careful_vertex
from flink_autoscaler.clients.flink.decode_plain import plain_aggregates, plain_node, plain_vertex
from flink_autoscaler.clients.http.json_object import JsonObject

FIXTURES = Path(__file__).parents[3] / "fixtures"
LEAF = (
    st.none()
    | st.booleans()
    | st.integers(-2, 2)
    | st.sampled_from([2**31, 2**63, 1.5, "NaN", "RUNNING", "ä", "\ud800", "x" * 70_000, []])
    | st.floats()
)

VERTEX: dict[str, Any] = {
    "id": "a", "name": "v", "parallelism": 2, "maxParallelism": 128, "status": "RUNNING",
    "start-time": 1_700_000_000_000, "slotSharingGroupId": "g", "tasks": {"RUNNING": 2, "FAILED": 0},
    "metrics": {
        "read-records": 5, "read-records-complete": True, "write-records": 7, "write-records-complete": True,
        "accumulated-busy-time": 1.5, "accumulated-idle-time": 3, "accumulated-backpressured-time": 0,
    },
}  # fmt: skip
NODE: dict[str, Any] = {"id": "a", "parallelism": 2, "inputs": [{"id": "b", "ship_strategy": "HASH"}]}
METRIC: dict[str, Any] = {"id": "m", "min": 0.0, "max": 2.0, "avg": 1.0, "sum": 4.0, "skew": 50.0}


def with_leaf(value: Any, path: list[int], leaf: Any) -> Any:
    """Return a value with one part replaced or, where the leaf is an empty list, left out."""
    if not path or not isinstance(value, dict | list) or not value:
        return leaf
    keys = list(value) if isinstance(value, dict) else list(range(len(value)))
    key = keys[path[0] % len(keys)]
    if isinstance(value, dict) and len(path) == 1 and leaf == []:
        return {name: each for name, each in value.items() if name != key}
    changed = with_leaf(value[key], path[1:], leaf)
    return {**value, key: changed} if isinstance(value, dict) else [*value[:key], changed, *value[key + 1 :]]


paths = st.lists(st.integers(0, 9), min_size=1, max_size=3)


def test_what_is_as_documented_is_plain() -> None:
    assert plain_vertex(JsonObject(VERTEX, "vertex")) == careful_vertex(JsonObject(VERTEX, "vertex"))
    assert plain_node(JsonObject(NODE, "node")) == careful_node(JsonObject(NODE, "node"))
    assert plain_aggregates([METRIC]) == careful_aggregates([METRIC])


@given(paths, LEAF)
def test_a_vertex_that_is_plain_comes_to_the_same(path: list[int], leaf: Any) -> None:
    entry = JsonObject(with_leaf(VERTEX, path, leaf) or {}, "vertex")
    found = plain_vertex(entry)

    assert found is None or repr(found) == repr(careful_vertex(entry))


@given(paths, LEAF)
def test_a_plan_node_that_is_plain_comes_to_the_same(path: list[int], leaf: Any) -> None:
    entry = JsonObject(with_leaf(NODE, path, leaf) or {}, "node")
    found = plain_node(entry)

    assert found is None or found == careful_node(entry)


@given(paths, LEAF)
def test_aggregates_that_are_plain_come_to_the_same(path: list[int], leaf: Any) -> None:
    answer = with_leaf([METRIC, {**METRIC, "id": "n"}], path, leaf)
    found = plain_aggregates(answer)

    assert found is None or repr(found) == repr(careful_aggregates(answer))


@pytest.mark.parametrize("version", ["1.20", "2.3"])
def test_recorded_details_are_plain(version: str) -> None:
    files = (FIXTURES / f"flink-{version}").glob("job_details*.json")
    details = [json.loads(path.read_text()) for path in files]
    vertices = [JsonObject(each, "vertex") for job in details for each in job.get("vertices", ())]

    found = [(plain_vertex(each), careful_vertex(each)) for each in vertices]

    assert any(plain is not None for plain, _ in found)
    assert all(plain in (None, careful) for plain, careful in found)
