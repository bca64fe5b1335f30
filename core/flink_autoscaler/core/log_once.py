"""What lasts is logged once, and what changes again and again is said to flap."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final

PERIOD: Final = 600.0
"""A subject that has changed too often within so many seconds is logged once per period only."""


class AlertTransition(Enum):
    """What is to be logged about a subject."""

    NONE = auto()
    RAISED = auto()
    """Something is wrong, or something else than before."""
    CLEARED = auto()
    FLAPPING = auto()
    """It changes so often that single changes are not logged any more."""
    STABLE = auto()
    """It does not flap any more: what it is now lasts."""


@dataclass(slots=True)
class _Subject:
    """One subject: its present text, when it changed lately, and when it was last said to flap."""

    text: str = ""
    changed_at: deque[float] = field(default_factory=deque)
    flapping_at: float | None = None


class LogOnce:
    """Remembers what is wrong with each subject, so that what lasts is logged once. From any thread.

    Args:
        max_changes: Changes within a period from which on a subject flaps, if there is one more; None never.
        clock: Seconds that never go back.
    """

    def __init__(self, max_changes: int | None = None, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._max_changes = max_changes
        self._clock = clock
        self._subjects: dict[str, _Subject] = {}
        self._lock = threading.Lock()

    def is_news(self, subject: str, error: Exception | None) -> bool:
        """Take what is wrong with a subject now, None when nothing is; tell whether that is to be logged."""
        return self.update(subject, "" if error is None else str(error)) is not AlertTransition.NONE

    def update(self, subject: str, text: str) -> AlertTransition:
        """Take what is wrong with a subject now, an empty text when nothing is, and return what is to be logged."""
        with self._lock:
            known = self._subjects.get(subject)
            if known is None:
                if not text:
                    return AlertTransition.NONE
                kept = 1 if self._max_changes is None else self._max_changes + 1
                known = self._subjects[subject] = _Subject(changed_at=deque(maxlen=kept))
            has_changed = known.text != text
            if text and not has_changed and known.flapping_at is None:
                return AlertTransition.NONE  # most calls: what was wrong still is
            now = self._clock()
            if has_changed:
                known.text = text
                known.changed_at.append(now)
            transition = self._transition(known, now, has_changed=has_changed)
            # Once the last change is so long ago that none of them counts any more.
            is_over = self._max_changes is None or now - known.changed_at[-1] >= PERIOD
            if not text and known.flapping_at is None and is_over:
                del self._subjects[subject]
            return transition

    def subjects(self) -> frozenset[str]:
        """Return all subjects that are remembered: something is wrong with them, or was lately."""
        with self._lock:
            return frozenset(self._subjects)

    def keep_only(self, subjects: Collection[str]) -> None:
        """Forget all other subjects."""
        with self._lock:
            self._subjects = {subject: known for subject, known in self._subjects.items() if subject in subjects}

    def _transition(self, known: _Subject, now: float, *, has_changed: bool) -> AlertTransition:
        max_changes, changed_at = self._max_changes, known.changed_at
        if max_changes is None or len(changed_at) <= max_changes or now - changed_at[0] >= PERIOD:
            if known.flapping_at is not None:
                known.flapping_at = None
                return AlertTransition.STABLE
            if not has_changed:
                return AlertTransition.NONE
            return AlertTransition.RAISED if known.text else AlertTransition.CLEARED
        if not has_changed or (known.flapping_at is not None and now - known.flapping_at < PERIOD):
            return AlertTransition.NONE
        known.flapping_at = now
        return AlertTransition.FLAPPING
