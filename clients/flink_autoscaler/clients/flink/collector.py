"""Reading the metrics of clusters and jobs, and what is remembered of their names."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Final

from flink_autoscaler.clients.flink.decode import Readable
from flink_autoscaler.clients.flink.rest import FlinkRestClient
from flink_autoscaler.core.error_boundary import ErrorBoundary, try_await
from flink_autoscaler.core.errors import (
    AutoscalerError,
    ConnectError,
    MissingMetricError,
    NotReadyError,
    ResponseError,
)
from flink_autoscaler.core.model.metrics import Aggregate, FlinkMetric, VertexId
from flink_autoscaler.core.model.reading import (
    EMPTY_MEMORY,
    CachedDetails,
    ClusterReading,
    CollectorMemory,
    JobReading,
    VertexAggregates,
)
from flink_autoscaler.core.model.topology import IoMetrics, JobDetails, JobTopology, VertexDetails, build_topology
from flink_autoscaler.core.model.value import replace
from flink_autoscaler.core.observe.freshness import staleness_ms
from flink_autoscaler.core.observe.metric_names import (
    JOBMANAGER_METRICS,
    TASKMANAGER_METRICS,
    TASKMANAGER_METRICS_WITH_GC,
    by_metric,
    choose_names,
    count_partitions,
    topics_of,
)
from flink_autoscaler.core.options.context import JobAutoScalerContext
from flink_autoscaler.core.ports.passes import PassRequest

SETTLED_MS: Final = 10_000
"""How long after a change of the job details have to be read to be kept: Flink serves copies that are up to 3 s old."""


def cached_details(request: PassRequest) -> JobDetails | None:
    """Return the details of a job as they are now, but for its counters; None where they have to be read.

    They are not read again while the list of jobs shows no later change. Where it shows none at all, they are not kept.
    """
    kept, modified_ms = request.memory.kept, request.context.modified_ms
    if kept is None or modified_ms is None or not _is_of_now(kept, request.context.job_id, modified_ms):
        return None
    told_ms = kept.details.now_ms
    passed_ms = max(0, reading_time(request) - kept.read_ms)
    return replace(kept.details, now_ms=None if told_ms is None else told_ms + passed_ms)


def cacheable_details(request: PassRequest, details: JobDetails) -> CachedDetails | None:
    """Return what to remember of details that were just read."""
    modified_ms = request.context.modified_ms
    return None if modified_ms is None else CachedDetails(details, modified_ms, reading_time(request))


def reading_time(request: PassRequest) -> int:
    """Return what time it is by the clock of a pass, which may have begun long ago."""
    return request.now_ms + staleness_ms(wall_ms(), request.now_ms)


def wall_ms() -> int:
    """Return what time it is by the clock of this machine, epoch milliseconds."""
    return time.time_ns() // 1_000_000


def _is_of_now(kept: CachedDetails, job_id: str | None, modified_ms: int) -> bool:
    """Tell whether the job cannot have changed since its details were read; all instants are Flink's own."""
    is_same = kept.details.job_id == job_id and kept.modified_ms == modified_ms
    return is_same and kept.details.is_settled and (kept.details.now_ms or 0) >= modified_ms + SETTLED_MS


# A job that has not changed needs no request for its details: Flink fills its metrics and the counters of the details
# from one store. What the details say beside a counter, whether every subtask had reported, follows from sum and
# average.
_NEEDED: Final = ("numRecordsIn", "numRecordsOut", "accumulateBusyTimeMs")
_WAITED: Final = ("accumulateIdleTimeMs", "accumulateBackPressuredTimeMs")

COUNTERS: Final = (*_NEEDED, *_WAITED)
"""Metric ids that every task has (``TaskIOMetricGroup``)."""

_MOST: Final = 2.0**53
_LIKELY: Final = 1e-6
"""Share of a sum by which it may differ from an average times the number of subtasks."""


def offers_counters(available: Collection[str]) -> bool:
    """Tell whether a vertex offers all counters among its metric ids."""
    return all(name in available for name in COUNTERS)


def answers_counters(answer: Mapping[str, Aggregate]) -> bool:
    """Tell whether a vertex has answered with the counters that are needed."""
    return all(name in answer for name in _NEEDED)


def with_counters(details: JobDetails, answers: Mapping[VertexId, Mapping[str, Aggregate]]) -> JobDetails | None:
    """Return details with the counters that vertices have answered; None where one of them is not known.

    Those of vertices that have finished stay as they are.
    """
    vertices = []
    for vertex in details.vertices:
        is_finished = vertex.status == "FINISHED"
        io = vertex.io if is_finished else _io(vertex, answers.get(vertex.vertex_id, {}))
        if io is None:
            return None
        vertices.append(vertex if is_finished else replace(vertex, io=io))
    return replace(details, vertices=tuple(vertices))


def _io(vertex: VertexDetails, answer: Mapping[str, Aggregate]) -> IoMetrics | None:
    found = [answer.get(name, Aggregate()) for name in COUNTERS]
    records_in, records_out, busy_ms, idle_ms, backpressured_ms = (each.total for each in found)
    if records_in is None or records_out is None or busy_ms is None or not _has_all_counters(vertex, found):
        return None
    counts = (records_in, records_out, 0.0 if math.isnan(busy_ms) else busy_ms, idle_ms or 0.0, backpressured_ms or 0.0)
    if not all(0 <= count < _MOST for count in counts):
        return None
    return IoMetrics(
        records_in=round(records_in),
        records_out=round(records_out),
        busy_ms=busy_ms,
        idle_ms=idle_ms,
        backpressured_ms=backpressured_ms,
    )


def _has_all_counters(vertex: VertexDetails, found: Collection[Aggregate]) -> bool:
    """Tell whether as many subtasks are in the sums as the vertex has; with sums of 0 nobody can tell."""
    known = [(each.total, each.average or 0.0) for each in found if each.total is not None and each.total > 0]
    return bool(known) and all(abs(avg * vertex.parallelism - total) <= _LIKELY * total for total, avg in known)


JOBMANAGER: Final = "the metrics of the JobManager"
TASKMANAGERS: Final = "the metrics of the TaskManagers"

_NOTHING: Final[Readable[Aggregate]] = Readable({}, {})
_NO_TEXTS: Final[Readable[str]] = Readable({}, {})
_SHOWN: Final = 40
_MAX_SLOTS: Final = 2**31 - 1

REFRESH_MS: Final = 300_000
"""How long the names of sources are used; new partitions and topics show up in them."""

REFRESH_WITHOUT_LAG_MS: Final = 60_000
"""The same while a source reports no pending records: Kafka's reader registers them with the first record only."""


async def read_cluster(client: FlinkRestClient) -> ClusterReading:
    """Return cluster-wide metrics; what could not be read is ``missing``. Never raises.

    TaskManager metrics without garbage collection are asked for only when those with it are not all there.
    """
    jobmanager, taskmanagers = await asyncio.gather(
        try_await(client.jobmanager_metrics(JOBMANAGER_METRICS), ResponseError, JOBMANAGER),
        try_await(_taskmanager_metrics(client), ResponseError, TASKMANAGERS),
    )
    parts = {JOBMANAGER: jobmanager, TASKMANAGERS: taskmanagers}
    errors = {part: found for part, found in parts.items() if isinstance(found, AutoscalerError)}
    slots = _counts(jobmanager) if isinstance(jobmanager, Readable) else _NO_TEXTS
    with_gc, without_gc = (_NOTHING, _NOTHING) if isinstance(taskmanagers, AutoscalerError) else taskmanagers
    problems = {**slots.problems, **with_gc.problems, **without_gc.problems}
    first = next(iter(errors.values()), None)
    if first is None and problems:
        first = ResponseError("; ".join(problems.values()))
    return ClusterReading(
        slots.values,
        with_gc.values,
        without_gc.values,
        error=first,
        missing={**{part: str(error) for part, error in errors.items()}, **problems},
        is_away=len(errors) == len(parts) and all(isinstance(error, ConnectError) for error in errors.values()),
    )


async def _taskmanager_metrics(client: FlinkRestClient) -> tuple[Readable[Aggregate], Readable[Aggregate]]:
    with_gc = await client.taskmanager_metrics(TASKMANAGER_METRICS_WITH_GC)
    is_any = with_gc.values or with_gc.problems
    return with_gc, _NOTHING if is_any else await client.taskmanager_metrics(TASKMANAGER_METRICS)


def _counts(metrics: Readable[str]) -> Readable[str]:
    """Return slot counts as they are; what is no count is a problem."""
    wrong = {
        name: f"the metric {name} is {text[:_SHOWN]!r}, not a number of slots"
        for name, text in metrics.values.items()
        if not _is_count(text)
    }
    known = {name: text for name, text in metrics.values.items() if name not in wrong}
    return Readable(known, {**metrics.problems, **wrong})


def _is_count(text: str) -> bool:
    try:
        return 0 <= float(text) <= _MAX_SLOTS
    except ValueError:
        return False


async def read_job(client: FlinkRestClient, request: PassRequest) -> JobReading:
    """Return what the cluster says about one job; failures are in ``error``. Never raises.

    Requests: the details unless they are kept, then the names of the vertices that need them, then the values of all
    vertices that have not finished. What was read before a failure is in the reading.
    """
    details: JobDetails | None = None
    memory, lacks_counters = request.memory, False
    with ErrorBoundary(what=f"job {request.context.job_key}") as boundary:
        options = request.context.options
        is_cached = options.is_improved
        suits = partial(_are_counted, request.memory) if is_cached else _is_never
        details, kept = await details_from_cache(client, request, suits)
        is_kept = kept is not None and kept is request.memory.kept
        memory = replace(current_memory(request, details), kept=kept if is_cached else None)
        topology = build_topology(details)
        asked = vertices_to_ask(topology, memory, now_ms=request.now_ms, is_cached=is_cached)
        offered = await client.all_vertex_metric_names(details.job_id, asked)
        memory, missing = choose_metric_names(topology, memory, offered, now_ms=request.now_ms, is_cached=is_cached)
        if missing is not None:
            raise missing
        more = COUNTERS if is_kept else ()
        chosen = {v: (*names, *more) for v, names in memory.names.items()}
        answers = await client.all_vertex_metrics(details.job_id, chosen)
        if is_kept and (counts := with_counters(details, answers)) is not None:
            details = counts
        elif is_kept:
            lacks_counters, memory = True, strip_counters(memory, answers)
            details = await read_details(client, request)
        aggregates = {v: by_metric(memory.names[v], answer) for v, answer in answers.items()}
    if boundary.error is not None:
        return JobReading(details, memory=memory, error=boundary.error)
    if is_cached and not lacks_counters:
        memory = forget_unanswered(memory, aggregates, asked)
    return JobReading(details, aggregates, memory)


def _are_counted(memory: CollectorMemory, details: JobDetails) -> bool:
    """Tell whether the metrics of all vertices that run have the counters of the details."""
    return all(vertex.status == "FINISHED" or vertex.vertex_id in memory.counted for vertex in details.vertices)


def _is_never(_: JobDetails) -> bool:
    return False


def _is_always(_: JobDetails) -> bool:
    return True


async def details_from_cache(
    client: FlinkRestClient, request: PassRequest, suits: Callable[[JobDetails], bool] = _is_always
) -> tuple[JobDetails, CachedDetails | None]:
    """Return the details of a job, read only where they are not kept, and what to remember of them.

    Args:
        client: Of the JobManager.
        request: The job.
        suits: Whether kept ones will do; their counters are of an earlier moment.

    Raises:
        NotReadyError: The job has not started, or the details contradict the list.
        FlinkRestError: They could not be read.
    """
    known = cached_details(request)
    if known is not None and suits(known):
        return known, request.memory.kept
    details = await read_details(client, request)
    return details, cacheable_details(request, details)


async def read_details(client: FlinkRestClient, request: PassRequest) -> JobDetails:
    """Return the details of the job as it is now.

    After a rescale Flink serves a copy of the details that is up to 3 s old. Details that contradict the list of
    jobs are read again in the next pass: the graph of one execution is not mixed with the metrics of another, and no
    other job waits for that.

    Raises:
        NotReadyError: The job has not started, or the details contradict the list.
        FlinkRestError: They could not be read.
    """
    context = request.context
    if context.job_id is None:
        raise NotReadyError(f"job {context.job_key} has not started yet")
    details = await client.job_details(context.job_id, timeout=context.options.rest_client_timeout.exact_seconds)
    if context.options.is_improved and not _is_consistent(details, context):
        raise NotReadyError(f"job {context.job_id}: its details and the list of jobs contradict each other")
    return details


def _is_consistent(details: JobDetails, context: JobAutoScalerContext) -> bool:
    """Tell whether the details agree with themselves and have as many tasks as the list of jobs says."""
    parallelism = {vertex.vertex_id: vertex.parallelism for vertex in details.vertices}
    agrees = all(parallelism.get(node.vertex_id, node.parallelism) == node.parallelism for node in details.plan)
    tasks = sum(node.parallelism for node in details.plan)
    return agrees and (not details.plan or context.task_count is None or context.task_count == tasks)


def current_memory(request: PassRequest, details: JobDetails) -> CollectorMemory:
    """Return what is remembered about this execution of the job: nothing after a restart or for another job."""
    state = request.state
    is_other_job = state.job_id not in (None, request.context.job_id)
    oldest_ms = state.samples[0].at_ms if state.samples else None
    has_restarted = oldest_ms is not None and (details.running_at_ms or 0) > oldest_ms
    if is_other_job:
        return EMPTY_MEMORY
    return CollectorMemory(task_ms=request.memory.task_ms) if has_restarted else request.memory


def vertices_to_ask(
    topology: JobTopology, memory: CollectorMemory, *, now_ms: int, is_cached: bool
) -> tuple[VertexId, ...]:
    """Return the vertices whose names are read in this pass.

    With ``is_cached`` names are used for a while, and finished vertices are not read. Without, as in the Java
    autoscaler: sources in every pass, also finished ones, and all vertices while one has finished.
    """
    vertices = topology.vertices.values()
    if is_cached:
        is_due = not 0 <= now_ms - memory.names_at_ms < _refresh_ms(topology, memory)
        return tuple(
            v.vertex_id
            for v in vertices
            if not v.is_finished and (v.vertex_id not in memory.names or (is_due and v.is_source))
        )
    only_sources = memory.names.keys() == topology.vertices.keys()
    return tuple(v.vertex_id for v in vertices if v.is_source or not (only_sources or v.is_finished))


def _refresh_ms(topology: JobTopology, memory: CollectorMemory) -> int:
    names = [memory.names.get(v.vertex_id, {}) for v in topology.vertices.values() if v.is_source and not v.is_finished]
    all_report_lag = all(FlinkMetric.PENDING_RECORDS in chosen.values() for chosen in names)
    return REFRESH_MS if all_report_lag else REFRESH_WITHOUT_LAG_MS


def choose_metric_names(
    topology: JobTopology,
    memory: CollectorMemory,
    offered: Mapping[VertexId, Collection[str]],
    *,
    now_ms: int,
    is_cached: bool,
) -> tuple[CollectorMemory, MissingMetricError | None]:
    """Choose names from what the vertices offer.

    Args:
        topology: The job as it is now.
        memory: What is remembered about it.
        offered: Metric ids per vertex that was asked; empty where none is known at the moment.
        now_ms: The instant of the pass.
        is_cached: With it an empty offer does not replace what is remembered.

    Returns:
        The memory then, and the first required metric that was not offered.
    """
    active = topology.vertices.keys() - topology.finished
    names = {vertex_id: chosen for vertex_id, chosen in memory.names.items() if vertex_id in active}
    partitions, topics = ({**memory.partitions}, {**memory.topics}) if is_cached else ({}, {})
    with_counters = {vertex_id for vertex_id in memory.counted if vertex_id in active}
    missing: MissingMetricError | None = None
    for vertex_id, available in offered.items():
        if is_cached and not available and vertex_id in names:
            continue
        vertex = topology.vertices[vertex_id]
        with_counters.discard(vertex_id)
        if offers_counters(available):
            with_counters.add(vertex_id)
        if vertex.is_source:
            # An answer may lack the names of some subtasks, and Kafka takes no partition from a running source: the
            # greatest count of an execution is the right one.
            partitions[vertex_id] = max(count_partitions(available), partitions.get(vertex_id, 0))
            topics[vertex_id] = topics_of(available)
        try:
            if vertex_id in active:
                names[vertex_id] = choose_names(vertex, available)
        except MissingMetricError as error:
            names.pop(vertex_id, None)
            missing = missing or error
    has_asked_source = any(topology.vertices[vertex_id].is_source for vertex_id in offered)
    memory = replace(
        memory,
        names=names,
        partitions={vertex_id: count for vertex_id, count in partitions.items() if count},
        topics={vertex_id: names for vertex_id, names in topics.items() if names},
        names_at_ms=now_ms if has_asked_source else memory.names_at_ms,
        counted=frozenset(with_counters),
    )
    return memory, missing


def strip_counters(memory: CollectorMemory, answers: Mapping[VertexId, Mapping[str, Aggregate]]) -> CollectorMemory:
    """Keep no details for the next pass, and ask no vertex for counters again that has not answered with them."""
    silent = {vertex_id for vertex_id in memory.counted if not answers_counters(answers.get(vertex_id, {}))}
    return replace(memory, kept=None, counted=memory.counted - silent)


def forget_unanswered(
    memory: CollectorMemory, aggregates: Mapping[VertexId, VertexAggregates], asked: Collection[VertexId]
) -> CollectorMemory:
    """Forget remembered names that brought no values: one of them may be gone, which empties the whole answer.

    Names that were read in this very pass stay: their values are just not there yet.
    """
    stale = {vertex_id for vertex_id, values in aggregates.items() if not values and vertex_id not in asked}
    if not stale:
        return memory
    return replace(memory, names={v: chosen for v, chosen in memory.names.items() if v not in stale})
