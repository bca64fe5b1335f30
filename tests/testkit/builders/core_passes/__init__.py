"""Passes over one simple job, through the same function that the daemon calls."""

from __future__ import annotations

from collections.abc import Mapping

from flink_autoscaler.clients.flink.pass_plugins import installed_plugins
from flink_autoscaler.core.cycle.advance import advance
from flink_autoscaler.core.model.job import Endpoint, JobStatus
from flink_autoscaler.core.model.metrics import Aggregate, FlinkMetric
from flink_autoscaler.core.model.reading import ClusterReading, CollectorMemory, JobReading
from flink_autoscaler.core.model.state import EMPTY_STATE
from flink_autoscaler.core.model.topology import IoMetrics, JobDetails, PlanNode, VertexDetails
from flink_autoscaler.core.observe.metric_names import JOBMANAGER_METRICS, TASKMANAGER_METRICS
from flink_autoscaler.core.options.context import JobAutoScalerContext
from flink_autoscaler.core.ports.passes import PassOutcome, PassRequest

SOURCE = "a" * 32
JOB_ID = "b" * 32
START_MS = 1_700_000_000_000
OPTIONS = {
    "job.autoscaler.enabled": "true",
    "job.autoscaler.stabilization.interval": "0",
    "job.autoscaler.metrics.window": "10 s",
    "job.autoscaler.scale-down.interval": "0",
    "job.autoscaler.catch-up.duration": "0",
    "job.autoscaler.utilization.min": "0.6",
}
CLUSTER = ClusterReading(
    dict.fromkeys(JOBMANAGER_METRICS, "0"),
    taskmanagers_without_gc=dict.fromkeys(TASKMANAGER_METRICS, Aggregate(1, 2, 1)),
)


def outcome_after_full_window(options: Mapping[str, str]) -> PassOutcome:
    """Decide about a lone source: parallelism 10, 1,000 records/s at half load, so 200 records/s per subtask."""
    context = JobAutoScalerContext("t/job", JOB_ID, JobStatus.RUNNING, {**OPTIONS, **options}, Endpoint("http://none"))
    request = PassRequest(context, EMPTY_STATE, START_MS)
    for seconds in (0, 5, 10):
        request = PassRequest(context, request.state, START_MS + seconds * 1000)
        outcome = advance(request, _reading(1000 * seconds), CLUSTER, installed_plugins())
        request = PassRequest(context, outcome.state, request.now_ms)
    return outcome


def _reading(records: int) -> JobReading:
    aggregates = {
        FlinkMetric.BUSY_TIME: Aggregate(500, 500, 500, 5000),
        FlinkMetric.BACKPRESSURE_TIME: Aggregate(0, 0, 0, 0),
        FlinkMetric.SOURCE_RECORDS_IN: Aggregate(total=records),
        FlinkMetric.SOURCE_RECORDS_IN_RATE: Aggregate(total=1000),
    }
    vertex = VertexDetails(SOURCE, "Source: lone", 10, 128, "RUNNING", IoMetrics())
    began_ms = START_MS - 60_000  # long enough ago for all metrics to be measured
    details = JobDetails(JOB_ID, "job", "RUNNING", began_ms, (vertex,), (PlanNode(SOURCE, 10),))
    return JobReading(details, {SOURCE: aggregates}, CollectorMemory(reports_gc=False))
