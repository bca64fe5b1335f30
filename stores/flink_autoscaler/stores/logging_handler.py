"""Events and scaling reports as lines of the log."""

from __future__ import annotations

import math
from typing import Protocol

import structlog

from flink_autoscaler.core.events import Event, EventType, ScalingReport, VertexReport
from flink_autoscaler.core.job import JobAutoScalerContext
from flink_autoscaler.core.metrics import VertexId
from flink_autoscaler.core.numbers import plain

REPORT_REASON = "ScalingReport"
REPORT_KEY = "ScalingExecutor"


class EventLogger(Protocol):
    """The part of a structlog logger that is used here; called from several threads."""

    def info(self, event: str, **facts: object) -> object:
        """Write a line at level info."""
        ...

    def warning(self, event: str, **facts: object) -> object:
        """Write a line at level warning."""
        ...


class LoggingEventHandler:
    """Writes every event to the log; nothing is ever dropped or merged.

    An event is one line ``autoscaler_event``. A scaling report is two: ``scaling_report`` with every number as a
    field, for programs, and an ``autoscaler_event`` with the text of the report, for people.
    """

    def __init__(self, log: EventLogger | None = None) -> None:
        self._log: EventLogger = log if log is not None else structlog.get_logger("flink_autoscaler.events")

    def handle_event(self, context: JobAutoScalerContext, event: Event) -> None:
        """Write one line: a warning as warning, everything else as info."""
        write = self._log.warning if event.type is EventType.WARNING else self._log.info
        write(
            "autoscaler_event",
            cluster=context.cluster,
            job_key=context.job_key,
            event_type=event.type.value,
            reason=event.reason,
            text=event.message,
            event_key=event.key,
            interval=None if event.interval is None else event.interval.exact_seconds,
        )

    def handle_scaling_report(self, context: JobAutoScalerContext, report: ScalingReport) -> None:
        """Write one line for programs and one for people."""
        self._log.info(
            "scaling_report",
            cluster=context.cluster,
            job_key=context.job_key,
            is_executed=report.is_executed,
            parallelism_hash=report.parallelism_hash,
            vertices=[_facts(vertex_id, vertex) for vertex_id, vertex in report.vertices.items()],
        )
        self.handle_event(context, Event(EventType.NORMAL, REPORT_REASON, report.text, REPORT_KEY, report.interval))

    def close(self) -> None:
        """Release nothing: the log belongs to the process."""


def _facts(vertex_id: VertexId, vertex: VertexReport) -> dict[str, object]:
    return {
        "vertex_id": vertex_id,
        "name": vertex.name,
        "current": vertex.current,
        "new": vertex.new,
        "capacity": _number(vertex.capacity),
        "expected_capacity": _number(vertex.expected_capacity),
        "target_rate": _number(vertex.target_rate),
    }


def _number(value: float) -> float | str | None:
    """Make a number that any JSON parser reads: unknown is null, an infinity is its name."""
    if math.isnan(value):
        return None
    return plain(value) if math.isinf(value) else value
