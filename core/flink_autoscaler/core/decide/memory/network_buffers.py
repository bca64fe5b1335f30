"""How many network buffers a TaskManager needs at least before the tasks of a plan start."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

from flink_autoscaler.core.model.metrics import VertexId
from flink_autoscaler.core.model.topology import JobTopology, ShipStrategy, Vertex

SHARE: Final = 0.95
"""Part of the network memory that a plan may need; a little is taken by others."""

_ONE_TO_ONE: Final = frozenset({ShipStrategy.FORWARD})
_NEIGHBOURS: Final = frozenset({ShipStrategy.RESCALE})


def buffers_needed(topology: JobTopology, parallelism: Mapping[VertexId, int], slots_per_taskmanager: int) -> int:
    """Return the buffers that the fullest TaskManager needs at least.

    An input needs two buffers per channel and one more, an output one per subpartition and one more. A TaskManager may
    host one subtask of every vertex of a slot sharing group in each of its slots.
    """
    groups: dict[str | None, int] = {}
    for vertex_id, vertex in topology.vertices.items():
        if vertex.is_finished:
            continue
        subtasks = min(parallelism[vertex_id], slots_per_taskmanager)
        group = vertex.slot_sharing_group
        groups[group] = groups.get(group, 0) + subtasks * _of_subtask(vertex, parallelism)
    return max(groups.values(), default=0)


def _of_subtask(vertex: Vertex, parallelism: Mapping[VertexId, int]) -> int:
    own = parallelism[vertex.vertex_id]
    inputs = sum(2 * _fan(strategy, parallelism[v], own) + 1 for v, strategy in vertex.inputs.items())
    outputs = sum(_fan(strategy, parallelism[v], own) + 1 for v, strategy in vertex.outputs.items())
    return inputs + outputs


def _fan(strategy: ShipStrategy, other: int, own: int) -> int:
    """Return with how many subtasks at the other end of an edge one subtask is connected."""
    if strategy in _ONE_TO_ONE and other == own:
        return 1
    return math.ceil(other / own) if strategy in _ONE_TO_ONE | _NEIGHBOURS else other
