"""What a word means that the autoscaler tells people, and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


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
