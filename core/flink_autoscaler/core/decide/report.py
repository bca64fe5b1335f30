"""The scaling report: a decision as a text that people and parsers read."""

from __future__ import annotations

from collections.abc import Mapping

from flink_autoscaler.core.model.events import ScalingReport, VertexReport
from flink_autoscaler.core.model.metrics import ScalingMetric, VertexId
from flink_autoscaler.core.model.numbers import NAN, two_decimals
from flink_autoscaler.core.model.state import ScalingSummaries, ScalingSummary
from flink_autoscaler.core.model.syntax import Duration
from flink_autoscaler.core.model.topology import JobTopology

EXECUTED_HEADER = "Scaling execution enabled, begin scaling vertices:"
_BLOCKED_MARKER = "Scaling execution disabled by config"


def blocked_header(key: str, value: str) -> str:
    """Return the lead-in of a report about a change that an option prevents."""
    return f"{_BLOCKED_MARKER} {key}:{value}, recommended parallelism change:"


def scaling_report(
    summaries: ScalingSummaries, topology: JobTopology, *, blocked_by: str | None, interval: Duration
) -> ScalingReport:
    """Make the report of a decision.

    Args:
        summaries: Changed vertices; not empty.
        topology: For the names of the vertices.
        blocked_by: Lead-in that says what prevents the change; None when it is carried out.
        interval: De-duplication interval of a report that is not carried out.
    """
    header = EXECUTED_HEADER if blocked_by is None else blocked_by
    vertices = {
        vertex_id: _vertex_report(_name_of(topology, vertex_id), summary) for vertex_id, summary in summaries.items()
    }
    return ScalingReport(
        is_executed=blocked_by is None,
        header=header,
        vertices=vertices,
        text=header + "".join(_entry(vertex_id, vertex) for vertex_id, vertex in vertices.items()),
        parallelism_hash=parallelism_hash(summaries),
        interval=interval,
    )


def _name_of(topology: JobTopology, vertex_id: VertexId) -> str:
    vertex = topology.vertices.get(vertex_id)
    return "" if vertex is None else vertex.name


def _vertex_report(name: str, summary: ScalingSummary) -> VertexReport:
    metrics = summary.metrics
    rate = metrics.get(ScalingMetric.TRUE_PROCESSING_RATE)
    expected = metrics.get(ScalingMetric.EXPECTED_PROCESSING_RATE)
    target = metrics.get(ScalingMetric.TARGET_DATA_RATE)
    return VertexReport(
        name=name,
        current=summary.current,
        new=summary.new,
        capacity=NAN if rate is None else rate.average,
        expected_capacity=NAN if expected is None else expected.current,
        target_rate=NAN if target is None else target.average,
    )


def _entry(vertex_id: VertexId, vertex: VertexReport) -> str:
    capacity, expected = two_decimals(vertex.capacity), two_decimals(vertex.expected_capacity)
    return (
        f"{{ Vertex ID {vertex_id} | Parallelism {vertex.current} -> {vertex.new}"
        f" | Processing capacity {capacity} -> {expected}"
        f" | Target data rate {two_decimals(vertex.target_rate)}}}"
    )


def parallelism_hash(summaries: Mapping[VertexId, ScalingSummary]) -> str:
    """Return a digest of the changes of parallelism, the same for every order of vertices."""
    total = sum(
        _string_hash(vertex_id) ^ _string_hash(f"Parallelism {summary.current} -> {summary.new}")
        for vertex_id, summary in summaries.items()
    )
    return str(total & 0x7FFFFFFF)


def _string_hash(text: str) -> int:
    """Return the polynomial string hash of the Java platform, as 32 unsigned bits."""
    value = 0
    for unit in memoryview(text.encode("utf-16-le")).cast("H"):
        value = (value * 31 + unit) & 0xFFFFFFFF
    return value
