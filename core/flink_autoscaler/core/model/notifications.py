"""Events on their way to people: what is to be told to one target, and what is sent together."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from flink_autoscaler.core.model.events import Event
from flink_autoscaler.core.model.job import JobKey

MAX_WAITING = 10_000
"""Notices of one target that wait at most; beyond that the oldest are given up."""

MAX_SENT = 100
"""Notices of one batch."""


@dataclass(frozen=True, slots=True)
class Notification:
    """One event for one target.

    Attributes:
        notice_id: Identity of the event, the same for all targets and however often it is sent; 36 characters at most.
        target: Name of the target.
        identity: What makes two events the same, see :func:`notification_identity`.
        interval: Seconds for which a repetition is not told; 0 tells every one.
        text: What is told, as text that the outbox does not read.
    """

    notice_id: str
    target: str
    identity: str
    interval: float
    text: str


@dataclass(frozen=True, slots=True)
class NotificationBatch:
    """Notices of one target that are sent together, by whoever has claimed them.

    Attributes:
        claim: Stands for the claim; no two are the same.
        texts: What is told, oldest first; never empty.
    """

    claim: str
    texts: tuple[str, ...]


def notification_identity(job_key: JobKey, event: Event) -> str:
    """Return the same text for two events that are the same, in every process: 40 hexadecimal digits."""
    parts = (job_key, event.type.value, event.reason, event.message if event.key is None else event.key)
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode("utf-8", "surrogatepass")
        digest.update(len(data).to_bytes(8, "big") + data)
    return digest.hexdigest()[:40]
