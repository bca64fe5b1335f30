"""A source and the map behind it, both of parallelism 4, that pass on every record."""

from __future__ import annotations

from flink_autoscaler.core.model.reading import JobReading
from flink_autoscaler.core.model.topology import IoMetrics, ShipStrategy
from testkit.builders.core.graphs import a_vertex, vertex_id
from testkit.builders.core.readings import a_reading, operator_answers, source_answers

PIPELINE_SOURCE = vertex_id(1)
PIPELINE_MAP = vertex_id(2)


def pipeline(
    minute: int, *, pending: float, rate: float, busy_ms: tuple[float, float], partitions: int = 0
) -> JobReading:
    """Read the job at some minute; ``busy_ms`` is that of the source and that of the map."""
    io = IoMetrics(records_in=round(rate * 60 * minute), records_out=round(rate * 60 * minute))
    source = a_vertex(1, parallelism=4, io=io, partitions=partitions)
    following = a_vertex(2, parallelism=4, io=io, inputs={1: ShipStrategy.REBALANCE})
    answers = {
        PIPELINE_SOURCE: source_answers(busy_ms=busy_ms[0], rate=rate, pending=pending),
        PIPELINE_MAP: operator_answers(busy_ms=busy_ms[1], rate=rate),
    }
    return a_reading([source, following], answers)


def stuck_pipeline() -> list[JobReading]:
    """Read a job to which 200 records/s arrive, of which the 4 partitions of its source let 100 through."""
    return [
        pipeline(minute, pending=6000.0 * minute, rate=100.0, busy_ms=(1000.0, 1000.0), partitions=4)
        for minute in (1, 2, 3)
    ]


def draining_pipeline(*, map_busy_ms: float = 900.0) -> list[JobReading]:
    """Read a job whose map is busy only because 900 of its records/s come from a backlog."""
    return [
        pipeline(minute, pending=108_000.0 - 54_000.0 * (minute - 1), rate=1000.0, busy_ms=(500.0, map_busy_ms))
        for minute in (1, 2, 3)
    ]
