"""The page of what was renamed: old names beside the new ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from flink_autoscaler.standalone.settings.removals import renamed

UPGRADE_PAGE: Final = Path("docs/reference/renamed.md")

_HEAD: Final = """\
# Renamed since 0.2.0

<!-- Generated: PYTHONPATH=tools python -m reference_pages --write -->

`flink-autoscaler check-config` names every old key in a configuration, with its place and the new key; old commands and
options are refused in the same way. Log events, metrics and fields of JSON cannot be refused: adapt what parses them.
The dashboards and alerts in `conf/` use the new names. What is stored stays readable.
"""


def upgrade_page() -> str:
    """Return the text of ``docs/reference/renamed.md``."""
    sections = (
        *_section("Options", {f"`{old.rstrip('.')}`": new.rstrip(".") for old, new in renamed().items()}),
        *_section("Commands", {f"`{old}`": new for old, new in renamed("commands").items()}),
        *_section("Log events", {f"`{old}`": new for old, new in renamed("log-events").items()}),
        *_section("Metrics", {f"`{old}`": new for old, new in renamed("metrics").items()}),
        *_section("API and JSON of commands", renamed("fields")),
    )
    return "\n".join([_HEAD, *sections]).rstrip("\n") + "\n"


def _section(title: str, names: Mapping[str, str]) -> Iterator[str]:
    yield from (f"## {title}", "", "| until 0.2.0 | now |", "|---|---|")
    yield from (f"| {old} | {new if '`' in new else f'`{new}`'} |" for old, new in names.items())
    yield ""
