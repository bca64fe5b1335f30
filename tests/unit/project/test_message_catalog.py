"""Every word that people are told has one line that says what it means, and every line is about a word in use."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from flink_autoscaler.core import errors
from flink_autoscaler.core.model.decision import PassPhase
from flink_autoscaler.core.model.message_catalog import (
    CatalogEntry,
    EntryKind,
    ReasonCode,
    catalog_sections,
    entries_of,
)
from flink_autoscaler.core.model.supervision import Stage, SupervisionPhase
from flink_autoscaler.core.options.job import AutoscalerOptions
from flink_autoscaler.core.options.option import PREFIX
from flink_autoscaler.standalone.settings.schema.options import daemon_keys
from testkit.contracts.told_words import FoundWords, find_words

ROOT = Path(__file__).parents[3]
PARTS = ("core", "clients", "stores", "realizers", "pipeline", "standalone")

# What cannot be followed to a literal, and why that loses no word.
NOT_FOLLOWED = {
    ("reason", "error.code"): "the classes of core.errors, taken below",
    ("event", "remembered[1]"): "a reason of a refusal that was told before",
}


@cache
def found() -> FoundWords:
    return find_words(ROOT, PARTS)


def error_codes() -> set[str]:
    """The codes of passes that end with an error: the names of the errors there are."""
    kinds = (each for each in vars(errors).values() if isinstance(each, type))
    names = {each.__name__ for each in kinds if issubclass(each, errors.AutoscalerError)}
    return {name.removesuffix("Error").upper() for name in names}


def used() -> dict[EntryKind, set[str]]:
    words = found().words
    return {
        EntryKind.REASON: set(words["reason"]) | {code.value for code in ReasonCode} | error_codes(),
        EntryKind.EVENT: set(words["event"]),
        EntryKind.FINDING: set(words["finding"]),
        EntryKind.PHASE: {phase.value for phase in PassPhase},
        EntryKind.JOB_PHASE: {phase.value for phase in SupervisionPhase},
        EntryKind.RESCALE_STAGE: {stage.value for stage in Stage},
    }


def declared(kind: EntryKind) -> list[CatalogEntry]:
    return [meaning for chapter in catalog_sections() if chapter.kind is kind for meaning in chapter.entries]


@pytest.mark.parametrize("kind", EntryKind, ids=lambda kind: kind.value)
def test_every_word_in_use_has_a_line(kind: EntryKind) -> None:
    assert used()[kind] - {meaning.term for meaning in declared(kind)} == set()


@pytest.mark.parametrize("kind", EntryKind, ids=lambda kind: kind.value)
def test_every_line_is_about_a_word_in_use(kind: EntryKind) -> None:
    assert {meaning.term for meaning in declared(kind)} - used()[kind] == set()


@pytest.mark.parametrize("kind", EntryKind, ids=lambda kind: kind.value)
def test_no_word_has_two_lines_of_a_kind(kind: EntryKind) -> None:
    words = [meaning.term for meaning in declared(kind)]

    assert sorted(words) == sorted(set(words))


def test_no_word_gets_away_unseen() -> None:
    lost = {(kind, text): places for kind, texts in found().lost.items() for text, places in texts.items()}

    assert lost.keys() == NOT_FOLLOWED.keys(), {each: lost[each] for each in lost.keys() - NOT_FOLLOWED.keys()}


@pytest.mark.parametrize("word", ["DOES_NOT_PAY", "RequirementsEdited", "RescaleRefused", "probation"])
def test_words_that_come_by_way_of_other_functions_are_found(word: str) -> None:
    assert any(word in words for words in used().values())


def test_a_word_of_any_source_file_is_found(tmp_path: Path) -> None:
    for part, path in (("core", "core/model/events.py"), ("standalone", "standalone/readiness/checks.py")):
        target = tmp_path / part / "flink_autoscaler" / path
        target.parent.mkdir(parents=True)
        target.write_text((ROOT / part / "flink_autoscaler" / path).read_text(encoding="utf-8"), encoding="utf-8")
    module = tmp_path / "core" / "flink_autoscaler" / "core" / "new.py"
    module.write_text(
        "from flink_autoscaler.core.model.events import Reason\n"
        "_TABLE = {1: ('IN_A_TABLE', 2)}\n"
        "def explained(text, code):\n    return Reason(code, text)\n"
        "def one(number):\n    code, _ = _TABLE[number]\n    return explained('x', code)\n"
        "def two(is_so):\n    return explained(code='IF_SO' if is_so else 'IF_NOT', text='x')\n"
        "def three(code):\n    return explained('x', code.upper())\n",
        encoding="utf-8",
    )

    words = find_words(tmp_path, ("core", "standalone"))

    assert set(words.words["reason"]) == {"IN_A_TABLE", "IF_SO", "IF_NOT"}
    assert set(words.lost["reason"]) == {"code.upper()"}


def test_lines_are_sentences() -> None:
    texts = [
        text
        for chapter in catalog_sections()
        for each in chapter.entries
        for text in (each.description, each.remedy)
        if text
    ]

    assert [text for text in texts if not text.endswith(".")] == []


def options_named() -> Iterator[str]:
    """Options as they are named in the lines: below ``job.autoscaler.`` without their prefix."""
    texts = [each.description + each.remedy for chapter in catalog_sections() for each in chapter.entries]
    names = (name for text in texts for name in re.findall(r"`([a-z0-9.-]+)`", text))
    foreign = ("jobmanager.", "taskmanager.", "metrics.fetcher.", "execution.", "pipeline.")
    return (name for name in names if "." in name and not name.startswith(foreign))


def test_options_that_lines_name_exist() -> None:
    known = {key for option in AutoscalerOptions.all_options() for key in option.keys} | set(daemon_keys())
    unknown = {name for name in options_named() if name not in known and PREFIX + name not in known}

    assert unknown == set()


@pytest.mark.parametrize("word", ["DOES_NOT_PAY", "does not pay", "does-not-pay", "DoesNotPay"])
def test_a_word_is_found_however_it_is_written(word: str) -> None:
    ((kind, meaning),) = entries_of(word)

    assert (kind, meaning.term) == (EntryKind.REASON, "DOES_NOT_PAY")


def test_a_word_of_several_kinds_has_a_meaning_of_each() -> None:
    assert {kind for kind, _ in entries_of("not running")} == {EntryKind.PHASE, EntryKind.REASON, EntryKind.FINDING}
