"""From decoded JSON to typed values.

Fields that a Flink version adds are ignored; fields that it lacks have a meaning of their own, told per function.
What a pass needs has to have the right type, else a :class:`ResponseError` names the field; what only helps is unknown
then. One entry of the list of jobs, or one metric of the cluster, that cannot be read leaves the others as they are.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from html import unescape
from typing import Final, Generic, NamedTuple, TypeVar

from flink_autoscaler.clients.http.json_object import JsonObject, objects_in, or_unknown, type_error
from flink_autoscaler.core.error_boundary import try_call
from flink_autoscaler.core.errors import AutoscalerError, ResponseError
from flink_autoscaler.core.model.metrics import Aggregate, VertexId
from flink_autoscaler.core.model.numbers import NAN
from flink_autoscaler.core.model.topology import IoMetrics, JobDetails, PlanNode, ShipStrategy, VertexDetails

T = TypeVar("T")

MAX_JOBS: Final = 10_000
"""Jobs of one cluster: with more nobody would look at all of them in time."""

MAX_VERTICES: Final = 1000
"""Vertices of one job."""

MAX_EDGES: Final = 10_000
"""Inputs of all vertices of one job together."""

LONGEST_NAME: Final = 1 << 16
"""Characters of the name of a job or vertex; generated ones may be whole SQL statements."""

LONGEST_GRAPH: Final = 1 << 20
"""Characters of all names and ids in the graph of a job: it is kept from pass to pass, for every job."""

LONGEST_METRIC_NAME: Final = 2000
"""Characters of the name of a metric; longer ones could not be asked for."""

LARGEST_CONFIGURATION: Final = 1 << 20
"""Characters of the keys and values of one configuration, of which every job has one in memory."""

_JOB_ID: Final = re.compile(r"[0-9a-fA-F]{32}")
_SETTLED: Final = ("RUNNING", "FINISHED")


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


class Readable(NamedTuple, Generic[T]):
    """Metrics by their id, as far as they can be read, and what is wrong with the others."""

    values: dict[str, T]
    problems: dict[str, str]


@dataclass(frozen=True, slots=True)
class UnreadableJob:
    """One entry of ``GET /jobs/overview`` that is not as documented: a job of which not enough is known.

    Attributes:
        place: In the list, from 0 on.
        job_id: None where even that cannot be read, or is not one.
        name: None where that cannot be read.
        claims: Entries that contradict each other about the job; who knows it may know which of them is right.
    """

    place: int
    job_id: str | None
    name: str | None
    error: AutoscalerError
    claims: tuple[JobOverview, ...] = ()


class JobListing(NamedTuple):
    """The jobs that a cluster remembers, in its order, and those among them whose entry cannot be read."""

    jobs: tuple[JobOverview, ...]
    unreadable: tuple[UnreadableJob, ...] = ()


class ParallelismBounds(NamedTuple):
    """Least and greatest parallelism that the adaptive scheduler may give a vertex."""

    lower: int
    upper: int


def flink_version(answer: object) -> str:
    """Decode ``/config``."""
    return JsonObject(answer, "config").text("flink-version")


def jobs_overview(answer: object) -> tuple[JobOverview, ...]:
    """Decode ``/jobs/overview``, in the cluster's order, for those who need all of it or nothing."""
    listing = job_listing(answer)
    if listing.unreadable:
        raise listing.unreadable[0].error
    return listing.jobs


def job_listing(answer: object) -> JobListing:
    """Decode ``/jobs/overview``; an entry that is not as documented concerns no other."""
    entries = JsonObject(answer, "jobs overview").get("jobs")
    if not isinstance(entries, list):
        raise type_error("jobs", "an array", entries)
    if len(entries) > MAX_JOBS:
        raise ResponseError(f"the list has {len(entries)} jobs, {MAX_JOBS} of a cluster are managed at most")
    jobs: dict[str, JobOverview] = {}
    unreadable = []
    for place, entry in enumerate(entries):
        job = try_call(partial(_overview, entry), ResponseError, "job")
        if not isinstance(job, JobOverview):
            unreadable.append(_unreadable(place, entry, job))
        elif jobs.setdefault(job.job_id, job) != job:
            twice = ResponseError(f"job {job.job_id} is in the list twice, with contents that contradict each other")
            unreadable.append(UnreadableJob(place, job.job_id, job.name, twice, (jobs[job.job_id], job)))
    contradicting = {each.job_id for each in unreadable}
    return JobListing(tuple(job for job in jobs.values() if job.job_id not in contradicting), tuple(unreadable))


def _unreadable(place: int, entry: object, error: AutoscalerError) -> UnreadableJob:
    """Return as much as can be read about a job that cannot be managed."""
    if not isinstance(entry, dict):
        return UnreadableJob(place, None, None, error)
    fields = JsonObject(entry, "job")
    return UnreadableJob(place, or_unknown(lambda: _job_id(fields)), or_unknown(lambda: _name(fields)), error)


def _job_id(entry: JsonObject) -> str:
    job_id = entry.text("jid")
    if _JOB_ID.fullmatch(job_id) is None:
        raise type_error("job.jid", "32 hex digits", job_id)
    return job_id


def _name(entry: JsonObject) -> str:
    name = entry.text("name")
    if len(name) > LONGEST_NAME:
        raise ResponseError(f"a name of {len(name)} characters, {LONGEST_NAME} are taken at most: {name[:80]!r}")
    return name


def _overview(value: object) -> JobOverview:
    entry = JsonObject(value, "job")
    job_id, name = _job_id(entry), _name(entry)
    entry = entry.with_name(f"job {job_id}")
    tasks = entry.child("tasks", f"job {job_id}: tasks")
    return JobOverview(
        job_id=job_id,
        name=name,
        state=entry.text("state"),
        tasks={state: tasks.count(state, 0) for state in tasks},
        start_ms=optional_instant(entry, "start-time") or -1,
        end_ms=optional_instant(entry, "end-time") or -1,
        last_modification_ms=optional_instant(entry, "last-modification") or -1,
        job_type=or_unknown(lambda: entry.optional_text("jobType")),
        scheduler_type=or_unknown(lambda: entry.optional_text("schedulerType")),
    )


def optional_instant(fields: JsonObject, name: str) -> int | None:
    """Return an instant that only helps."""
    try:
        return fields.instant(name)
    except ResponseError:
        return None


def job_details(answer: object) -> JobDetails:
    """Decode ``/jobs/:jobid``.

    A missing plan is empty. A RUNNING timestamp that is missing or 0, Flink's "never", is None.
    """
    job = JsonObject(answer, "job details")
    timestamps = job.child("timestamps")
    vertices = _require_few(job.children("vertices", "vertex"), MAX_VERTICES, "vertices")
    nodes = _require_few(job.child("plan").children("nodes", "plan node"), MAX_VERTICES, "vertices in its plan")
    plan = tuple(map(_plan_node, nodes))
    _require_few([each for node in plan for each in node.inputs], MAX_EDGES, "inputs of vertices")
    found = tuple(map(_vertex, vertices))
    _check_length(found, plan)
    return JobDetails(
        job_id=job.text("jid"),
        name=_name(job),
        state=job.text("state"),
        running_at_ms=timestamps.instant("RUNNING"),
        vertices=found,
        plan=plan,
        now_ms=optional_instant(job, "now"),
        initialized_ms=optional_instant(timestamps, "INITIALIZING"),
        created_ms=optional_instant(timestamps, "CREATED"),
    )


def _require_few(entries: Sequence[T], most: int, what: str) -> Sequence[T]:
    if len(entries) > most:
        raise ResponseError(f"job details: {len(entries)} {what}, {most} are taken at most")
    return entries


def _check_length(vertices: Sequence[VertexDetails], plan: Sequence[PlanNode]) -> None:
    length = sum(len(v.vertex_id) + len(v.name) + len(v.status) + len(v.slot_sharing_group or "") for v in vertices)
    length += sum(len(node.vertex_id) + sum(len(upstream) for upstream, _ in node.inputs) for node in plan)
    if length > LONGEST_GRAPH:
        raise ResponseError(f"job details: {length} characters of names and ids, {LONGEST_GRAPH} are taken at most")


def _vertex(entry: JsonObject) -> VertexDetails:
    vertex_id = entry.text("id")
    where = f"vertex {vertex_id}"
    entry = entry.with_name(where)
    status = entry.text("status")
    return VertexDetails(
        vertex_id=vertex_id,
        name=_name(entry),
        parallelism=entry.count("parallelism", least=1),
        max_parallelism=entry.count("maxParallelism", -1),
        status=status,
        io=_io_metrics(entry.child("metrics")),
        slot_sharing_group=entry.optional_text("slotSharingGroupId"),
        start_ms=optional_instant(entry, "start-time") or -1,
        is_settled=_is_settled(entry.child("tasks", where), status),
    )


def _is_settled(tasks: JsonObject, status: str) -> bool:
    """Tell whether every task runs or has finished; where tasks are not counted, the status has to do."""
    if not tasks:
        return status in _SETTLED
    return all(state in _SETTLED or not tasks.count(state, 0) for state in tasks)


def _io_metrics(metrics: JsonObject) -> IoMetrics:
    """Decode counters. Missing and null ones count as 0 and make the counters incomplete; such times are unknown."""
    busy_ms = metrics.number("accumulated-busy-time")
    return IoMetrics(
        records_in=metrics.integer("read-records", 0),
        records_out=metrics.integer("write-records", 0),
        busy_ms=NAN if busy_ms is None else busy_ms,
        is_complete=_is_counted(metrics, "read-records") and _is_counted(metrics, "write-records"),
        idle_ms=metrics.number("accumulated-idle-time"),
        backpressured_ms=metrics.number("accumulated-backpressured-time"),
    )


def _is_counted(metrics: JsonObject, name: str) -> bool:
    return metrics.get(name) is not None and metrics.flag(name + "-complete")


def _plan_node(node: JsonObject) -> PlanNode:
    vertex_id = node.text("id")
    where = f"plan node {vertex_id}"
    node = node.with_name(where)
    inputs = [
        (each.text("id"), each.with_name(where).optional_text("ship_strategy")) for each in node.children("inputs")
    ]
    return PlanNode(
        vertex_id=vertex_id,
        parallelism=node.count("parallelism", least=1),
        inputs=tuple((source, ShipStrategy.of(strategy or "")) for source, strategy in inputs),
    )


def configuration(answer: object) -> dict[str, str]:
    """Decode an array of ``{"key", "value"}``; a null value leaves the key out."""
    pairs = objects_in(answer, "configuration")
    return _bounded_options({pair.text("key"): _value(pair) for pair in pairs if pair.get("value") is not None})


def _bounded_options(configuration: dict[str, str]) -> dict[str, str]:
    size = sum(len(key) + len(value) for key, value in configuration.items())
    if size > LARGEST_CONFIGURATION:
        raise ResponseError(f"a configuration of {size} characters, {LARGEST_CONFIGURATION} are taken at most")
    return configuration


def _value(pair: JsonObject) -> str:
    return pair.with_name(f"configuration: {pair.get('key')}").text("value")


def user_configuration(answer: object) -> dict[str, str]:
    """Decode the job's global parameters from ``/jobs/:jobid/config``; empty where the job has none."""
    execution = JsonObject(answer, "job config").child("execution-config", "execution-config")
    return _bounded_options(execution.child("user-config").texts("user-config"))


def metric_names(answer: object) -> tuple[str, ...]:
    """Decode an array of ``{"id"}``; names that are too long to be asked for are left out."""
    names = (entry.text("id") for entry in objects_in(answer, "metrics", "metric"))
    return tuple(name for name in names if len(name) <= LONGEST_METRIC_NAME)


def metric_values(answer: object) -> dict[str, str]:
    """Decode an array of ``{"id", "value"}``; a metric without a value is left out."""
    entries = objects_in(answer, "metrics", "metric")
    return {entry.text("id"): entry.text("value") for entry in entries if entry.get("value") is not None}


def readable_values(answer: object) -> Readable[str]:
    """Decode what :func:`metric_values` does, one metric at a time."""
    return _readable(answer, lambda entry: None if entry.get("value") is None else entry.text("value"))


def readable_aggregates(answer: object) -> Readable[Aggregate]:
    """Decode what :func:`aggregates` does, one metric at a time."""
    return _readable(answer, _aggregate)


def _readable(answer: object, decoder: Callable[[JsonObject], T | None]) -> Readable[T]:
    values: dict[str, T] = {}
    problems: dict[str, str] = {}
    for entry in objects_in(answer, "metrics", "metric"):
        name = entry.text("id")
        value = try_call(partial(decoder, entry), ResponseError, f"metric {name:.80}")
        if isinstance(value, AutoscalerError):
            problems[name] = str(value)
        elif value is not None:
            values[name] = value
    return Readable(values, problems)


def aggregates(answer: object) -> dict[str, Aggregate]:
    """Decode an array of ``{"id", "min", "max", "avg", "sum", "skew"}``; aggregates that are not there are None."""
    return {entry.text("id"): _aggregate(entry) for entry in objects_in(answer, "metrics", "metric")}


def _aggregate(entry: JsonObject) -> Aggregate:
    entry = entry.with_name(f"metric {entry.get('id')}")
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
    bounds = JsonObject(JsonObject(value, where).get("parallelism"), f"{where}.parallelism").with_name(where)
    return ParallelismBounds(bounds.integer("lowerBound"), bounds.integer("upperBound"))


def encode_requirements(bounds: Mapping[VertexId, ParallelismBounds]) -> dict[str, object]:
    """Return the body of ``PUT /jobs/:jobid/resource-requirements``."""
    return {
        vertex_id: {"parallelism": {"lowerBound": lower, "upperBound": upper}}
        for vertex_id, (lower, upper) in bounds.items()
    }


_HINT: Final = re.compile(r"OPTIONS options:\{([^{}]{1,16384})\}")
"""``/*+ OPTIONS('a'='b', 'c'='d') */`` becomes ``hints=[[[OPTIONS options:{a=b, c=d}]]]``."""


def hinted_options(answer: object) -> tuple[Mapping[str, str], ...]:
    """Decode the options that the tables of ``/jobs/:jobid`` were given by hints, table by table.

    Values are not quoted there: one with a comma is cut off at it.
    """
    nodes = JsonObject(answer, "job details").child("plan").children("nodes", "plan node")
    plan = " ".join(node.optional_text("description") or "" for node in nodes)
    return tuple(_options(hint) for hint in _HINT.findall(unescape(plan)))


def _options(hint: str) -> dict[str, str]:
    pairs = (each.partition("=") for each in hint.split(", "))
    return {key.strip(): value.strip() for key, equals, value in pairs if equals}
