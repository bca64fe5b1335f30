"""Tells news from repetitions, so that a condition that lasts is logged once, and one that flaps does not flood."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Collection, Hashable
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Final

MOST_CHANGES: Final = 5
PERIOD: Final = 600.0
"""A trouble that has changed more than so often within so many seconds is told once per period only."""


class ChangeFilter:
    """Remembers one text per subject. Belongs to one thread."""

    def __init__(self) -> None:
        self._texts: dict[Hashable, str] = {}

    def is_news(self, subject: Hashable, text: str) -> bool:
        """Tell whether the text differs from the last one about the subject, and remember it."""
        if self._texts.get(subject) == text:
            return False
        self._texts[subject] = text
        return True

    def keep_only(self, subjects: Collection[Hashable]) -> None:
        """Forget all other subjects."""
        self._texts = {subject: text for subject, text in self._texts.items() if subject in subjects}


class News(Enum):
    """What is to be told about a trouble."""

    NOTHING = auto()
    BEGAN = auto()
    """There is one, or it is another one than before."""
    ENDED = auto()
    FLAPS = auto()
    """It changes so often that single changes are not told any more."""
    SETTLED = auto()
    """It does not flap any more: what it is now lasts."""


@dataclass(slots=True)
class _Trouble:
    """One subject: its present text, when it changed lately, and when it was last told that it flaps."""

    text: str = ""
    changed_at: deque[float] = field(default_factory=lambda: deque(maxlen=MOST_CHANGES + 1))
    told_at: float | None = None


class Troubles:
    """What is wrong, by subject. Belongs to one thread.

    Args:
        clock: Seconds of a clock that never goes back.
    """

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._troubles: dict[str, _Trouble] = {}

    def take(self, subject: str, text: str) -> News:
        """Take what is wrong with a subject now, an empty text when nothing is, and return what is to be told."""
        if not text and subject not in self._troubles:
            return News.NOTHING
        trouble = self._troubles.setdefault(subject, _Trouble())
        has_changed = trouble.text != text
        if has_changed:
            trouble.text = text
            trouble.changed_at.append(self._clock())
        news = self._news(trouble, has_changed=has_changed)
        if not text and self._is_quiet(trouble):
            del self._troubles[subject]
        return news

    def subjects(self) -> frozenset[str]:
        """Return all subjects that are remembered: in trouble, or lately so."""
        return frozenset(self._troubles)

    def keep_only(self, subjects: Collection[str]) -> None:
        """Forget all other subjects."""
        self._troubles = {subject: trouble for subject, trouble in self._troubles.items() if subject in subjects}

    def _news(self, trouble: _Trouble, *, has_changed: bool) -> News:
        if not self._flaps(trouble):
            if trouble.told_at is not None:
                trouble.told_at = None
                return News.SETTLED
            return (News.BEGAN if trouble.text else News.ENDED) if has_changed else News.NOTHING
        now = self._clock()
        if not has_changed or (trouble.told_at is not None and now - trouble.told_at < PERIOD):
            return News.NOTHING
        trouble.told_at = now
        return News.FLAPS

    def _flaps(self, trouble: _Trouble) -> bool:
        changed_at = trouble.changed_at
        return len(changed_at) > MOST_CHANGES and self._clock() - changed_at[0] < PERIOD

    def _is_quiet(self, trouble: _Trouble) -> bool:
        """Tell whether the last change is so long ago that none of them counts any more."""
        return trouble.told_at is None and self._clock() - trouble.changed_at[-1] >= PERIOD
