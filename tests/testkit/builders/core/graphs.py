"""Vertices, job graphs and the job details they come from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from flink_autoscaler.core.model.metrics import VertexId
from flink_autoscaler.core.model.state import ScalingSummaries, ScalingSummary
from flink_autoscaler.core.model.topology import (
    IoMetrics,
    JobDetails,
    JobTopology,
    PlanNode,
    ShipStrategy,
    Vertex,
    VertexDetails,
)
from testkit.builders.core.jobs import JOB_ID


def vertex_id(number: int) -> VertexId:
    """Return the id of the vertex with a number."""
    return f"{number:032x}"


def a_vertex(
    number: int = 1,
    *,
    parallelism: int = 1,
    max_parallelism: int = 128,
    inputs: Mapping[int, ShipStrategy] | None = None,
    partitions: int = 0,
    io: IoMetrics | None = None,
    is_finished: bool = False,
    group: str | None = None,
) -> Vertex:
    """Make a vertex; ``inputs`` are numbers of other vertices. Outputs are filled in by :func:`a_topology`."""
    return Vertex(
        vertex_id=vertex_id(number),
        name=f"vertex {number}",
        parallelism=parallelism,
        max_parallelism=max_parallelism,
        inputs={vertex_id(upstream): strategy for upstream, strategy in (inputs or {}).items()},
        outputs={},
        io=io or IoMetrics(),
        is_finished=is_finished,
        slot_sharing_group=group,
        source_partitions=partitions,
        is_source=not inputs,
    )


def a_topology(*vertices: Vertex) -> JobTopology:
    """Connect vertices that are given inputs first."""
    outputs: dict[VertexId, dict[VertexId, ShipStrategy]] = {vertex.vertex_id: {} for vertex in vertices}
    for vertex in vertices:
        for upstream, strategy in vertex.inputs.items():
            outputs[upstream][vertex.vertex_id] = strategy
    return JobTopology({v.vertex_id: replace(v, outputs=outputs[v.vertex_id]) for v in vertices})


def details_of(vertices: Iterable[Vertex], *, running_at_ms: int | None = 0, job_id: str = JOB_ID) -> JobDetails:
    """Make the job details that describe some vertices."""
    vertices = tuple(vertices)
    return JobDetails(
        job_id=job_id,
        name="a job",
        state="RUNNING",
        running_at_ms=running_at_ms,
        vertices=tuple(_entry(vertex) for vertex in vertices),
        plan=tuple(PlanNode(v.vertex_id, v.parallelism, tuple(v.inputs.items())) for v in vertices),
    )


def _entry(vertex: Vertex) -> VertexDetails:
    return VertexDetails(
        vertex_id=vertex.vertex_id,
        name=vertex.name,
        parallelism=vertex.parallelism,
        max_parallelism=vertex.max_parallelism,
        status="FINISHED" if vertex.is_finished else "RUNNING",
        io=vertex.io,
        slot_sharing_group=vertex.slot_sharing_group,
    )


def a_plan(changes: Mapping[int, tuple[int, int]]) -> ScalingSummaries:
    """Make summaries without metrics from vertex number to (current, new) parallelism."""
    return {vertex_id(number): ScalingSummary(current, new, {}) for number, (current, new) in changes.items()}
