"""From decoded JSON to typed values.

Fields that a Flink version adds are ignored; fields that it lacks have a meaning of their own, told per function.
What is there has to have the right type, else a :class:`ResponseError` names the field.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from flink_autoscaler.clients.http.json_object import JsonObject, objects_in
from flink_autoscaler.core.model.metrics import Aggregate, VertexId
from flink_autoscaler.core.model.numbers import NAN
from flink_autoscaler.core.model.rescale_facts import CheckpointFacts, JobException, RescaleAttempt, TaskManagerFacts
from flink_autoscaler.core.model.topology import IoMetrics, JobDetails, PlanNode, ShipStrategy, VertexDetails

RESTARTS: Final = "numRestarts,numRescales"

TEXT_LIMIT: Final = 16_384
"""Characters of a stack trace that are kept: its causes stand below the frames of the outermost exception."""

_SETTLED: Final = ("RUNNING", "FINISHED")
_NESTING: Final = 8
_EXECUTING: Final = "Executing"
_STATES_OF_A_STOP: Final = 2
"""A scheduler that left the state Executing went to another one."""


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


def flink_version(answer: object) -> str:
    """Decode ``/config``."""
    return JsonObject(answer, "config").text("flink-version")


def jobs_overview(answer: object) -> tuple[JobOverview, ...]:
    """Decode ``/jobs/overview``, in the cluster's order."""
    jobs = JsonObject(answer, "jobs overview").get("jobs")
    return tuple(_overview(entry) for entry in objects_in(jobs, "jobs", "job"))


def _overview(entry: JsonObject) -> JobOverview:
    tasks = entry.child("tasks")
    return JobOverview(
        job_id=entry.text("jid"),
        name=entry.text("name"),
        state=entry.text("state"),
        tasks={state: tasks.integer(state, 0) for state in tasks},
        start_ms=entry.integer("start-time", -1),
        end_ms=entry.integer("end-time", -1),
        last_modification_ms=entry.integer("last-modification", -1),
        job_type=entry.optional_text("jobType"),
        scheduler_type=entry.optional_text("schedulerType"),
    )


def job_details(answer: object) -> JobDetails:
    """Decode ``/jobs/:jobid``.

    A missing plan is empty. A RUNNING timestamp that is missing or 0, Flink's "never", is None.
    """
    job = JsonObject(answer, "job details")
    timestamps = job.child("timestamps")
    return JobDetails(
        job_id=job.text("jid"),
        name=job.text("name"),
        state=job.text("state"),
        running_at_ms=timestamps.integer("RUNNING", 0) or None,
        vertices=tuple(_vertex(entry) for entry in job.children("vertices", "vertex")),
        plan=tuple(_plan_node(node) for node in job.child("plan").children("nodes", "plan node")),
        now_ms=job.integer("now", 0) or None,
        initialized_ms=timestamps.integer("INITIALIZING", 0) or None,
        created_ms=timestamps.integer("CREATED", 0) or None,
    )


def _vertex(entry: JsonObject) -> VertexDetails:
    vertex_id = entry.text("id")
    where = f"vertex {vertex_id}"
    entry = entry.named(where)
    return VertexDetails(
        vertex_id=vertex_id,
        name=entry.text("name"),
        parallelism=entry.integer("parallelism"),
        max_parallelism=entry.integer("maxParallelism", -1),
        status=entry.text("status"),
        io=_io_metrics(entry.child("metrics")),
        slot_sharing_group=entry.optional_text("slotSharingGroupId"),
        start_ms=entry.integer("start-time", -1),
        is_settled=_is_settled(entry.child("tasks", where), entry.text("status")),
    )


def _is_settled(tasks: JsonObject, status: str) -> bool:
    """Tell whether every task runs or has finished; where tasks are not counted, the status has to do."""
    if not tasks:
        return status in _SETTLED
    return not any(tasks.integer(state, 0) for state in tasks if state not in _SETTLED)


def _io_metrics(metrics: JsonObject) -> IoMetrics:
    """Decode counters. Missing ones count as 0 and make the counters incomplete; missing times are unknown, not 0."""
    busy_ms = metrics.number("accumulated-busy-time")
    counters = ("read-records", "write-records")
    return IoMetrics(
        records_in=metrics.integer("read-records", 0),
        records_out=metrics.integer("write-records", 0),
        busy_ms=NAN if busy_ms is None else busy_ms,
        is_complete=all(name in metrics and metrics.flag(f"{name}-complete") for name in counters),
        idle_ms=metrics.number("accumulated-idle-time"),
        backpressured_ms=metrics.number("accumulated-backpressured-time"),
    )


def _plan_node(node: JsonObject) -> PlanNode:
    vertex_id = node.text("id")
    where = f"plan node {vertex_id}"
    node = node.named(where)
    inputs = [(each.text("id"), each.named(where).optional_text("ship_strategy")) for each in node.children("inputs")]
    return PlanNode(
        vertex_id=vertex_id,
        parallelism=node.integer("parallelism"),
        inputs=tuple((source, ShipStrategy.of(strategy or "")) for source, strategy in inputs),
    )


def configuration(answer: object) -> dict[str, str]:
    """Decode an array of ``{"key", "value"}``; a null value leaves the key out."""
    pairs = objects_in(answer, "configuration")
    return {pair.text("key"): _value(pair) for pair in pairs if pair.get("value") is not None}


def _value(pair: JsonObject) -> str:
    return pair.named(f"configuration: {pair.get('key')}").text("value")


def user_configuration(answer: object) -> dict[str, str]:
    """Decode the job's global parameters from ``/jobs/:jobid/config``; empty where the job has none."""
    execution = JsonObject(answer, "job config").child("execution-config", "execution-config")
    return execution.child("user-config").texts("user-config")


def metric_names(answer: object) -> tuple[str, ...]:
    """Decode an array of ``{"id"}``."""
    return tuple(entry.text("id") for entry in objects_in(answer, "metrics", "metric"))


def metric_values(answer: object) -> dict[str, str]:
    """Decode an array of ``{"id", "value"}``; a metric without a value is left out."""
    entries = objects_in(answer, "metrics", "metric")
    return {entry.text("id"): entry.text("value") for entry in entries if entry.get("value") is not None}


def aggregates(answer: object) -> dict[str, Aggregate]:
    """Decode an array of ``{"id", "min", "max", "avg", "sum", "skew"}``; aggregates that are not there are None."""
    return {entry.text("id"): _aggregate(entry) for entry in objects_in(answer, "metrics", "metric")}


def _aggregate(entry: JsonObject) -> Aggregate:
    entry = entry.named(f"metric {entry.get('id')}")
    return Aggregate(
        minimum=entry.number("min"),
        maximum=entry.number("max"),
        average=entry.number("avg"),
        total=entry.number("sum"),
        skew=entry.number("skew"),
    )


def resource_requirements(answer: object) -> dict[VertexId, ParallelismBounds]:
    """Decode ``/jobs/:jobid/resource-requirements``, all vertices of the job."""
    vertices = JsonObject(answer, "resource requirements")
    return {
        vertex_id: _bounds(vertices.get(vertex_id), f"resource requirements: {vertex_id}") for vertex_id in vertices
    }


def _bounds(value: object, where: str) -> ParallelismBounds:
    bounds = JsonObject(JsonObject(value, where).get("parallelism"), f"{where}.parallelism").named(where)
    return ParallelismBounds(bounds.integer("lowerBound"), bounds.integer("upperBound"))


def encode_requirements(bounds: Mapping[VertexId, ParallelismBounds]) -> dict[str, object]:
    """Return the body of ``PUT /jobs/:jobid/resource-requirements``."""
    return {
        vertex_id: {"parallelism": {"lowerBound": lower, "upperBound": upper}}
        for vertex_id, (lower, upper) in bounds.items()
    }


def exceptions(answer: object) -> tuple[JobException, ...]:
    """Decode ``/jobs/:jobid/exceptions``; what failed at the same time is part of each entry's text."""
    history = JsonObject(answer, "exceptions").child("exceptionHistory")
    return tuple(_exception(entry) for entry in history.children("entries", "exception"))


def _exception(entry: JsonObject) -> JobException:
    texts = [_condensed(trace) for trace in _traces(entry, _NESTING)]
    return JobException(entry.integer("timestamp", 0), "\n".join(texts)[:TEXT_LIMIT])


def _traces(entry: JsonObject, depth: int) -> Iterator[str]:
    yield entry.optional_text("stacktrace") or entry.optional_text("exceptionName") or ""
    if depth:
        for other in entry.children("concurrentExceptions", "exception"):
            yield from _traces(other, depth - 1)


def _condensed(trace: str) -> str:
    """Keep the lines with messages; the frames between them would use up the limit before the root cause."""
    return "\n".join(line for line in trace.splitlines() if not line.lstrip().startswith(("at ", "... ")))


def checkpoints(answer: object) -> CheckpointFacts:
    """Decode ``/jobs/:jobid/checkpoints``."""
    completed = JsonObject(answer, "checkpoints").child("latest").child("completed")
    if not completed:
        return CheckpointFacts()
    return CheckpointFacts(
        completed_ms=completed.integer("latest_ack_timestamp", 0) or None,
        state_bytes=completed.integer("state_size", -1) if "state_size" in completed else None,
    )


def checkpoint_interval(answer: object) -> int | None:
    """Decode the interval of ``/jobs/:jobid/checkpoints/config``; Flink shows "never" as a huge number."""
    interval = JsonObject(answer, "checkpoint configuration").integer("interval", 0)
    return interval if 0 < interval < 2**53 else None


def taskmanagers(answer: object) -> tuple[TaskManagerFacts, ...]:
    """Decode ``/taskmanagers``."""
    entries = JsonObject(answer, "TaskManagers").get("taskmanagers")
    return tuple(_taskmanager(entry) for entry in objects_in(entries, "taskmanagers", "TaskManager"))


def _taskmanager(entry: JsonObject) -> TaskManagerFacts:
    identity = entry.text("id")
    where = f"TaskManager {identity[:80]}"
    entry = entry.named(where)
    memory = entry.child("memoryConfiguration", where)
    return TaskManagerFacts(
        taskmanager_id=identity,
        slots=entry.integer("slotsNumber", 0),
        free_slots=entry.integer("freeSlots", 0),
        network_memory=memory.integer("networkMemory", 0) or None,
        heap=memory.integer("frameworkHeap", 0) + memory.integer("taskHeap", 0) or None,
        cpu=entry.child("totalResource", where).number("cpuCores"),
    )


def restarts(answer: object) -> int | None:
    """Decode restarts; from Flink 2 on rescales count as restarts and are told apart, too."""
    values = metric_values(answer)
    count, rescales = (_whole(values.get(name)) for name in RESTARTS.split(","))
    return None if count is None else max(0, count - (rescales or 0))


def _whole(value: str | None) -> int | None:
    try:
        return None if value is None else int(float(value))
    except (ValueError, OverflowError):
        return None


def running_since(answer: object) -> int | None:
    """Decode since when all subtasks of ``/jobs/:jobid/vertices/:vertexid`` run."""
    vertex = JsonObject(answer, "vertex")
    now_ms = vertex.integer("now", 0)
    since = []
    for subtask in vertex.children("subtasks", "vertex"):
        if subtask.text("status") != "RUNNING":
            return None
        since.append(now_ms - subtask.child("status-duration", "vertex").integer("RUNNING", 0))
    return max(since, default=None)


def rescale_attempts(answer: object) -> tuple[RescaleAttempt, ...]:
    """Decode ``/jobs/:jobid/rescales/history``: an array, or an object with one in one of its fields."""
    if not isinstance(answer, list):
        history = JsonObject(answer, "rescale history")
        answer = next((value for name in history if isinstance(value := history.get(name), list)), [])
    return tuple(_attempt(entry) for entry in objects_in(answer, "rescale history", "rescale"))


def _attempt(entry: JsonObject) -> RescaleAttempt:
    return RescaleAttempt(
        start_ms=entry.integer("startTimestampInMillis", 0),
        end_ms=entry.integer("endTimestampInMillis", 0) or None,
        state=entry.optional_text("terminalState") or "",
        cause=entry.optional_text("triggerCause") or "",
        reason=entry.optional_text("terminatedReason") or "",
        rescale_id=entry.optional_text("rescaleUuid") or "",
    )


def rescale_stopped(answer: object) -> int | None:
    """Decode when ``/jobs/:jobid/rescales/details/:id`` stopped the execution before it; None when it found none."""
    states = JsonObject(answer, "rescale").children("schedulerStates", "rescale")
    if len(states) < _STATES_OF_A_STOP or states[0].optional_text("state") != _EXECUTING:
        return None
    return states[0].integer("leaveTimestampInMillis", 0) or None
