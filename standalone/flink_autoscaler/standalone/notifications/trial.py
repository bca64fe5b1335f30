"""A test message to each target, as ``notify --test`` sends it."""

from __future__ import annotations

import time
import uuid
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from typing import Any, Final

from flink_autoscaler.clients.http.event_loop import EventLoopThread
from flink_autoscaler.core.border import Border
from flink_autoscaler.core.errors import AutoscalerError
from flink_autoscaler.core.model.events import Event, EventType
from flink_autoscaler.core.model.job import Endpoint, JobStatus
from flink_autoscaler.core.options.context import JobAutoScalerContext
from flink_autoscaler.standalone.notifications.messages import CloudEvent, cloud_event
from flink_autoscaler.standalone.notifications.targets import make_target
from flink_autoscaler.standalone.settings.credentials import target_url
from flink_autoscaler.standalone.settings.schema.clusters import TargetSettings
from flink_autoscaler.standalone.settings.secrets import masked, without_target

_MOST_AT_ONCE: Final = 8
_TEXT: Final = "This is a test of notifications: nothing has happened."


def tried(targets: Sequence[TargetSettings], source: str) -> list[dict[str, Any]]:
    """Send a test message to each target, at the same time; return what came of it, for JSON.

    Args:
        targets: Who is told.
        source: Name of the group of daemons.
    """
    if not targets:
        return []
    loop = EventLoopThread("notifications")
    with closing(loop), ThreadPoolExecutor(min(len(targets), _MOST_AT_ONCE)) as pool:
        return list(pool.map(partial(_tried, loop, _message(source)), targets))


def _message(source: str) -> CloudEvent:
    context = JobAutoScalerContext(source, None, JobStatus.UNKNOWN, {}, Endpoint(""))
    event = Event(EventType.NORMAL, "NotificationTest", _TEXT)
    return cloud_event(context, event, event_id=str(uuid.uuid4()), source=source, at=time.time())


def _tried(loop: EventLoopThread, message: CloudEvent, settings: TargetSettings) -> dict[str, Any]:
    with Border() as border:
        make_target(settings, loop).send([message], lambda: True)
    error = None if border.error is None else str(masked(str(border.error)))
    named = {"name": settings.name, "type": settings.type, "place": _place(settings)}
    return {**named, "error": error, "is_sent": error is None}


def _place(settings: TargetSettings) -> str:
    try:
        return without_target(target_url(settings, ""))
    except AutoscalerError:
        return "unknown"
