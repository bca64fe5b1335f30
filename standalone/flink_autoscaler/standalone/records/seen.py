"""A job as its latest recorded pass saw it, for those who check what is ordered."""

from __future__ import annotations

from flink_autoscaler.core.cycle.recording import RecordStore
from flink_autoscaler.core.decide.limits.pins import PinnedJob
from flink_autoscaler.core.errors import StoreError
from flink_autoscaler.core.model.job import JobKey
from flink_autoscaler.core.model.reading import ClusterReading
from flink_autoscaler.core.model.topology import Vertex, VertexDetails
from flink_autoscaler.core.ports.passes import PassOutcome
from flink_autoscaler.standalone.records.codec import decode


def seen_job(records: RecordStore, job_key: JobKey) -> PinnedJob | None:
    """Return a job as its latest recorded pass saw it; None where that does not tell."""
    newest = records.latest(job_key)
    if newest is None:
        return None
    try:
        record = decode(newest.text)
    except StoreError:
        return None
    vertices = _vertices(record.outcome)
    inputs = record.outcome.inputs
    cluster = ClusterReading() if inputs is None else inputs.cluster
    return PinnedJob(record.request.context, vertices, cluster, record.request.now_ms) if vertices else None


def _vertices(outcome: PassOutcome) -> tuple[Vertex | VertexDetails, ...]:
    if outcome.topology is not None:
        return tuple(outcome.topology.vertices.values())
    reading = None if outcome.inputs is None else outcome.inputs.reading
    return () if reading is None or reading.details is None else reading.details.vertices
