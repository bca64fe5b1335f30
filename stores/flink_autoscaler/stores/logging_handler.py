"""Events and scaling reports as lines of the log."""

from __future__ import annotations

import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable

import structlog
from structlog.typing import FilteringBoundLogger

from flink_autoscaler.core.model.events import Event, EventType, ScalingReport, VertexReport
from flink_autoscaler.core.model.metrics import VertexId
from flink_autoscaler.core.model.numbers import plain
from flink_autoscaler.core.model.syntax import Duration
from flink_autoscaler.core.options.context import JobAutoScalerContext

REPORT_REASON = "ScalingReport"
REPORT_KEY = "ScalingExecutor"
_REMEMBERED = 10_000
"""Events whose repetitions are recognised."""


class LoggingEventHandler:
    """Writes events to the log; a repetition within its interval is written at level debug.

    An event is one line ``autoscaler_event``. A scaling report is two: ``scaling_report`` with every number as a
    field, for programs, and an ``autoscaler_event`` with the text of the report, for people.
    """

    def __init__(self, log: FilteringBoundLogger | None = None, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._log: FilteringBoundLogger = log if log is not None else structlog.get_logger("flink_autoscaler.events")
        self._clock = clock
        self._lock = threading.Lock()
        self._written_at: OrderedDict[tuple[str, ...], float] = OrderedDict()

    def handle_event(self, context: JobAutoScalerContext, event: Event) -> None:
        """Write one line: a warning as warning, a repetition for debugging, everything else as info."""
        write = self._log.warning if event.type is EventType.WARNING else self._log.info
        identity = event.message if event.key is None else event.key
        if self._is_repetition((context.job_key, event.type, event.reason, identity), event.interval):
            write = self._log.debug
        self._write_event(write, context, event)

    def _is_repetition(self, identity: tuple[str, ...], interval: Duration | None) -> bool:
        """Tell whether the same was written less than an interval ago."""
        now = self._clock()
        with self._lock:
            written_at = self._written_at.get(identity)
            if interval is not None and written_at is not None and now - written_at < interval.exact_seconds:
                return True
            self._written_at[identity] = now
            self._written_at.move_to_end(identity)
            if len(self._written_at) > _REMEMBERED:
                self._written_at.popitem(last=False)
        return False

    @staticmethod
    def _write_event(write: Callable[..., object], context: JobAutoScalerContext, event: Event) -> None:
        write(
            "autoscaler_event",
            **context.labels,
            cluster=context.cluster,
            job_key=context.job_key,
            event_type=event.type.value,
            reason=event.reason,
            text=event.message,
            event_key=event.key,
            interval=None if event.interval is None else event.interval.exact_seconds,
            **({"figures": {name: _number(value) for name, value in event.figures}} if event.figures else {}),
        )

    def handle_scaling_report(self, context: JobAutoScalerContext, report: ScalingReport) -> None:
        """Write one line for programs and one for people."""
        key = (context.job_key, REPORT_REASON, report.parallelism_hash)
        is_repetition = not report.is_executed and self._is_repetition(key, report.interval)
        write = self._log.debug if is_repetition else self._log.info
        write(
            "scaling_report",
            **context.labels,
            cluster=context.cluster,
            job_key=context.job_key,
            is_executed=report.is_executed,
            parallelism_hash=report.parallelism_hash,
            vertices=[_facts(vertex_id, vertex) for vertex_id, vertex in report.vertices.items()],
        )
        event = Event(EventType.NORMAL, REPORT_REASON, report.text, REPORT_KEY, report.interval)
        self._write_event(write, context, event)

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
