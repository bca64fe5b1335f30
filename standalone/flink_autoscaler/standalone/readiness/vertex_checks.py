"""What the vertices of a job allow: metrics that are missing, lag that is not known, and limits of the parallelism."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from flink_autoscaler.core.errors import MissingMetricError
from flink_autoscaler.core.model.metrics import FlinkMetric
from flink_autoscaler.core.model.topology import Vertex
from flink_autoscaler.core.observe.metric_names import active_partitions, choose_names, count_partitions
from flink_autoscaler.core.options.job import AutoscalerOptions
from flink_autoscaler.standalone.readiness.facts import JobFacts
from flink_autoscaler.standalone.readiness.findings import Finding, Fix, Place, limit, needed, note

YOUNG: Final = 60.0
"""Seconds after its start for which a job may still be without metrics."""

_FEW_DIVISORS: Final = 5
"""A parallelism that divides the key groups spreads them evenly: a maximum of 127 has two such, 120 has sixteen."""

_MOST_KEY_GROUPS: Final = 1 << 15
"""Flink's own upper limit of a max parallelism (``KeyGroupRangeAssignment``)."""

_FLINK_NAMES: Final = {
    FlinkMetric.BUSY_TIME: "busyTimeMsPerSecond",
    FlinkMetric.BACKPRESSURE_TIME: "backPressuredTimeMsPerSecond",
    FlinkMetric.SOURCE_RECORDS_IN_RATE: "numRecordsInPerSecond of the source",
    FlinkMetric.SOURCE_RECORDS_IN: "numRecordsIn of the source",
}


def vertex_findings(facts: JobFacts) -> Iterator[Finding]:
    """Yield what is to be known about the vertices of a job that have not finished."""
    if facts.topology is None:
        return
    vertices = [vertex for vertex in facts.topology.vertices.values() if not vertex.is_finished]
    for check in _CHECKS:
        for vertex in vertices:
            yield from check(facts, vertex)
    yield from _key_groups(vertices)


def _metrics(facts: JobFacts, vertex: Vertex) -> Iterator[Finding]:
    if facts.metrics is None or vertex.vertex_id not in facts.metrics.offered:
        return
    offered = facts.metrics.offered[vertex.vertex_id]
    try:
        choose_names(vertex, offered)
    except MissingMetricError as error:
        yield needed("METRIC_MISSING", f"{vertex.name}: {_missing(facts, offered, error)}", None, vertex.vertex_id)
        return
    if not facts.metrics.values.get(vertex.vertex_id):
        text = f"{vertex.name}: not all of its subtasks have reported their metrics yet; ask again in a minute"
        yield needed("METRICS_NOT_YET", text, None, vertex.vertex_id)


def _missing(facts: JobFacts, offered: tuple[str, ...], error: MissingMetricError) -> str:
    if facts.age is not None and facts.age < YOUNG:
        return f"no metrics yet, because the job has run for {facts.age:.0f} s only; ask again in a minute"
    if not offered:
        return "Flink reports no metrics of it; look at the logs of JobManager and TaskManagers for MetricFetcher"
    name = _FLINK_NAMES.get(FlinkMetric(error.metric), error.metric)
    hint = "; sources of Flink's new Source API report it, old SourceFunctions do not" if "source" in name else ""
    return f"Flink reports no {name}{hint}"


def _lag(facts: JobFacts, vertex: Vertex) -> Iterator[Finding]:
    offered = () if facts.metrics is None else facts.metrics.offered.get(vertex.vertex_id, ())
    if vertex.is_source and offered and not any(name.endswith(".pendingRecords") for name in offered):
        text = (
            f"{vertex.name}: the lag is not known, because its connector does not report pendingRecords; a backlog is "
            "invisible, and none is assumed (connectors for Kafka and Pulsar report it, Kafka's with the first record)"
        )
        yield limit("LAG_UNKNOWN", text, None, vertex.vertex_id)


def _busy(facts: JobFacts, vertex: Vertex) -> Iterator[Finding]:
    values = {} if facts.metrics is None else facts.metrics.values.get(vertex.vertex_id, {})
    busy = values.get(FlinkMetric.BUSY_TIME)
    if busy is not None and (busy.average is None or not math.isfinite(busy.average)):
        text = f"{vertex.name}: Flink reports NaN for its busyTimeMsPerSecond, so how busy it is is not known"
        if vertex.is_source:
            text += ", as of sources of the old SourceFunction; its capacity is measured only while it catches up"
        yield limit("BUSY_UNKNOWN", text, None, vertex.vertex_id)


def _key_groups(vertices: Sequence[Vertex]) -> Iterator[Finding]:
    """Tell about the numbers of key groups, each once with the vertices that have it."""
    for greatest in sorted({vertex.max_parallelism for vertex in vertices if vertex.max_parallelism > 0}):
        same = [vertex for vertex in vertices if vertex.max_parallelism == greatest]
        reached = [vertex for vertex in same if vertex.parallelism >= greatest]
        if greatest == 1 and len(same) < len(vertices):
            yield note(
                "ALWAYS_ONE", f"{_listed(same)}: runs with parallelism 1 only (its max parallelism)", None, _only(same)
            )
        elif reached:
            text = (
                f"{_listed(reached)}: has reached its max parallelism of {greatest}, which is fixed for the life of "
                "the job's state; to grow, start the job with a higher one and new state"
            )
            yield limit("MAX_PARALLELISM_REACHED", text, _more_than(greatest), _only(reached))
        elif len(divisors(greatest)) <= _FEW_DIVISORS:
            text = (
                f"{_listed(same)}: few parallelisms spread its {greatest} key groups evenly "
                f"({', '.join(map(str, divisors(greatest)))}); a max parallelism with many divisors, set when the job "
                "is first started, leaves more to choose from"
            )
            yield note("FEW_DIVISORS", text, _more_than(greatest), _only(same))


def _listed(vertices: Sequence[Vertex]) -> str:
    return ", ".join(vertex.name for vertex in vertices)


def _only(vertices: Sequence[Vertex]) -> str | None:
    return vertices[0].vertex_id if len(vertices) == 1 else None


def _more_than(least: int) -> Fix:
    """Return the line for a number with many divisors that is well above another one."""
    number = next((each for each in (60, 120, 240, 360, 720, 1260, 2520, 5040) if each > least), _MOST_KEY_GROUPS)
    return Fix(Place.FLINK, f"pipeline.max-parallelism: {number}")


def divisors(number: int) -> list[int]:
    """Return the divisors of a positive number, ascending."""
    return [each for each in range(1, number + 1) if number % each == 0]


def _bounds(facts: JobFacts, vertex: Vertex) -> Iterator[Finding]:
    options = facts.context.options
    if vertex.vertex_id in options.vertex_exclude_ids:
        text = f"{vertex.name}: never scaled, because {AutoscalerOptions.vertex_exclude_ids.key} names it"
        yield note("VERTEX_EXCLUDED", text, None, vertex.vertex_id)
    elif vertex.parallelism >= options.max_parallelism:
        text = f"{vertex.name}: has reached the upper limit that is set for it, {options.max_parallelism}"
        fix = Fix(Place.DAEMON, f"{AutoscalerOptions.max_parallelism.key}: {2 * vertex.parallelism}")
        yield limit("UPPER_LIMIT_REACHED", text, fix, vertex.vertex_id)


def _partitions(facts: JobFacts, vertex: Vertex) -> Iterator[Finding]:
    if facts.metrics is None or not vertex.is_source:
        return
    counted = count_partitions(facts.metrics.offered.get(vertex.vertex_id, ()))
    partitions = active_partitions(counted, facts.metrics.values.get(vertex.vertex_id, {}), vertex.parallelism)
    if 0 < partitions <= vertex.parallelism:
        text = f"{vertex.name}: reads {partitions} partitions, and subtasks beyond that have nothing to read"
        yield limit("PARTITIONS_REACHED", text, None, vertex.vertex_id)


_CHECKS: Final[tuple[Callable[[JobFacts, Vertex], Iterator[Finding]], ...]] = (
    _metrics,
    _busy,
    _lag,
    _bounds,
    _partitions,
)
