from dataclasses import replace

import pytest

from flink_autoscaler.core.errors import NotReadyError, ResponseError
from flink_autoscaler.core.model.topology import IoMetrics, PlanNode, ShipStrategy, build_topology
from testkit.builders.core import a_vertex, details_of, vertex_id

HASH, FORWARD = ShipStrategy.HASH, ShipStrategy.FORWARD
SOURCE = a_vertex(1, parallelism=4, max_parallelism=720, group="g1", io=IoMetrics(10, 20, 30.0))
MAP = a_vertex(2, inputs={1: HASH}, group="g1")
SINK = a_vertex(3, inputs={2: FORWARD}, group="g2")


def test_a_vertex_combines_plan_and_details() -> None:
    topology = build_topology(details_of([SOURCE, MAP]))

    source = topology.vertices[vertex_id(1)]
    assert (source.parallelism, source.max_parallelism, source.slot_sharing_group) == (4, 720, "g1")
    assert source.io == IoMetrics(10, 20, 30.0)
    assert source.is_source
    assert not topology.vertices[vertex_id(2)].is_source


def test_parallelism_comes_from_the_plan() -> None:
    details = details_of([SOURCE])
    details = replace(details, plan=(replace(details.plan[0], parallelism=7),))

    topology = build_topology(details)

    assert topology.vertices[vertex_id(1)].parallelism == 7


def test_outputs_are_the_inverse_of_inputs() -> None:
    topology = build_topology(details_of([SOURCE, MAP, SINK]))

    assert topology.vertices[vertex_id(1)].outputs == {vertex_id(2): HASH}
    assert topology.vertices[vertex_id(2)].outputs == {vertex_id(3): FORWARD}
    assert topology.vertices[vertex_id(3)].outputs == {}


def test_inputs_come_before_outputs_whatever_the_order_of_the_plan() -> None:
    topology = build_topology(details_of([SINK, MAP, SOURCE]))

    assert list(topology.vertices) == [vertex_id(1), vertex_id(2), vertex_id(3)]


def test_the_later_of_two_edges_between_the_same_vertices_wins() -> None:
    details = details_of([SOURCE, MAP])
    twice = PlanNode(vertex_id(2), 1, ((vertex_id(1), HASH), (vertex_id(1), FORWARD)))

    topology = build_topology(replace(details, plan=(details.plan[0], twice)))

    assert topology.vertices[vertex_id(2)].inputs == {vertex_id(1): FORWARD}
    assert topology.vertices[vertex_id(1)].outputs == {vertex_id(2): FORWARD}


def test_a_finished_vertex_has_no_io() -> None:
    topology = build_topology(details_of([replace(SOURCE, is_finished=True), MAP]))

    assert topology.finished == {vertex_id(1)}
    assert topology.vertices[vertex_id(1)].io == IoMetrics(0, 0, 0.0)


def test_slot_sharing_groups_leave_out_vertices_without_a_group() -> None:
    topology = build_topology(details_of([SOURCE, MAP, replace(SINK, slot_sharing_group=None)]))

    assert topology.slot_sharing_groups == {"g1": {vertex_id(1), vertex_id(2)}}


def test_partitions_are_filled_in_where_they_are_known() -> None:
    topology = build_topology(details_of([SOURCE, MAP])).with_partitions({vertex_id(1): 24})

    assert [vertex.source_partitions for vertex in topology.vertices.values()] == [24, 0]


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
