"""Slots and TaskManagers that a plan needs, and the quotas on them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from flink_autoscaler.core.metrics import VertexId
from flink_autoscaler.core.numbers import trunc32
from flink_autoscaler.core.state import ScalingSummaries
from flink_autoscaler.core.topology import JobTopology


def planned_parallelism(topology: JobTopology, summaries: ScalingSummaries) -> dict[VertexId, int]:
    """Return the parallelism of every vertex after a plan."""
    return {
        vertex_id: summaries[vertex_id].new if vertex_id in summaries else vertex.parallelism
        for vertex_id, vertex in topology.vertices.items()
    }


def slots_after(topology: JobTopology, summaries: ScalingSummaries, slots_used: float) -> int:
    """Estimate the slots a job takes after a plan.

    Slots are taken as shared by all vertices when as many are in use as the widest vertex has subtasks.
    """
    planned = planned_parallelism(topology, summaries).values()
    widest = max(vertex.parallelism for vertex in topology.vertices.values())
    return max(planned) if widest == trunc32(slots_used) else sum(planned)


def taskmanagers_for(slots: int, slots_per_taskmanager: int) -> int:
    """Return how many TaskManagers have that many slots."""
    return math.ceil(slots / slots_per_taskmanager)


@dataclass(frozen=True, slots=True)
class Quota:
    """What a job may take at most; None where there is no limit.

    Attributes:
        cpu: CPUs of all TaskManagers.
        memory: Bytes of all TaskManagers.
        cpu_per_taskmanager: CPUs of one TaskManager, 0 when unknown.
        memory_per_taskmanager: Bytes of one TaskManager, 0 when unknown.
        slots_per_taskmanager: At least 1.
    """

    cpu: float | None
    memory: int | None
    cpu_per_taskmanager: float
    memory_per_taskmanager: int
    slots_per_taskmanager: int

    def is_exceeded_by(self, taskmanagers: int) -> bool:
        """Tell whether that many TaskManagers are too many."""
        return (self.cpu is not None and self.cpu_per_taskmanager * taskmanagers > self.cpu) or (
            self.memory is not None and self.memory_per_taskmanager * taskmanagers > self.memory
        )


def group_slots(
    topology: JobTopology, parallelism: Mapping[VertexId, int], among: frozenset[VertexId] | None = None
) -> int:
    """Return the slots that the slot sharing groups take: the widest vertex of each, summed.

    Args:
        topology: The job graph.
        parallelism: Parallelism per vertex.
        among: Only these vertices count; None counts all.
    """
    total = 0
    for members in topology.slot_sharing_groups.values():
        counted = members if among is None else members & among
        total += max((parallelism[vertex_id] for vertex_id in counted), default=0)
    return total


def exceeds_quota(topology: JobTopology, summaries: ScalingSummaries, quota: Quota) -> bool:
    """Tell whether a plan needs more than the quota, as the reference counts.

    Only changed vertices count and TaskManagers are rounded down, so that this is a lower bound; a plan that does
    not need more TaskManagers than now is always within.
    """
    if not topology.slot_sharing_groups or (quota.cpu is None and quota.memory is None):
        return False
    changed = frozenset(summaries)
    current = {vertex_id: vertex.parallelism for vertex_id, vertex in topology.vertices.items()}
    planned = planned_parallelism(topology, summaries)
    before = group_slots(topology, current, changed) // quota.slots_per_taskmanager
    after = group_slots(topology, planned, changed) // quota.slots_per_taskmanager
    return after > before and quota.is_exceeded_by(after)
