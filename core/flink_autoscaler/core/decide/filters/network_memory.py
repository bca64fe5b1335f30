"""Network memory: scale-ups go only as far as every TaskManager has the buffers that its tasks need to start."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

from flink_autoscaler.core.decide.limits.slots import planned_parallelism, shortened
from flink_autoscaler.core.decide.plan import Plan, plan_event
from flink_autoscaler.core.model.metrics import VertexId
from flink_autoscaler.core.model.topology import JobTopology, ShipStrategy, Vertex
from flink_autoscaler.core.ports.passes import EvaluatedJob

SHARE: Final = 0.95
"""Part of the network memory that a plan may need; a little is taken by others."""

_ONE_TO_ONE: Final = frozenset({ShipStrategy.FORWARD})
_NEIGHBOURS: Final = frozenset({ShipStrategy.RESCALE})


def within_network_memory(plan: Plan, job: EvaluatedJob) -> Plan:
    """Raise vertices only as far as every TaskManager has network buffers for its tasks."""
    capacity, topology = job.context.capacity, job.topology
    if capacity is None or not capacity.network_memory or not job.context.options.network_precheck:
        return plan
    slots, segment = capacity.slots_per_taskmanager, job.context.flink_options.segment_size
    now, planned = (planned_parallelism(topology, changes) for changes in ({}, plan.changes))
    # A job that runs with more than the model allows shows that the model is too strict for it.
    limit = max(math.floor(SHARE * capacity.network_memory / segment), buffers_needed(topology, now, slots))
    needed = buffers_needed(topology, planned, slots)
    if needed <= limit:
        return plan
    fitting = shortened(topology, plan.changes, lambda vector: buffers_needed(topology, vector, slots) <= limit)
    mebibytes = capacity.network_memory / (1 << 20)
    text = f"{needed} network buffers needed on a TaskManager, {limit} of {mebibytes:.0f} MiB may be taken"
    message = f"A scale-up is limited by network memory: {text}; raise taskmanager.memory.network.max or .fraction"
    event = plan_event(job.context, "NetworkMemoryLimited", message, "NetworkMemoryLimited")
    return plan.resized(fitting, now).explained("NETWORK_MEMORY", text).told(event)


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
