"""Talking to Flink clusters: REST client and metric collector."""

from flink_autoscaler.clients.flink.collector import RestMetricCollector, read_cluster, read_job
from flink_autoscaler.clients.flink.decode import ClusterInfo, JobOverview, ParallelismBounds
from flink_autoscaler.clients.flink.passes import run_passes
from flink_autoscaler.clients.flink.rest import FlinkRestClient
from flink_autoscaler.clients.http.blocking import BlockingFlinkRestClient, EventLoopThread
from flink_autoscaler.clients.http.transport import HttpTransport

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
