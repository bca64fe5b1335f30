"""What the vertices of a job allow: metrics that are missing, lag that is not known, and limits of the parallelism."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from flink_autoscaler.core.errors import MissingMetricError
from flink_autoscaler.core.model.metrics import FlinkMetric
from flink_autoscaler.core.model.topology import Vertex
from flink_autoscaler.core.observe.metric_names import choose_names, count_partitions
from flink_autoscaler.core.options.job import AutoscalerOptions
from flink_autoscaler.standalone.readiness.facts import JobFacts
from flink_autoscaler.standalone.readiness.findings import Finding, Fix, Place, limit, needed, note

YOUNG: Final = 60.0
"""Seconds after its start for which a job may still be without metrics."""

_FEW_DIVISORS: Final = 5
"""A parallelism that divides the key groups spreads them evenly: a maximum of 127 has two such, 120 has sixteen."""

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


def _key_groups(_: JobFacts, vertex: Vertex) -> Iterator[Finding]:
    greatest = vertex.max_parallelism
    if greatest == 1:
        yield note(
            "ALWAYS_ONE", f"{vertex.name}: runs with parallelism 1 only (its max parallelism)", None, vertex.vertex_id
        )
    elif vertex.parallelism >= greatest > 0:
        text = (
            f"{vertex.name}: has reached its max parallelism of {greatest}, which is fixed for the life of the job's "
            "state; to grow, start the job with a higher one and new state"
        )
        line = f"pipeline.max-parallelism: {_roomy(greatest)}"
        yield limit("MAX_PARALLELISM_REACHED", text, Fix(Place.FLINK, line), vertex.vertex_id)
    elif greatest > 0 and len(divisors(greatest)) <= _FEW_DIVISORS:
        text = (
            f"{vertex.name}: few parallelisms spread its {greatest} key groups evenly "
            f"({', '.join(map(str, divisors(greatest)))}); a max parallelism with many divisors, set when the job is "
            "first started, leaves more to choose from"
        )
        line = f"pipeline.max-parallelism: {_roomy(greatest)}"
        yield note("FEW_DIVISORS", text, Fix(Place.FLINK, line), vertex.vertex_id)


def divisors(number: int) -> list[int]:
    """Return the divisors of a positive number, ascending."""
    return [each for each in range(1, number + 1) if number % each == 0]


def _roomy(least: int) -> int:
    """Return a number with many divisors that is well above another one."""
    return next((each for each in (60, 120, 240, 360, 720, 1260, 2520) if each > least), 5040)


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
    offered = () if facts.metrics is None else facts.metrics.offered.get(vertex.vertex_id, ())
    partitions = count_partitions(offered) if vertex.is_source else 0
    if 0 < partitions <= vertex.parallelism:
        text = f"{vertex.name}: reads {partitions} partitions, and subtasks beyond that have nothing to read"
        yield limit("PARTITIONS_REACHED", text, None, vertex.vertex_id)


_CHECKS: Final[tuple[Callable[[JobFacts, Vertex], Iterator[Finding]], ...]] = (
    _metrics,
    _lag,
    _key_groups,
    _bounds,
    _partitions,
)
