"""Every word that the autoscaler tells people: what it means, and what to do. The reference page is made from it.

The words themselves are in ``meanings.toml`` beside this module, which is read when somebody asks.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from importlib import resources


class Kind(StrEnum):
    """What sort of thing a word stands for."""

    REASON = "reason"
    EVENT = "event"
    FINDING = "finding"
    PHASE = "phase of a pass"
    JOB_PHASE = "phase of a job"
    RESCALE_STAGE = "stage of a rescale"


@dataclass(frozen=True, slots=True)
class Meaning:
    """One word.

    Attributes:
        word: As programs see it.
        means: What has happened or is so, for people.
        advice: What to do about it; empty where nothing is to be done.
    """

    word: str
    means: str
    advice: str = ""


@dataclass(frozen=True, slots=True)
class Chapter:
    """Words that belong together.

    Attributes:
        kind: What they are.
        title: Of their table.
        text: Where one meets them.
    """

    kind: Kind
    title: str
    text: str
    meanings: tuple[Meaning, ...]


@cache
def chapters() -> tuple[Chapter, ...]:
    """Return all words, in the order of the reference page."""
    found = tomllib.loads(resources.files(__package__).joinpath("meanings.toml").read_text(encoding="utf-8"))
    return tuple(
        Chapter(Kind(each["kind"]), each["title"], each["text"], tuple(Meaning(*word) for word in each["words"]))
        for each in found["chapters"]
    )


def meanings_of(word: str) -> Iterator[tuple[Kind, Meaning]]:
    """Yield what a word means, whatever its case and whether it has blanks, hyphens or underscores.

    Some words have several meanings: ``NOT_RUNNING`` is a reason, a finding and a phase.
    """
    wanted = _plain(word)
    for chapter in chapters():
        for meaning in chapter.meanings:
            if _plain(meaning.word) == wanted:
                yield chapter.kind, meaning


def _plain(word: str) -> str:
    return "".join(character for character in word.casefold() if character.isalnum())
