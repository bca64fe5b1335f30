"""Event handlers: several as one, the events of the last hours in memory, and the daemon's own."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

import structlog

from flink_autoscaler.core.border import Border
from flink_autoscaler.core.errors import AutoscalerError, PluginError
from flink_autoscaler.core.model.events import Event, EventType, ScalingReport
from flink_autoscaler.core.model.job import Endpoint, JobKey, JobStatus
from flink_autoscaler.core.options.context import JobAutoScalerContext
from flink_autoscaler.core.ports.deployment import AutoScalerEventHandler
from flink_autoscaler.standalone.settings.secrets import masked
from flink_autoscaler.stores.logging_handler import REPORT_REASON

log = structlog.get_logger(__name__)

MAX_RECENT: Final = 2000
MAX_MESSAGE: Final = 2000
"""Characters of a message that are kept."""


class EventHandlers:
    """Hands everything to every handler, in order (an ``AutoScalerEventHandler``).

    Args:
        handlers: Told one after the other; at least one.
    """

    def __init__(self, handlers: Sequence[AutoScalerEventHandler]) -> None:
        self._handlers = tuple(handlers)

    def handle_event(self, context: JobAutoScalerContext, event: Event) -> None:
        """Take one event.

        Raises:
            AutoscalerError: A handler failed; all others were told.
        """
        _each([partial(handler.handle_event, context, event) for handler in self._handlers])

    def handle_scaling_report(self, context: JobAutoScalerContext, report: ScalingReport) -> None:
        """Take one report.

        Raises:
            AutoscalerError: A handler failed; all others were told.
        """
        _each([partial(handler.handle_scaling_report, context, report) for handler in self._handlers])

    def close(self) -> None:
        """Release the resources of every handler. May raise :class:`AutoscalerError`; all others are released."""
        _each([handler.close for handler in self._handlers])


def _each(actions: Sequence[Callable[[], object]]) -> None:
    """Do all of it; foreign code may raise anything."""
    errors = [error for action in actions if (error := _attempt(action)) is not None]
    if len(errors) == 1:
        raise errors[0]
    if errors:
        raise PluginError("; ".join(map(str, errors))) from errors[0]


def _attempt(action: Callable[[], object]) -> AutoscalerError | None:
    with Border() as border:
        action()
    return border.error


@dataclass(frozen=True, slots=True)
class RecentEvent:
    """Event, with its last time and its repetitions in a row."""

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
        message = str(masked(event.message))[:MAX_MESSAGE]
        identity = (context.job_key, event.reason, event.key or message)
        with self._lock:
            before = self._events.pop(identity, None)
            new = RecentEvent(self._now_ms(), context.job_key, event.type.value, event.reason, message)
            self._events[identity] = new if before is None else replace(new, count=before.count + 1)
            if len(self._events) > MAX_RECENT:
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


class ServiceEvents:
    """Hands events to the handler of the jobs' events, in the name of the daemon's group. From any thread.

    Args:
        handler: Where events go.
        name: Of the group of daemons, or of a cluster; stands where events of jobs have the job key.
        cluster: That it is about; empty for the daemon's own work.
    """

    def __init__(self, handler: AutoScalerEventHandler, name: str, cluster: str = "") -> None:
        self._handler = handler
        self._context = JobAutoScalerContext(name, None, JobStatus.UNKNOWN, {}, Endpoint(""), "", cluster)

    def __call__(self, event: Event) -> None:
        """Tell an event. Never raises: what is told about has happened, whoever hears of it."""
        with Border() as border:
            self._handler.handle_event(self._context, event)
        if border.error is not None:
            log.warning("event_not_told", reason=event.reason, error=masked(str(border.error)))
