"""Every code and event that the autoscaler reports: its description and remedy. The reference page is made from it.

The entries are in ``message_catalog.toml`` beside this module, which is read when somebody asks.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from importlib import resources


class EntryKind(StrEnum):
    """Sort of thing that a term stands for."""

    REASON = "reason"
    EVENT = "event"
    FINDING = "finding"
    PHASE = "phase of a pass"
    JOB_PHASE = "phase of a job"
    RESCALE_STAGE = "stage of a rescale"


@dataclass(frozen=True, slots=True)
class CatalogEntry:
    """One term.

    Attributes:
        term: As programs see it.
        description: What has happened or is so, for people.
        remedy: What to do about it; empty where nothing is to be done.
    """

    term: str
    description: str
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class CatalogSection:
    """Entries that belong together.

    Attributes:
        kind: What they are.
        title: Of their table.
        text: Where one meets them.
    """

    kind: EntryKind
    title: str
    text: str
    entries: tuple[CatalogEntry, ...]


@cache
def catalog_sections() -> tuple[CatalogSection, ...]:
    """Return all sections, in the order of the reference page."""
    found = tomllib.loads(resources.files(__package__).joinpath("message_catalog.toml").read_text(encoding="utf-8"))
    return tuple(
        CatalogSection(
            EntryKind(each["kind"]),
            each["title"],
            each["text"],
            tuple(CatalogEntry(*message) for message in each["messages"]),
        )
        for each in found["sections"]
    )


def entries_of(word: str) -> Iterator[tuple[EntryKind, CatalogEntry]]:
    """Yield what a word means, whatever its case and whether it has blanks, hyphens or underscores.

    Some words have several meanings: ``NOT_RUNNING`` is a reason, a finding and a phase.
    """
    wanted = _plain(word)
    for section in catalog_sections():
        for entry in section.entries:
            if _plain(entry.term) == wanted:
                yield section.kind, entry


def _plain(word: str) -> str:
    return "".join(character for character in word.casefold() if character.isalnum())
