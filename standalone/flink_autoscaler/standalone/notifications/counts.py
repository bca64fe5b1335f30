"""How the telling of targets goes: what was sent, what failed, what waits, and what nobody will be told about."""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class TargetStatus:
    """One target since the start of the daemon. Events are counted one by one, messages hold several.

    Attributes:
        sent: Events that it took.
        failed: Messages that it did not take.
        retried: Messages that were sent again after one that it did not take.
        dropped: Events that it will not be told about: refused, given up, or too many at once.
        waiting: Events that wait for it; None where this daemon does not know, since another one leads.
        failing: Whether it did not take the last message.
    """

    sent: int = 0
    failed: int = 0
    retried: int = 0
    dropped: int = 0
    waiting: int | None = None
    failing: bool = False


class TargetCounts:
    """Counts for one target. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._status = TargetStatus()

    @property
    def status(self) -> TargetStatus:
        """What was counted."""
        return self._status

    def took(self, events: int) -> None:
        """The target took a message with so many events."""
        with self._lock:
            self._status = replace(self._status, sent=self._status.sent + events, failing=False)

    def failed(self) -> None:
        """The target did not take a message."""
        with self._lock:
            self._status = replace(self._status, failed=self._status.failed + 1, failing=True)

    def retried(self) -> None:
        """A message is sent again."""
        with self._lock:
            self._status = replace(self._status, retried=self._status.retried + 1)

    def dropped(self, events: int) -> None:
        """The target will not be told about so many events."""
        with self._lock:
            self._status = replace(self._status, dropped=self._status.dropped + events)

    def waits(self, events: int) -> None:
        """So many events wait for it."""
        with self._lock:
            self._status = replace(self._status, waiting=events)

    def stands_by(self) -> None:
        """Another daemon sends: it knows what waits, and whether that works."""
        with self._lock:
            self._status = replace(self._status, waiting=None, failing=False)
