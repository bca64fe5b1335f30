"""Notices that wait in the memory of the process, until that ends."""

from __future__ import annotations

import math
import threading
import uuid
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from flink_autoscaler.core.model.notifications import MAX_SENT, MAX_WAITING, Notification, NotificationBatch
from flink_autoscaler.stores.clock import monotonic_seconds

_KEPT = 86_400.0
"""Seconds for which is known what was settled."""


@dataclass(slots=True)
class _StoredNotification:
    """A notice and what became of it; instants in seconds of the clock.

    Attributes:
        settled_at: When it was sent or given up; None while it waits.
    """

    notice: Notification
    added_at: float
    claim: str = ""
    claimed_until: float = -math.inf
    settled_at: float | None = None


class HeapOutbox:
    """Keeps notices until the process ends (an ``Outbox``). Thread-safe.

    Args:
        max_waiting: Notices of one target that wait at most.
        clock: Seconds of a clock that never goes back.
    """

    def __init__(self, *, max_waiting: int = MAX_WAITING, clock: Callable[[], float] = monotonic_seconds) -> None:
        self._max_waiting = max_waiting
        self._clock = clock
        self._lock = threading.Lock()
        self._kept: list[_StoredNotification] = []

    def add(self, notices: Sequence[Notification]) -> None:
        """Keep notices that are no repetitions."""
        with self._lock:
            now = self._clock()
            for notice in notices:
                if not any(_is_same(each, notice, now) for each in self._kept):
                    self._kept.append(_StoredNotification(notice, now))

    def lease(self, target: str, seconds: float) -> NotificationBatch | float:
        """Claim what is to be sent now; else return the seconds until there may be something."""
        with self._lock:
            now = self._clock()
            waiting = [each for each in self._kept if each.notice.target == target and each.settled_at is None]
            free = [each for each in waiting if each.claimed_until <= now]
            if not free:
                return min((each.claimed_until - now for each in waiting), default=math.inf)
            claim, chosen = uuid.uuid4().hex, free[:MAX_SENT]
            for each in chosen:
                each.claim, each.claimed_until = claim, now + seconds
            return NotificationBatch(claim, tuple(each.notice.text for each in chosen))

    def ack(self, claim: str) -> None:
        """Take note that what was claimed was sent, or is given up."""
        with self._lock:
            now = self._clock()
            for each in self._kept:
                if each.claim == claim:
                    each.settled_at = now

    def nack(self, claim: str) -> None:
        """Let what was claimed wait again."""
        with self._lock:
            for each in self._kept:
                if each.claim == claim:
                    each.claim, each.claimed_until = "", -math.inf

    def pending_count(self, target: str) -> int:
        """Return how many notices of a target are neither sent nor given up."""
        with self._lock:
            return sum(each.notice.target == target and each.settled_at is None for each in self._kept)

    def expire(self, age: float) -> Mapping[str, int]:
        """Give up what has waited for too long or is too much; return how many notices that were by target."""
        with self._lock:
            now = self._clock()
            settled = [each for each in self._kept if each.settled_at is not None]
            self._kept = [each for each in self._kept if each.settled_at is None]
            before = Counter(each.notice.target for each in self._kept)
            self._kept = self._within_limit([each for each in self._kept if now - each.added_at < age])
            given_up = before - Counter(each.notice.target for each in self._kept)
            # In front: a list is walked to its end in any case, and the order of what waits is the one that counts.
            self._kept[:0] = [each for each in settled if _is_remembered(each, now)]
            return dict(given_up)

    def _within_limit(self, kept: list[_StoredNotification]) -> list[_StoredNotification]:
        """Return as many notices of each target as may wait."""
        counts: dict[str, int] = {}
        newest = []
        for each in reversed(kept):
            counts[each.notice.target] = counts.get(each.notice.target, 0) + 1
            if counts[each.notice.target] <= self._max_waiting:
                newest.append(each)
        return newest[::-1]


def _is_same(kept: _StoredNotification, notice: Notification, now: float) -> bool:
    """Tell whether a notice repeats one that is kept, or is that one."""
    if kept.notice.target != notice.target:
        return False
    is_repetition = kept.notice.identity == notice.identity and now < kept.added_at + kept.notice.interval
    return is_repetition or kept.notice.notice_id == notice.notice_id


def _is_remembered(kept: _StoredNotification, now: float) -> bool:
    settled_at = now if kept.settled_at is None else kept.settled_at
    return now < max(settled_at + _KEPT, kept.added_at + kept.notice.interval)
