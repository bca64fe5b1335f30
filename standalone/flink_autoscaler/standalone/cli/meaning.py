"""``meaning``: what a word means that the autoscaler tells, and what to do about it."""

from __future__ import annotations

from difflib import get_close_matches
from textwrap import fill
from typing import Annotated, Any, Final

import typer

from flink_autoscaler.core.model.meanings import Kind, Meaning, chapters, meanings_of
from flink_autoscaler.standalone.cli import command as cli
from flink_autoscaler.standalone.cli import output as out

app = typer.Typer()

_INDENT: Final = "    "


@cli.command(
    app,
    "flink-autoscaler meaning DOES_NOT_PAY",
    "flink-autoscaler meaning RescaleRefused probation",
)
def meaning(
    words: Annotated[list[str], cli.argument("WORD...", "Reason, event, phase or finding.")],
    as_json: cli.JsonOption = False,
) -> int:
    """Explain reasons, events, phases and findings, and what to do."""
    found = [(word, list(meanings_of(word))) for word in words]
    told = [entry for _, entries in found for entry in entries]
    if as_json:
        out.print_document({"meanings": [_document(kind, entry) for kind, entry in told]})
    else:
        out.write_out("".join(_text(kind, entry) for kind, entry in told))
    unknown = [word for word, entries in found if not entries]
    for word in unknown:
        out.print_error(_unknown(word))
    return cli.EXIT_CONFIG if unknown else 0


def _document(kind: Kind, entry: Meaning) -> dict[str, Any]:
    return {"word": entry.word, "kind": kind.value, "means": entry.means, "advice": entry.advice or None}


def _text(kind: Kind, entry: Meaning) -> str:
    advice = f"To do: {entry.advice}" if entry.advice else ""
    told = (text.replace("`", "") for text in (entry.means, advice) if text)
    lines = (fill(text, 110, initial_indent=_INDENT, subsequent_indent=_INDENT) for text in told)
    return "\n".join([f"{entry.word} ({kind.value})", *lines, ""])


def _unknown(word: str) -> str:
    known = {each.word.casefold(): each.word for chapter in chapters() for each in chapter.meanings}
    close = get_close_matches(word.casefold(), known, n=1)
    return f"nothing is told by the word {word!r}" + (f"; did you mean {known[close[0]]!r}?" if close else "")
