"""``glossary``: what a word means that the autoscaler tells, and what to do about it."""

from __future__ import annotations

from difflib import get_close_matches
from textwrap import fill
from typing import Annotated, Any, Final

import typer

from flink_autoscaler.core.model.message_catalog import CatalogEntry, EntryKind, catalog_sections, entries_of
from flink_autoscaler.standalone.cli import command as cli
from flink_autoscaler.standalone.cli import output as out

app = typer.Typer()

_INDENT: Final = "    "


@cli.command(
    app,
    "flink-autoscaler glossary DOES_NOT_PAY",
    "flink-autoscaler glossary RescaleRefused probation",
)
def glossary(
    words: Annotated[list[str], cli.argument("WORD...", "Reason, event, phase or finding.")],
    as_json: cli.JsonOption = False,
) -> int:
    """Explain reasons, events, phases and findings, and what to do."""
    found = [(word, list(entries_of(word))) for word in words]
    told = [entry for _, entries in found for entry in entries]
    if as_json:
        out.print_document({"entries": [_entry_document(kind, entry) for kind, entry in told]})
    else:
        out.write_out("".join(_entry_text(kind, entry) for kind, entry in told))
    unknown = [word for word, entries in found if not entries]
    for word in unknown:
        out.print_error(_unknown_word_message(word))
    return cli.EXIT_CONFIG if unknown else 0


def _entry_document(kind: EntryKind, entry: CatalogEntry) -> dict[str, Any]:
    return {"term": entry.term, "kind": kind.value, "description": entry.description, "remedy": entry.remedy or None}


def _entry_text(kind: EntryKind, entry: CatalogEntry) -> str:
    advice = f"To do: {entry.remedy}" if entry.remedy else ""
    told = (text.replace("`", "") for text in (entry.description, advice) if text)
    lines = (fill(text, 110, initial_indent=_INDENT, subsequent_indent=_INDENT) for text in told)
    return "\n".join([f"{entry.term} ({kind.value})", *lines, ""])


def _unknown_word_message(word: str) -> str:
    known = {each.term.casefold(): each.term for chapter in catalog_sections() for each in chapter.entries}
    close = get_close_matches(word.casefold(), known, n=1)
    return f"nothing is told by the word {word!r}" + (f"; did you mean {known[close[0]]!r}?" if close else "")
