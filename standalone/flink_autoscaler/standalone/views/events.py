"""What happened: the events of a database, and those of the last hours in memory, where no database keeps any."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, Final

from pydantic import BeforeValidator, Field

from flink_autoscaler.core.model.events import Event, EventType, ScalingReport
from flink_autoscaler.core.model.job import JobKey
from flink_autoscaler.core.options.context import JobAutoScalerContext
from flink_autoscaler.standalone.settings.secrets import masked
from flink_autoscaler.standalone.views.base import Number, Text, Value, View
from flink_autoscaler.stores.logging_handler import REPORT_REASON

if TYPE_CHECKING:
    from flink_autoscaler.stores.sql.events.log import StoredEvent

MAX_EVENTS: Final = 2000
MAX_LENGTH: Final = 2000
"""Characters of a message that are kept."""


class EventView(View):
    """Something that happened: when last, and how often."""

    at_ms: int
    job_key: str
    type: str
    reason: str
    message: Text
    count: int = 1


class EventsView(View):
    """Events, the newest first."""

    events: list[EventView]
    source: str = Field(description="memory or database.")


def _local(at: datetime) -> str:
    return at.astimezone().isoformat()


class StoredEventView(View):
    """A row of the database, with the numbers behind its text."""

    id: int
    created_at: Annotated[str, BeforeValidator(_local)]
    updated_at: Annotated[str, BeforeValidator(_local)]
    job_key: Text
    type: Text
    reason: Text
    count: int
    key: Text
    message: Text
    figures: dict[str, Number]
    is_executed: bool | None
    vertices: list[dict[str, Value]]


def event_view(row: StoredEvent) -> EventView:
    """Describe an event of the database as one that the daemon remembers."""
    return EventView(
        at_ms=round(row.updated_at.timestamp() * 1000),
        job_key=row.job_key,
        type=row.event_type,
        reason=row.reason,
        message=row.message,
        count=row.count,
    )


def stored_event_view(row: StoredEvent) -> StoredEventView:
    """Describe an event of the database with all that is known of it."""
    names = ("id", "created_at", "updated_at", "job_key", "reason", "count", "key", "message")
    vertices = [{"vertex_id": key, **asdict(vertex)} for key, vertex in row.figures.vertices.items()]
    fields: dict[str, Any] = {
        **{name: getattr(row, name) for name in names},
        "type": row.event_type,
        "figures": row.figures.figures,
        "is_executed": row.figures.is_executed,
        "vertices": vertices,
    }
    return StoredEventView.model_validate(fields)


class RecentEvents:
    """Keeps the newest events (an ``AutoScalerEventHandler``). Calls may come from any thread.

    Args:
        now_ms: The clock, epoch milliseconds.
    """

    def __init__(self, now_ms: Callable[[], int] = lambda: time.time_ns() // 1_000_000) -> None:
        self._now_ms = now_ms
        self._lock = threading.Lock()
        self._events: OrderedDict[tuple[JobKey, str, str], EventView] = OrderedDict()

    def handle_event(self, context: JobAutoScalerContext, event: Event) -> None:
        """Take one event; one that is repeated takes the place of the one before."""
        message = str(masked(event.message))[:MAX_LENGTH]
        identity = (context.job_key, event.reason, event.key or message)
        with self._lock:
            before = self._events.pop(identity, None)
            self._events[identity] = EventView(
                at_ms=self._now_ms(),
                job_key=context.job_key,
                type=event.type.value,
                reason=event.reason,
                message=message,
                count=1 if before is None else before.count + 1,
            )
            if len(self._events) > MAX_EVENTS:
                self._events.popitem(last=False)

    def handle_scaling_report(self, context: JobAutoScalerContext, report: ScalingReport) -> None:
        """Take one report as an event; one that is only advice is repeated while its parallelisms are the same."""
        key = None if report.is_executed else report.parallelism_hash
        self.handle_event(context, Event(EventType.NORMAL, REPORT_REASON, report.text, key))

    def close(self) -> None:
        """Release nothing."""

    def newest(self) -> list[EventView]:
        """Return all of them, the newest first."""
        with self._lock:
            return list(reversed(self._events.values()))
