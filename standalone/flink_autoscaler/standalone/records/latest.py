"""What the last pass over a job tells of it: its vertices, and what is wanted of them."""

from __future__ import annotations

from typing import Final

from flink_autoscaler.core.cycle.recording import RecordStore
from flink_autoscaler.core.decide.slot_sharing import PinnedJob
from flink_autoscaler.core.errors import StoreError
from flink_autoscaler.core.model.job import JobKey
from flink_autoscaler.core.model.reading import ClusterReading
from flink_autoscaler.core.model.supervision import Supervision, Vector
from flink_autoscaler.core.model.topology import Vertex, VertexDetails
from flink_autoscaler.core.ports.passes import PassOutcome
from flink_autoscaler.standalone.records.codec import decode

SIZED: Final = frozenset({"SIZED", "AT_TARGET"})
"""Codes of the reasons that carry how a vertex was sized."""


def vertices_of(outcome: PassOutcome) -> tuple[Vertex | VertexDetails, ...]:
    """Return the vertices as far as they were read, also of a job that does not run."""
    if outcome.topology is not None:
        return tuple(outcome.topology.vertices.values())
    reading = None if outcome.inputs is None else outcome.inputs.reading
    return () if reading is None or reading.details is None else reading.details.vertices


def wanted_of(supervision: Supervision, outcome: PassOutcome | None) -> Vector:
    """Return what is wanted of vertices: what the load asks for where a pass has sized it, else what is asked for.

    What the load asks for may be more than is asked of the cluster, where slots, a wait or a rule hold it back. Pins go
    before it.
    """
    wanted = dict(supervision.asked)
    for reason in () if outcome is None else outcome.decision.reasons:
        aligned = dict(reason.figures).get("aligned") if reason.code in SIZED else None
        if reason.vertex_id and aligned is not None and reason.vertex_id not in supervision.pinned:
            wanted[reason.vertex_id] = round(aligned)
    return wanted


def seen_job(records: RecordStore, job_key: JobKey) -> PinnedJob | None:
    """Return a job as its latest recorded pass saw it; None where that does not tell."""
    newest = records.latest(job_key)
    if newest is None:
        return None
    try:
        record = decode(newest.text)
    except StoreError:
        return None
    vertices = vertices_of(record.outcome)
    inputs = record.outcome.inputs
    cluster = ClusterReading() if inputs is None else inputs.cluster
    return PinnedJob(record.request.context, vertices, cluster, record.request.now_ms) if vertices else None
