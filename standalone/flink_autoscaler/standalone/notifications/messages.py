"""Messages: CloudEvents 1.0 for programs, a title and a few lines for people, and the signature of a body."""

from __future__ import annotations

import hashlib
import hmac
import json
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from flink_autoscaler.core.model.events import Event, EventType, ScalingReport
from flink_autoscaler.core.model.numbers import finite
from flink_autoscaler.core.model.syntax import escaped
from flink_autoscaler.core.options.context import JobAutoScalerContext
from flink_autoscaler.standalone.settings.secrets import masked
from flink_autoscaler.stores.logging_handler import REPORT_KEY, REPORT_REASON

TYPE: Final = "flink-autoscaler.event."
"""What the ``type`` of a CloudEvent begins with; the reason follows, without blanks."""

ONE: Final = "application/cloudevents+json; charset=utf-8"
SEVERAL: Final = "application/cloudevents-batch+json; charset=utf-8"
SIGNATURE: Final = "X-Flink-Autoscaler-Signature"

_LONGEST_MESSAGE: Final = 4000
_LONGEST_LINE: Final = 500
_MOST_LINES: Final = 20

CloudEvent = Mapping[str, Any]
"""A CloudEvent as JSON has it; everything that people read is below ``data``."""


def cloud_event(context: JobAutoScalerContext, event: Event, *, event_id: str, source: str, at: float) -> CloudEvent:
    """Return an event as a CloudEvent 1.0 (https://github.com/cloudevents/spec, v1.0.2), without secrets.

    Args:
        context: Of the job, or of the daemon itself.
        event: What happened.
        event_id: The same whenever it is sent again.
        source: Name of the group of daemons.
        at: Epoch seconds.
    """
    severity = event.type.value.lower()
    data = {
        "reason": event.reason,
        "severity": severity,
        "cluster": context.cluster,
        "job": escaped(context.job_name),
        "job_key": context.job_key,
        "message": _cut(str(masked(event.message)), _LONGEST_MESSAGE),
        "figures": {name: finite(value) for name, value in event.figures},
    }
    return {
        "specversion": "1.0",
        "id": event_id,
        "source": f"/flink-autoscaler/{source}",
        "type": TYPE + "".join(character for character in event.reason if not character.isspace()),
        "subject": context.job_key,
        "time": datetime.fromtimestamp(at, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "severity": severity,
        "datacontenttype": "application/json",
        "data": data,
    }


def event_of(report: ScalingReport) -> Event:
    """Return the event that stands for a scaling report; of executed ones every one is told."""
    if report.is_executed:
        return Event(EventType.NORMAL, REPORT_REASON, report.text, REPORT_KEY)
    return Event(EventType.NORMAL, REPORT_REASON, report.text, report.parallelism_hash, report.interval)


def body_of(events: Sequence[CloudEvent]) -> tuple[bytes, str]:
    """Return the body of a POST and its content type: one event in structured mode, several as a batch."""
    content, kind = (events[0], ONE) if len(events) == 1 else (list(events), SEVERAL)
    return json.dumps(content, ensure_ascii=False, allow_nan=False).encode("utf-8", "replace"), kind


def signature_of(body: bytes, key: str) -> str:
    """Return what the header with the signature holds: HMAC-SHA256 of the body, in hexadecimal digits."""
    return "sha256=" + hmac.new(key.encode(), body, hashlib.sha256).hexdigest()


def title_of(events: Sequence[CloudEvent]) -> str:
    """Return the headline for people."""
    if len(events) == 1:
        return f"flink-autoscaler: {events[0]['data']['reason']} {events[0]['data']['job_key']}"
    warnings = sum(event["data"]["severity"] == "warning" for event in events)
    return f"flink-autoscaler: {len(events)} events, {warnings} of them warning{'' if warnings == 1 else 's'}"


def lines_of(events: Sequence[CloudEvent]) -> str:
    """Return one line per event, oldest first, and one that counts those that are too many."""
    lines = [_line(event) for event in events[:_MOST_LINES]]
    more = len(events) - _MOST_LINES
    return "\n".join([*lines, f"and {more} more"] if more > 0 else lines)


def _line(event: CloudEvent) -> str:
    data = event["data"]
    sign = "WARNING " if data["severity"] == "warning" else ""
    text = " ".join(str(data["message"]).split())
    return _cut(
        f"{event['time'][:19].replace('T', ' ')} UTC {sign}{data['job_key']} {data['reason']}: {text}", _LONGEST_LINE
    )


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[: longest - 3]}..."
