"""Talking to Flink clusters: REST client and metric collector."""

from flink_autoscaler.clients.blocking import BlockingFlinkRestClient, EventLoopThread
from flink_autoscaler.clients.collector import RestMetricCollector, read_cluster, read_job
from flink_autoscaler.clients.decode import ClusterInfo, JobOverview, ParallelismBounds
from flink_autoscaler.clients.passes import run_passes
from flink_autoscaler.clients.rest import FlinkRestClient
from flink_autoscaler.clients.transport import HttpTransport

__all__ = [
    "BlockingFlinkRestClient",
    "ClusterInfo",
    "EventLoopThread",
    "FlinkRestClient",
    "HttpTransport",
    "JobOverview",
    "ParallelismBounds",
    "RestMetricCollector",
    "read_cluster",
    "read_job",
    "run_passes",
]
