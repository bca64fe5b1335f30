"""What a cluster answers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from flink_autoscaler.core.errors import AutoscalerError
from flink_autoscaler.core.model.metrics import Aggregate, FlinkMetric, VertexId
from flink_autoscaler.core.model.reading import ClusterReading, CollectorMemory, JobReading, VertexAggregates
from flink_autoscaler.core.model.topology import Vertex
from flink_autoscaler.core.observe import metric_names
from testkit.builders.core.graphs import details_of
from testkit.builders.core.jobs import JOB_ID


def of_total(total: float) -> Aggregate:
    """Make the answer of a metric of which only the sum matters."""
    return Aggregate(total=total)


def source_answers(
    *, busy_ms: float, rate: float, records_in: float = 0.0, pending: float = 0.0, backpressure_ms: float = 0.0
) -> VertexAggregates:
    """Make the answers of a source whose subtasks are all alike as far as busy time goes."""
    return {
        FlinkMetric.BUSY_TIME: Aggregate(busy_ms, busy_ms, busy_ms, busy_ms),
        FlinkMetric.BACKPRESSURE_TIME: Aggregate(average=backpressure_ms),
        FlinkMetric.SOURCE_RECORDS_IN_RATE: of_total(rate),
        FlinkMetric.SOURCE_RECORDS_IN: of_total(records_in),
        FlinkMetric.PENDING_RECORDS: of_total(pending),
    }


def operator_answers(*, busy_ms: float, rate: float) -> VertexAggregates:
    """Make the answers of a vertex that is not a source."""
    return {
        FlinkMetric.BUSY_TIME: Aggregate(busy_ms, busy_ms, busy_ms, busy_ms),
        FlinkMetric.RECORDS_IN_RATE: of_total(rate),
    }


def a_reading(
    vertices: Iterable[Vertex],
    aggregates: Mapping[VertexId, VertexAggregates] | None = None,
    *,
    running_at_ms: int | None = 0,
    job_id: str = JOB_ID,
    error: AutoscalerError | None = None,
) -> JobReading:
    """Make the reading of a job that consists of some vertices."""
    vertices = tuple(vertices)
    partitions = {v.vertex_id: v.source_partitions for v in vertices if v.source_partitions}
    return JobReading(
        details_of(vertices, running_at_ms=running_at_ms, job_id=job_id),
        aggregates or {},
        CollectorMemory(partitions=partitions),
        error,
    )


def a_cluster(
    *,
    slots_used: int = 4,
    heap_used: float = 500.0,
    heap_max: float = 1000.0,
    gc_ms: float | None = 0.0,
    managed_used: float = 0.0,
    metaspace_used: float = 100.0,
    error: AutoscalerError | None = None,
) -> ClusterReading:
    """Make the reading of a cluster with eight slots; ``gc_ms`` None leaves garbage collection out."""
    base = {
        metric_names.HEAP_USED: Aggregate(maximum=heap_used),
        metric_names.HEAP_MAX: Aggregate(maximum=heap_max),
        metric_names.MANAGED_USED: Aggregate(maximum=managed_used),
        metric_names.METASPACE_USED: Aggregate(maximum=metaspace_used),
    }
    return ClusterReading(
        jobmanager={metric_names.SLOTS_TOTAL: "8", metric_names.SLOTS_AVAILABLE: str(8 - slots_used)},
        taskmanagers={} if gc_ms is None else {**base, metric_names.GC_TIME: Aggregate(maximum=gc_ms)},
        taskmanagers_without_gc=base if gc_ms is None else {},
        error=error,
    )
