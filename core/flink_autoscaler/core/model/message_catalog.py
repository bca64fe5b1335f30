"""The message catalog: the sentence of every reason, and what each code means and what to do about it.

Both are in ``message_catalog.toml`` beside this module, which is read when somebody asks: a sentence is a template that
is rendered when its text is read, and the reference page is made from the descriptions.

A template names figures and words in braces, with a format of Python or one of :data:`_FORMATS`. A part in square
brackets is left out where one of its names is not given; what follows a bar in it takes its place.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum, auto
from functools import cache
from importlib import resources
from string import Formatter
from typing import Any, Final

from flink_autoscaler.core.model.numbers import plain, three_digits, two_decimals

Word = str | float


class ReasonCode(StrEnum):
    """Stable codes of reasons; the template of each one's sentence is in the catalog."""

    @staticmethod
    def _generate_next_value_(name: str, *_: object) -> str:
        return name

    @property
    def template(self) -> str:
        """The sentence, with the names of figures and words in braces."""
        template: str = _catalog()["sentences"][self.value]
        return template

    SIZED = auto()
    AT_TARGET = auto()
    NO_CHANGE = auto()
    WITHIN_BOUNDS = auto()
    PROCESSING_BACKLOG = auto()
    EXCLUDED = auto()
    IDLE_SUBTASKS = auto()
    PLANNED = auto()
    ALIGNMENT_MODE = auto()
    ALIGNMENT_TOO_FAR = auto()
    INEFFECTIVE_SCALING = auto()
    SATURATED = auto()
    SCALE_DOWN_DELAYED = auto()
    SCALE_DOWN_STALE = auto()
    SCALE_DOWN_HIGHEST = auto()
    PAUSED = auto()
    DIRECTION_OFF = auto()
    QUARANTINED = auto()
    BUDGET_SPENT = auto()
    DOES_NOT_PAY = auto()
    NETWORK_MEMORY = auto()
    WAITS_FOR_MORE_SLOTS = auto()
    RESOURCE_CHECK = auto()
    NOT_SCHEDULABLE = auto()
    QUOTA_UNKNOWN = auto()
    QUOTA_REACHED = auto()
    HEADROOM_UNKNOWN = auto()
    HEADROOM_REACHED = auto()
    SCALING_EXECUTOR = auto()
    VETOED = auto()
    REACTIVE_UNCHANGED = auto()
    REACTIVE = auto()
    RAISED_TO_THRESHOLD = auto()
    RESCALE_TOO_SMALL = auto()
    SCALING_DISABLED = auto()
    MEMORY_PRESSURE = auto()
    FAIR_SHARE = auto()
    SLOTS_MISSING = auto()
    SLOTS_COMING = auto()
    SAMPLE_DOUBTED = auto()
    GIVES_SLOTS = auto()
    UNKNOWN_RATE = auto()
    BOTTLENECK = auto()
    DATA_SKEW = auto()
    FORECAST_HIGHER = auto()
    SCALE_UP = auto()
    SCALE_DOWN = auto()
    SCALING_LIMITED = auto()
    VARGA_ADVICE = auto()
    BETWEEN_SYNCS = auto()
    WARM_UP = auto()
    NO_THROUGHPUT = auto()
    CATCHING_UP = auto()
    BEHIND = auto()
    SETTLING = auto()
    STABILIZED = auto()
    RATE_LIMITED = auto()
    PLAN_HOLDS = auto()
    PLAN_BEGINS = auto()
    PLAN_BOUNDS = auto()
    FLOOR = auto()
    DOWN_BLOCKED = auto()
    NO_OPINION = auto()
    POLICY_FAILED = auto()
    NOT_RUNNING = auto()
    INCOMPLETE_WINDOW = auto()
    METRIC_MISSING = auto()
    LAG_UNKNOWN = auto()
    HELD_BACK = auto()
    SLO_LEARNING = auto()
    SLO_LIMITED = auto()
    SLO_QUIET = auto()
    SLO_SIZE = auto()
    SLO_STAYS = auto()
    SLO_UP = auto()
    SLO_DOWN = auto()
    SLO_DOWN_WAITS = auto()
    SLO_FORECAST = auto()
    SLO_COST = auto()
    SLO_BUDGET = auto()
    METRICS_NOT_FRESH = auto()
    FACTS_UNKNOWN = auto()
    FORECAST_DISABLED = auto()
    FORECAST_UNUSED = auto()
    WINDOW_FILLING = auto()
    COLLECTING = auto()
    DISABLED = auto()
    INVALID_CONFIG = auto()
    TASKMANAGER_LOST = auto()
    METRIC_EVALUATOR = auto()
    SOURCE_LAG_UNKNOWN = auto()
    SKEWED_PARTITION = auto()
    ARRIVAL_RATE_UNKNOWN = auto()
    FLOOR_UNKNOWN = auto()
    EDITED_BY_OTHERS = auto()
    RESCALE_UNDER_WAY = auto()
    ROLLING_BACK = auto()
    REFUSED_LATELY = auto()
    REQUIREMENTS_UNKNOWN = auto()
    PAUSED_AFTER_ROLLBACK = auto()


@cache
def _catalog() -> dict[str, Any]:
    import tomllib  # noqa: PLC0415 - a pass that nobody reads about needs no sentences

    return tomllib.loads(resources.files(__package__).joinpath("message_catalog.toml").read_text(encoding="utf-8"))


_FORMATS: Final[Mapping[str, Callable[[float], str]]] = {
    "plain": plain,
    "two": two_decimals,
    "three": three_digits,
    "percent": lambda value: f"{100 * value:.0f} %",
}
_PARTS: Final = re.compile(r"\[([^\[\]]*)\]")


class _Sentences(Formatter):
    def format_field(self, value: Any, format_spec: str) -> str:
        own = _FORMATS.get(format_spec)
        return format(value, format_spec) if own is None else own(value)


_SENTENCES: Final = _Sentences()


def render_reason(code: str, values: Mapping[str, Any]) -> str:
    """Return the sentence of a code of the catalog.

    Args:
        code: Of the catalog.
        values: Figures and words by name; ``said_by`` is put in front of the sentence.

    Raises:
        KeyError: A value is missing that the sentence needs.
    """
    # Parts are rendered apart: what a word says may have brackets of its own.
    pieces = _PARTS.split(ReasonCode[code].template)
    text = "".join(
        _render(piece, values) if number % 2 == 0 else _alternative(piece, values)
        for number, piece in enumerate(pieces)
    )
    return f"{values['said_by']}: {text}" if "said_by" in values else text


def _alternative(part: str, values: Mapping[str, Any]) -> str:
    first, _, other = part.partition("|")
    try:
        return _render(first, values)
    except KeyError:
        return _render(other, values)


def _render(template: str, values: Mapping[str, Any]) -> str:
    return _SENTENCES.vformat(template, (), values)


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
    return tuple(
        CatalogSection(
            EntryKind(each["kind"]),
            each["title"],
            each["text"],
            tuple(CatalogEntry(*message) for message in each["messages"]),
        )
        for each in _catalog()["sections"]
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
