"""Every word that the autoscaler tells people: what it means, and what to do. The reference page is made from it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from flink_autoscaler.core.model.meanings.events import EVENTS
from flink_autoscaler.core.model.meanings.meaning import Chapter, Kind, Meaning
from flink_autoscaler.core.model.meanings.phases import FINDINGS, PHASES
from flink_autoscaler.core.model.meanings.reasons import REASONS

CHAPTERS: Final = (*PHASES, *REASONS, *EVENTS, *FINDINGS)

__all__ = ["CHAPTERS", "Chapter", "Kind", "Meaning", "meanings_of"]


def meanings_of(word: str) -> Iterator[tuple[Kind, Meaning]]:
    """Yield what a word means, whatever its case and whether it has blanks, hyphens or underscores.

    Some words have several meanings: ``NOT_RUNNING`` is a reason, a finding and a phase.
    """
    wanted = _plain(word)
    for chapter in CHAPTERS:
        for meaning in chapter.meanings:
            if _plain(meaning.word) == wanted:
                yield chapter.kind, meaning


def _plain(word: str) -> str:
    return "".join(character for character in word.casefold() if character.isalnum())
