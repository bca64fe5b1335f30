"""The page of every word that people are told."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from flink_autoscaler.core.model.message_catalog import CatalogSection, catalog_sections

WORDS_PAGE: Final = Path("docs/reference/words.md")

_HEAD: Final = """\
# Words: phases, reasons, events

<!-- Generated: PYTHONPATH=tools python -m reference_pages --write -->

Every word that the log, `events`, `explain`, `once` and the reports tell, what it means, and what to do. The same on
the command line: `flink-autoscaler glossary DOES_NOT_PAY`. Options are named without `job.autoscaler.` in front; all of
them are in [Configuration](configuration.md). Where nothing is to be done, the last column is empty.
"""


def words_page() -> str:
    """Return the text of ``docs/reference/words.md``."""
    return (
        "\n".join([_HEAD, *(line for chapter in catalog_sections() for line in _section(chapter))]).rstrip("\n") + "\n"
    )


def _section(chapter: CatalogSection) -> Iterator[str]:
    yield from (f"## {chapter.title}", "", chapter.text, "")
    yield from (f"| {chapter.kind.value} | what it means | what to do |", "|---|---|---|")
    for each in chapter.entries:
        yield f"| `{each.term}` | {each.description} | {each.remedy} |"
    yield ""
