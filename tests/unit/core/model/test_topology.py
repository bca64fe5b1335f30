from dataclasses import replace

import pytest

from flink_autoscaler.core.errors import NotReadyError, ResponseError
from flink_autoscaler.core.model.topology import IoMetrics, ShipStrategy, build_topology
from testkit.builders.core import a_vertex, details_of, vertex_id

HASH, FORWARD = ShipStrategy.HASH, ShipStrategy.FORWARD
SOURCE = a_vertex(1, parallelism=4, max_parallelism=720, group="g1", io=IoMetrics(10, 20, 30.0))
MAP = a_vertex(2, inputs={1: HASH}, group="g1")
SINK = a_vertex(3, inputs={2: FORWARD}, group="g2")


def test_an_empty_plan_is_not_ready() -> None:
    with pytest.raises(NotReadyError):
        build_topology(replace(details_of([SOURCE]), plan=()))


def test_a_vertex_that_is_in_the_plan_only_is_an_error() -> None:
    with pytest.raises(ResponseError, match=vertex_id(1)):
        build_topology(replace(details_of([SOURCE]), vertices=()))


def test_an_input_that_is_not_in_the_plan_is_an_error() -> None:
    with pytest.raises(ResponseError, match=vertex_id(1)):
        build_topology(details_of([MAP]))


@pytest.mark.parametrize(
    "vertices",
    [
        pytest.param([a_vertex(1, inputs={1: HASH})], id="of one vertex"),
        pytest.param([a_vertex(1, inputs={2: HASH}), a_vertex(2, inputs={1: HASH}), SINK], id="of two"),
    ],
)
def test_a_cycle_is_an_error(vertices: list[object]) -> None:
    details = details_of([vertex for vertex in vertices if isinstance(vertex, type(SOURCE))])

    with pytest.raises(ResponseError, match="cycle"):
        build_topology(details)


@pytest.mark.parametrize(
    ("text", "expected"), [("HASH", HASH), ("rebalance", ShipStrategy.REBALANCE), ("WARP", ShipStrategy.UNKNOWN)]
)
def test_ship_strategies_are_read_in_any_case_and_new_ones_are_unknown(text: str, expected: ShipStrategy) -> None:
    assert ShipStrategy.of(text) is expected
