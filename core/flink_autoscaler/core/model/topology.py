"""The job graph as the autoscaler sees it, and what a JobManager says about a job."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from functools import lru_cache
from typing import NamedTuple

from flink_autoscaler.core.errors import NotReadyError, ResponseError
from flink_autoscaler.core.model.metrics import VertexId
from flink_autoscaler.core.model.value import value


class ShipStrategy(StrEnum):
    """How records travel between two vertices."""

    __hash__ = str.__hash__

    HASH = "HASH"
    REBALANCE = "REBALANCE"
    RESCALE = "RESCALE"
    FORWARD = "FORWARD"
    CUSTOM = "CUSTOM"
    BROADCAST = "BROADCAST"
    GLOBAL = "GLOBAL"
    SHUFFLE = "SHUFFLE"
    UNKNOWN = "UNKNOWN"

    @classmethod
    def of(cls, text: str) -> ShipStrategy:
        """Read a strategy in any case; anything new is UNKNOWN."""
        return cls.__members__.get(text.upper(), cls.UNKNOWN)


@value
class IoMetrics:
    """Counters of a vertex since its execution began.

    Attributes:
        records_in: Records read.
        records_out: Records written.
        busy_ms: Accumulated busy time over all subtasks, milliseconds; NaN when unknown.
        is_complete: Whether every subtask had reported; when not, the counters are too low.
        idle_ms: Accumulated time without input over all subtasks, milliseconds; None when unknown.
        backpressured_ms: The same of waiting for vertices downstream.
    """

    records_in: int = 0
    records_out: int = 0
    busy_ms: float = 0.0
    is_complete: bool = True
    idle_ms: float | None = None
    backpressured_ms: float | None = None


@value
class VertexDetails:
    """One entry of ``vertices`` in the job details.

    Attributes:
        start_ms: When its first task was started; -1 before.
        is_settled: Whether every task runs or has finished; ``status`` is RUNNING from the first one on.
    """

    vertex_id: VertexId
    name: str
    parallelism: int
    max_parallelism: int
    status: str
    io: IoMetrics
    slot_sharing_group: str | None = None
    start_ms: int = -1
    is_settled: bool = True


@value
class PlanNode:
    """One node of the plan: its parallelism and inputs, upstream id to strategy as written, in order."""

    vertex_id: VertexId
    parallelism: int
    inputs: tuple[tuple[VertexId, ShipStrategy], ...] = ()


@value
class JobDetails:
    """``GET /jobs/:jobid``, as far as the autoscaler needs it.

    Attributes:
        running_at_ms: Last switch to RUNNING, epoch milliseconds; None when the cluster did not say.
        vertices: One entry per vertex, in the cluster's order.
        plan: One node per vertex; empty while the job is being set up.
        now_ms: Clock of the JobManager; None when it did not say.
        initialized_ms: When the JobMaster began to manage the job; a fail-over of the JobManager begins anew.
        created_ms: When the present execution graph was made, right after the one before was stopped.
    """

    job_id: str
    name: str
    state: str
    running_at_ms: int | None
    vertices: tuple[VertexDetails, ...]
    plan: tuple[PlanNode, ...]
    now_ms: int | None = None
    initialized_ms: int | None = None
    created_ms: int | None = None

    @property
    def is_settled(self) -> bool:
        """Whether every task runs or has finished."""
        return bool(self.vertices) and all(vertex.is_settled for vertex in self.vertices)


@value
class Vertex:
    """A vertex of the job graph.

    Attributes:
        inputs: Upstream vertex to ship strategy; empty for a source.
        outputs: Downstream vertex to ship strategy.
        source_partitions: Partitions that a source reads; 0 when unknown or not partitioned.
        floor: Least parallelism that somebody else demands, of the cluster or of us; 0 where nobody does.
        idle_subtasks: Subtasks of a source that have no partition to read, whatever arrives.
        is_source: Whether nothing feeds it.
    """

    vertex_id: VertexId
    name: str
    parallelism: int
    max_parallelism: int
    inputs: Mapping[VertexId, ShipStrategy]
    outputs: Mapping[VertexId, ShipStrategy]
    io: IoMetrics
    is_finished: bool = False
    slot_sharing_group: str | None = None
    source_partitions: int = 0
    idle_subtasks: int = 0
    floor: int = 0
    is_source: bool = False

    @property
    def working_subtasks(self) -> int:
        """Subtasks that share what arrives: what the vertex can do is divided by these."""
        return self.parallelism - self.idle_subtasks


@value
class JobTopology:
    """The vertices of a job, inputs before outputs."""

    vertices: Mapping[VertexId, Vertex]

    @property
    def finished(self) -> frozenset[VertexId]:
        """Vertices that have finished."""
        return frozenset([v.vertex_id for v in self.vertices.values() if v.is_finished])

    @property
    def slot_sharing_groups(self) -> dict[str, frozenset[VertexId]]:
        """Slot sharing group to its vertices; empty when the cluster does not report groups."""
        groups: dict[str, set[VertexId]] = {}
        for vertex in self.vertices.values():
            if vertex.slot_sharing_group is not None:
                groups.setdefault(vertex.slot_sharing_group, set()).add(vertex.vertex_id)
        return {group: frozenset(members) for group, members in groups.items()}


def build_topology(details: JobDetails) -> JobTopology:
    """Build the job graph from the job details.

    Raises:
        NotReadyError: The plan has no nodes yet.
        ResponseError: The plan and the list of vertices do not fit together.
    """
    if not details.plan:
        raise NotReadyError(f"job {details.job_id}: the plan has no vertices yet")
    entries = {vertex.vertex_id: vertex for vertex in details.vertices}
    vertices = {}
    for node in _graph(details.plan):
        if node.vertex_id not in entries:
            raise ResponseError(f"job {details.job_id}: vertex {node.vertex_id} is in the plan only")
        vertices[node.vertex_id] = _vertex(node, entries[node.vertex_id])
    return JobTopology(vertices)


class _Node(NamedTuple):
    """A vertex of a plan, with the edges on both sides."""

    vertex_id: VertexId
    parallelism: int
    inputs: Mapping[VertexId, ShipStrategy]
    outputs: Mapping[VertexId, ShipStrategy]


@lru_cache(maxsize=4096)
def _graph(plan: tuple[PlanNode, ...]) -> tuple[_Node, ...]:
    """Return the vertices of a plan, inputs before outputs; a job has the same plan for as long as it runs."""
    nodes = {node.vertex_id: node for node in plan}
    outputs = _outputs(nodes)
    return tuple(_Node(v, nodes[v].parallelism, dict(nodes[v].inputs), outputs[v]) for v in _topological_order(nodes))


def _vertex(node: _Node, entry: VertexDetails) -> Vertex:
    is_finished = entry.status == "FINISHED"
    return Vertex(
        vertex_id=node.vertex_id,
        name=entry.name,
        parallelism=node.parallelism,
        max_parallelism=entry.max_parallelism,
        inputs=node.inputs,
        outputs=node.outputs,
        io=IoMetrics() if is_finished else entry.io,
        is_finished=is_finished,
        slot_sharing_group=entry.slot_sharing_group,
        is_source=not node.inputs,
    )


def _outputs(nodes: Mapping[VertexId, PlanNode]) -> dict[VertexId, dict[VertexId, ShipStrategy]]:
    outputs: dict[VertexId, dict[VertexId, ShipStrategy]] = {vertex_id: {} for vertex_id in nodes}
    for node in nodes.values():
        for upstream, strategy in node.inputs:
            if upstream not in outputs:
                raise ResponseError(f"vertex {node.vertex_id} has an input {upstream} that is not in the plan")
            outputs[upstream][node.vertex_id] = strategy
    return outputs


def _topological_order(nodes: Mapping[VertexId, PlanNode]) -> list[VertexId]:
    order: dict[VertexId, None] = {}
    remaining = dict(nodes)
    while remaining:
        ready = [v for v, node in remaining.items() if all(u in order for u, _ in node.inputs)]
        if not ready:
            raise ResponseError(f"the plan has a cycle through vertex {next(iter(remaining))}")
        for vertex_id in ready:
            order[vertex_id] = None
            del remaining[vertex_id]
    return list(order)
