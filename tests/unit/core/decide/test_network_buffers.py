from __future__ import annotations

import pytest

from flink_autoscaler.core.decide.filters import SHARE, required_buffers
from flink_autoscaler.core.model.topology import JobTopology, ShipStrategy
from testkit.builders.core import a_topology, a_vertex, vertex_id


def two_vertices(strategy: ShipStrategy = ShipStrategy.HASH, **second: str) -> JobTopology:
    return a_topology(a_vertex(1, group="a"), a_vertex(2, inputs={1: strategy}, group=second.get("group", "a")))


def equal(parallelism: int) -> dict[str, int]:
    return {vertex_id(1): parallelism, vertex_id(2): parallelism}


@pytest.mark.parametrize(("parallelism", "buffers"), [(100, 1208), (200, 2408), (170, 2048)])
def test_all_to_all_edges_need_buffers_for_every_pair(parallelism: int, buffers: int) -> None:
    assert required_buffers(two_vertices(), equal(parallelism), 4) == buffers


def test_the_largest_parallelism_that_64_mebibytes_hold() -> None:
    fitting = [p for p in range(1, 300) if required_buffers(two_vertices(), equal(p), 4) <= (64 << 20) // (32 << 10)]
    advised = [p for p in fitting if required_buffers(two_vertices(), equal(p), 4) <= SHARE * 2048]

    assert (max(fitting), max(advised)) == (170, 161)


def test_forward_edges_need_one_channel() -> None:
    assert required_buffers(two_vertices(ShipStrategy.FORWARD), equal(100), 4) == 4 * (3 + 2)


def test_neighbours_share_what_is_on_the_other_side() -> None:
    parallelism = {vertex_id(1): 8, vertex_id(2): 2}

    # Each of the 8 writes to one, each of the 2 reads from four; four slots hold at most two of the latter.
    assert required_buffers(two_vertices(ShipStrategy.RESCALE), parallelism, 4) == 4 * 2 + 2 * 9


def test_groups_do_not_share_a_slot() -> None:
    together = required_buffers(two_vertices(), equal(10), 4)

    assert required_buffers(two_vertices(group="b"), equal(10), 4) < together


def test_finished_vertices_need_none() -> None:
    topology = a_topology(a_vertex(1, is_finished=True))

    assert required_buffers(topology, {vertex_id(1): 50}, 4) == 0
