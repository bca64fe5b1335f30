"""Subtasks of a source that have nothing to read, since it has more of them than partitions."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

from flink_autoscaler.core.model.metrics import Aggregate, FlinkMetric, VertexId
from flink_autoscaler.core.model.quick import replace
from flink_autoscaler.core.model.reading import VertexAggregates
from flink_autoscaler.core.model.topology import JobTopology, Vertex

IDLE_BUSY_MS: Final = 10.0
"""Milliseconds per second for which a subtask without a partition may be busy: with watermarks and checkpoints."""


def with_idle_subtasks(topology: JobTopology, aggregates: Mapping[VertexId, VertexAggregates]) -> JobTopology:
    """Return the topology in which sources know of the subtasks that have no partition to read.

    Args:
        topology: With the partitions of the sources, where they are known.
        aggregates: What the subtasks of each vertex report in this pass.
    """
    idle = {v: idle_subtasks(vertex, aggregates.get(v, {})) for v, vertex in topology.vertices.items()}
    if not any(idle.values()):
        return topology
    return JobTopology({v: replace(vertex, idle_subtasks=idle[v]) for v, vertex in topology.vertices.items()})


def idle_subtasks(vertex: Vertex, aggregates: VertexAggregates) -> int:
    """Count the subtasks of a source without a partition; 0 where the count of partitions cannot be right.

    Partitions are counted by the names of metrics, which may be there for some of the subtasks only. Then more of them
    are busy than there are partitions: their busy time adds up to more than that of so many busiest ones.
    """
    count = vertex.source_partitions
    busy = aggregates.get(FlinkMetric.BUSY_TIME)
    if not (vertex.is_source and 0 < count < vertex.parallelism) or busy is None or vertex.is_finished:
        return 0
    if busy.average is None or busy.maximum is None:
        return 0
    idle = vertex.parallelism - count
    possible = count * busy.maximum + idle * IDLE_BUSY_MS
    total = busy.average * vertex.parallelism
    return idle if math.isfinite(possible) and 0 <= total <= possible else 0


def of_working_subtasks(aggregate: Aggregate, vertex: Vertex) -> Aggregate:
    """Return what the working subtasks report, of which an aggregate over all of them tells; the idle ones report 0.

    The smallest value is that of an idle one. That of the others is not known; their mean stands for it.
    """
    if vertex.idle_subtasks == 0 or aggregate.average is None:
        return aggregate
    mean = aggregate.average * vertex.parallelism / vertex.working_subtasks
    return aggregate._replace(average=mean, minimum=mean)
