"""Tells news from repetitions, so that a condition that lasts is logged once."""

from __future__ import annotations

from collections.abc import Collection, Hashable


class Changes:
    """Remembers one text per subject. Belongs to one thread."""

    def __init__(self) -> None:
        self._texts: dict[Hashable, str] = {}

    def is_news(self, subject: Hashable, text: str) -> bool:
        """Tell whether the text differs from the last one about the subject, and remember it."""
        if self._texts.get(subject) == text:
            return False
        self._texts[subject] = text
        return True

    def is_over(self, subject: Hashable) -> bool:
        """Tell whether there was a text about the subject, and forget it."""
        return self._texts.pop(subject, None) is not None

    def keep_only(self, subjects: Collection[Hashable]) -> None:
        """Forget all other subjects."""
        self._texts = {subject: text for subject, text in self._texts.items() if subject in subjects}
