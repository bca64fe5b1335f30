"""Talking to Flink clusters: REST client, and what reads clusters and jobs with it.

Names are loaded when they are first asked for: who only wants the plug-ins of a pass needs no HTTP.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from flink_autoscaler.clients.flink.capacity import read_capacity as read_capacity
    from flink_autoscaler.clients.flink.capacity import with_capacity as with_capacity
    from flink_autoscaler.clients.flink.collector import read_cluster as read_cluster
    from flink_autoscaler.clients.flink.collector import read_job as read_job
    from flink_autoscaler.clients.flink.decode import JobOverview as JobOverview
    from flink_autoscaler.clients.flink.decode import ParallelismBounds as ParallelismBounds
    from flink_autoscaler.clients.flink.rest import FlinkRestClient as FlinkRestClient
    from flink_autoscaler.clients.http.event_loop import EventLoopThread as EventLoopThread
    from flink_autoscaler.clients.http.transport import HttpTransport as HttpTransport

_MODULES = {
    "EventLoopThread": "http.event_loop",
    "FlinkRestClient": "flink.rest",
    "HttpTransport": "http.transport",
    "JobOverview": "flink.decode",
    "ParallelismBounds": "flink.decode",
    "read_capacity": "flink.capacity",
    "read_cluster": "flink.collector",
    "read_job": "flink.collector",
    "with_capacity": "flink.capacity",
}


def __getattr__(name: str) -> object:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
