"""From decoded JSON to typed values.

Fields that a Flink version adds are ignored; fields that it lacks have a meaning of their own, told per function.
What is there has to have the right type, else a :class:`ResponseError` names the field.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from flink_autoscaler.clients.flink.fields import (
    Fields,
    flag,
    integer,
    number,
    object_of,
    objects_in,
    optional_object,
    optional_objects,
    optional_text,
    text,
    texts,
)
from flink_autoscaler.core.model.metrics import Aggregate, VertexId
from flink_autoscaler.core.model.numbers import NAN
from flink_autoscaler.core.model.topology import IoMetrics, JobDetails, PlanNode, ShipStrategy, VertexDetails

_SETTLED = ("RUNNING", "FINISHED")


@dataclass(frozen=True, slots=True)
class JobOverview:
    """One entry of ``GET /jobs/overview``.

    Attributes:
        state: Flink's word, such as RUNNING.
        tasks: Tasks per lower-case state, and ``total``; empty when the cluster did not say.
        end_ms: -1 while the job has not ended.
        job_type: STREAMING or BATCH; None before Flink 2.1.
        scheduler_type: Such as Adaptive; None before Flink 2.1 and while the job initializes.
    """

    job_id: str
    name: str
    state: str
    tasks: Mapping[str, int]
    start_ms: int
    end_ms: int = -1
    last_modification_ms: int = -1
    job_type: str | None = None
    scheduler_type: str | None = None


class ParallelismBounds(NamedTuple):
    """Least and greatest parallelism that the adaptive scheduler may give a vertex."""

    lower: int
    upper: int


class ClusterInfo(NamedTuple):
    """What ``GET /config`` tells about a cluster."""

    flink_version: str


def cluster_info(answer: object) -> ClusterInfo:
    """Decode ``/config``."""
    return ClusterInfo(text(object_of(answer, "config"), "flink-version", "config"))


def jobs_overview(answer: object) -> tuple[JobOverview, ...]:
    """Decode ``/jobs/overview``, in the cluster's order."""
    jobs = objects_in(object_of(answer, "jobs overview").get("jobs"), "jobs")
    return tuple(_overview(entry, "job") for entry in jobs)


def _overview(entry: Fields, where: str) -> JobOverview:
    tasks = optional_object(entry, "tasks", where)
    return JobOverview(
        job_id=text(entry, "jid", where),
        name=text(entry, "name", where),
        state=text(entry, "state", where),
        tasks={state: integer(tasks, state, f"{where}.tasks", 0) for state in tasks},
        start_ms=integer(entry, "start-time", where, -1),
        end_ms=integer(entry, "end-time", where, -1),
        last_modification_ms=integer(entry, "last-modification", where, -1),
        job_type=optional_text(entry, "jobType", where),
        scheduler_type=optional_text(entry, "schedulerType", where),
    )


def job_details(answer: object) -> JobDetails:
    """Decode ``/jobs/:jobid``.

    A missing plan is empty. A RUNNING timestamp that is missing or 0, Flink's "never", is None.
    """
    where = "job details"
    fields = object_of(answer, where)
    timestamps = optional_object(fields, "timestamps", where)
    plan = optional_object(fields, "plan", where)
    return JobDetails(
        job_id=text(fields, "jid", where),
        name=text(fields, "name", where),
        state=text(fields, "state", where),
        running_at_ms=integer(timestamps, "RUNNING", f"{where}.timestamps", 0) or None,
        vertices=tuple(_vertex(entry) for entry in optional_objects(fields, "vertices", where)),
        plan=tuple(_plan_node(node) for node in optional_objects(plan, "nodes", f"{where}.plan")),
        now_ms=integer(fields, "now", where, 0) or None,
        initialized_ms=integer(timestamps, "INITIALIZING", f"{where}.timestamps", 0) or None,
        created_ms=integer(timestamps, "CREATED", f"{where}.timestamps", 0) or None,
    )


def _vertex(entry: Fields) -> VertexDetails:
    vertex_id = text(entry, "id", "vertex")
    where = f"vertex {vertex_id}"
    return VertexDetails(
        vertex_id=vertex_id,
        name=text(entry, "name", where),
        parallelism=integer(entry, "parallelism", where),
        max_parallelism=integer(entry, "maxParallelism", where, -1),
        status=text(entry, "status", where),
        io=_io_metrics(optional_object(entry, "metrics", where), f"{where}.metrics"),
        slot_sharing_group=optional_text(entry, "slotSharingGroupId", where),
        start_ms=integer(entry, "start-time", where, -1),
        is_settled=_is_settled(entry, where),
    )


def _is_settled(entry: Fields, where: str) -> bool:
    """Tell whether every task runs or has finished; where tasks are not counted, the status has to do."""
    tasks = optional_object(entry, "tasks", where)
    if not tasks:
        return text(entry, "status", where) in _SETTLED
    return not any(integer(tasks, state, where, 0) for state in tasks if state not in _SETTLED)


def _io_metrics(metrics: Fields, where: str) -> IoMetrics:
    """Decode counters. Missing ones count as 0 and make the counters incomplete; missing times are unknown, not 0."""
    busy_ms = number(metrics, "accumulated-busy-time", where)
    counters = ("read-records", "write-records")
    return IoMetrics(
        records_in=integer(metrics, "read-records", where, 0),
        records_out=integer(metrics, "write-records", where, 0),
        busy_ms=NAN if busy_ms is None else busy_ms,
        is_complete=all(name in metrics and flag(metrics, f"{name}-complete", where) for name in counters),
        idle_ms=number(metrics, "accumulated-idle-time", where),
        backpressured_ms=number(metrics, "accumulated-backpressured-time", where),
    )


def _plan_node(node: Fields) -> PlanNode:
    vertex_id = text(node, "id", "plan node")
    where = f"plan node {vertex_id}"
    return PlanNode(
        vertex_id=vertex_id,
        parallelism=integer(node, "parallelism", where),
        inputs=tuple(
            (text(edge, "id", f"{where}.inputs"), ShipStrategy.of(optional_text(edge, "ship_strategy", where) or ""))
            for edge in optional_objects(node, "inputs", where)
        ),
    )


def configuration(answer: object) -> dict[str, str]:
    """Decode an array of ``{"key", "value"}``; a null value leaves the key out."""
    pairs = objects_in(answer, "configuration")
    return {text(pair, "key", "configuration"): _value(pair) for pair in pairs if pair.get("value") is not None}


def _value(pair: Fields) -> str:
    return text(pair, "value", f"configuration: {pair.get('key')}")


def user_configuration(answer: object) -> dict[str, str]:
    """Decode the job's global parameters from ``/jobs/:jobid/config``; empty where the job has none."""
    execution = optional_object(object_of(answer, "job config"), "execution-config", "job config")
    return texts(optional_object(execution, "user-config", "execution-config"), "user-config")


def metric_names(answer: object) -> tuple[str, ...]:
    """Decode an array of ``{"id"}``."""
    return tuple(text(entry, "id", "metric") for entry in objects_in(answer, "metrics"))


def metric_values(answer: object) -> dict[str, str]:
    """Decode an array of ``{"id", "value"}``; a metric without a value is left out."""
    return {
        text(entry, "id", "metric"): text(entry, "value", "metric")
        for entry in objects_in(answer, "metrics")
        if entry.get("value") is not None
    }


def aggregates(answer: object) -> dict[str, Aggregate]:
    """Decode an array of ``{"id", "min", "max", "avg", "sum", "skew"}``; aggregates that are not there are None."""
    return {text(entry, "id", "metric"): _aggregate(entry) for entry in objects_in(answer, "metrics")}


def _aggregate(entry: Fields) -> Aggregate:
    where = f"metric {entry['id']}"
    return Aggregate(
        minimum=number(entry, "min", where),
        maximum=number(entry, "max", where),
        average=number(entry, "avg", where),
        total=number(entry, "sum", where),
        skew=number(entry, "skew", where),
    )


def resource_requirements(answer: object) -> dict[VertexId, ParallelismBounds]:
    """Decode ``/jobs/:jobid/resource-requirements``, all vertices of the job."""
    where = "resource requirements"
    return {vertex_id: _bounds(value, f"{where}: {vertex_id}") for vertex_id, value in object_of(answer, where).items()}


def _bounds(value: object, where: str) -> ParallelismBounds:
    bounds = object_of(object_of(value, where).get("parallelism"), f"{where}.parallelism")
    return ParallelismBounds(integer(bounds, "lowerBound", where), integer(bounds, "upperBound", where))


def encode_requirements(bounds: Mapping[VertexId, ParallelismBounds]) -> dict[str, object]:
    """Return the body of ``PUT /jobs/:jobid/resource-requirements``."""
    return {
        vertex_id: {"parallelism": {"lowerBound": lower, "upperBound": upper}}
        for vertex_id, (lower, upper) in bounds.items()
    }
