"""The events of the last hours, in memory: also where no database keeps any."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from flink_autoscaler.core.model.events import Event, EventType, ScalingReport
from flink_autoscaler.core.model.job import JobKey
from flink_autoscaler.core.options.context import JobAutoScalerContext
from flink_autoscaler.standalone.settings.secrets import masked
from flink_autoscaler.stores.logging_handler import REPORT_REASON

MOST: Final = 2000
LONGEST: Final = 2000
"""Characters of a message that are kept."""


@dataclass(frozen=True, slots=True)
class RecentEvent:
    """What happened, when last, and how often in a row."""

    at_ms: int
    job_key: JobKey
    type: str
    reason: str
    message: str
    count: int = 1


class RecentEvents:
    """Keeps the newest events (an ``AutoScalerEventHandler``). Calls may come from any thread.

    Args:
        now_ms: The clock, epoch milliseconds.
    """

    def __init__(self, now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000) -> None:
        self._now_ms = now_ms
        self._lock = threading.Lock()
        self._events: OrderedDict[tuple[JobKey, str, str], RecentEvent] = OrderedDict()

    def handle_event(self, context: JobAutoScalerContext, event: Event) -> None:
        """Take one event; one that is repeated takes the place of the one before."""
        message = str(masked(event.message))[:LONGEST]
        identity = (context.job_key, event.reason, event.key or message)
        with self._lock:
            before = self._events.pop(identity, None)
            new = RecentEvent(self._now_ms(), context.job_key, event.type.value, event.reason, message)
            self._events[identity] = new if before is None else replace(new, count=before.count + 1)
            if len(self._events) > MOST:
                self._events.popitem(last=False)

    def handle_scaling_report(self, context: JobAutoScalerContext, report: ScalingReport) -> None:
        """Take one report as an event; one that is only advice is repeated while its parallelisms are the same."""
        key = None if report.is_executed else report.parallelism_hash
        self.handle_event(context, Event(EventType.NORMAL, REPORT_REASON, report.text, key))

    def close(self) -> None:
        """Release nothing."""

    def newest(self) -> list[RecentEvent]:
        """Return all of them, the newest first."""
        with self._lock:
            return list(reversed(self._events.values()))
