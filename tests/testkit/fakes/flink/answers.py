"""Flink's JSON for the jobs of the fake cluster."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence

from testkit.fakes.flink.job import FakeJob, FakeVertex, MetricValue

TERMINAL = frozenset({"FINISHED", "CANCELED", "FAILED"})
_HEAP = 512.0 * 2**20
TASKMANAGER_METRICS: Mapping[str, MetricValue] = {
    "Status.JVM.Memory.Heap.Max": _HEAP,
    "Status.JVM.Memory.Heap.Used": _HEAP / 2,
    "Status.Flink.Memory.Managed.Used": 0.0,
    "Status.JVM.Memory.Metaspace.Used": _HEAP / 8,
    "Status.JVM.GarbageCollector.All.TimeMsPerSecond": 5.0,
}
_AGGREGATES = ("min", "max", "avg", "sum", "skew")


def overview(jobs: Sequence[FakeJob]) -> dict[str, object]:
    """Answer ``/jobs/overview``."""
    return {"jobs": [overview_entry(job) for job in jobs]}


def overview_entry(job: FakeJob) -> dict[str, object]:
    """Return what the list of jobs has of one."""
    counts: Counter[str] = Counter()
    for vertex in job.vertices:
        counts[vertex.status.lower()] += vertex.parallelism
    return {
        "jid": job.job_id,
        "name": job.name,
        "jobType": "STREAMING",
        "schedulerType": "Adaptive" if job.is_adaptive else "Default",
        "start-time": job.start_ms,
        "end-time": -1 if job.state not in TERMINAL else job.running_at_ms + 1,
        "duration": 1000,
        "state": job.state,
        "last-modification": job.running_at_ms,
        "tasks": {"total": counts.total(), "running": 0, "finished": 0, **counts, **job.tasks},
        "pending-operators": 0,
    }


def details(job: FakeJob, counted: Sequence[FakeVertex] | None = None) -> dict[str, object]:
    """Answer ``/jobs/:jobid``; the vertices as they were ``counted`` last, where that is not now."""
    created = {} if job.created_ms is None else {"CREATED": job.created_ms}
    return {
        "jid": job.job_id,
        "name": job.name,
        "state": job.state,
        "start-time": job.start_ms,
        "end-time": -1,
        "now": time.time_ns() // 1_000_000,
        "timestamps": {"INITIALIZING": job.start_ms, **created, "RUNNING": job.running_at_ms, "FAILED": 0},
        "vertices": [_vertex(vertex) for vertex in (job.vertices if counted is None else counted)],
        "plan": {"jid": job.job_id, "name": job.name, "nodes": [_node(vertex) for vertex in job.vertices]},
    }


def _vertex(vertex: FakeVertex) -> dict[str, object]:
    metrics: dict[str, object] = {
        "read-records": vertex.records_in,
        "read-records-complete": vertex.is_complete,
        "write-records": vertex.records_out,
        "write-records-complete": vertex.is_complete,
    }
    if vertex.busy_ms is not None:
        metrics["accumulated-busy-time"] = vertex.busy_ms
    if vertex.waited_ms is not None:
        metrics |= {"accumulated-idle-time": vertex.waited_ms, "accumulated-backpressured-time": 0.0}
    metrics |= vertex.counters
    return {
        "id": vertex.vertex_id,
        "name": vertex.name,
        "slotSharingGroupId": vertex.slot_sharing_group,
        "maxParallelism": vertex.max_parallelism,
        "parallelism": vertex.parallelism,
        "status": vertex.status,
        "start-time": vertex.start_ms,
        "metrics": metrics,
    }


def subtasks(job: FakeJob, vertex: FakeVertex) -> dict[str, object]:
    """Answer ``/jobs/:jobid/vertices/:vertexid``: since when the subtasks run."""
    now_ms = time.time_ns() // 1_000_000
    subtask = {"status": "RUNNING", "status-duration": {"RUNNING": max(0, now_ms - job.running_at_ms)}}
    return {"id": vertex.vertex_id, "now": now_ms, "subtasks": [subtask] * vertex.parallelism}


def _node(vertex: FakeVertex) -> dict[str, object]:
    inputs = [
        {"num": number, "id": upstream, "ship_strategy": strategy, "exchange": "pipelined_bounded"}
        for number, (upstream, strategy) in enumerate(vertex.inputs.items())
    ]
    description = vertex.description or vertex.name
    node: dict[str, object] = {"id": vertex.vertex_id, "parallelism": vertex.parallelism, "description": description}
    return {**node, "inputs": inputs} if inputs else node


def configuration(*layers: Mapping[str, str]) -> list[dict[str, str]]:
    """Answer a configuration request."""
    merged = {key: value for layer in layers for key, value in layer.items()}
    return [{"key": key, "value": value} for key, value in merged.items()]


def vertex_metrics(vertex: FakeVertex | None, get: str | None) -> list[dict[str, object]]:
    """Answer a metrics request about one vertex; an unknown or finished vertex has none."""
    if vertex is None or vertex.status == "FINISHED":
        return []
    return aggregated(vertex.all_metrics(), get, count=vertex.parallelism, unvalued=vertex.names_without_value)


def aggregated(
    metrics: Mapping[str, MetricValue], get: str | None, *, count: int, unvalued: Sequence[str] = ()
) -> list[dict[str, object]]:
    """Answer an aggregated-metrics request: names without ``get``; nothing when any name asked for has no value."""
    if get is None:
        return [{"id": name} for name in (*metrics, *unvalued)]
    names = get.split(",")
    if any(name not in metrics for name in names):
        return []
    return [{"id": name, **_aggregates(metrics[name], count)} for name in names]


def _aggregates(value: MetricValue, count: int) -> dict[str, object]:
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, str):
        return dict.fromkeys(_AGGREGATES, value)
    return {"min": value, "max": value, "avg": value, "sum": value * count, "skew": 0.0}


def requirements(job: FakeJob) -> dict[str, object]:
    """Answer ``/jobs/:jobid/resource-requirements``."""
    return {
        vertex_id: {"parallelism": {"lowerBound": lower, "upperBound": upper}}
        for vertex_id, (lower, upper) in job.requirements.items()
    }
