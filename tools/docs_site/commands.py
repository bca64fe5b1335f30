"""``python -m docs_site.commands``: write the page of the command line from the commands themselves."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import typer.main
from typer.cli import get_docs_for_click

from flink_autoscaler.standalone.cli.main import app

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "command-line.md"
NAME = "flink-autoscaler"

_HEAD = """\
# Command line

`flink-autoscaler --help`, and `--help` after each command, print the same. The options that `--set` takes are in
[Configuration](configuration.md).

"""
_INDENTED = re.compile(r" {2,}\S")


def page() -> str:
    """Return the page: every command with what it does, its arguments, options and examples."""
    command = typer.main.get_command(app)
    text = get_docs_for_click(obj=command, ctx=typer.Context(command), name=NAME, title="")
    text = text.replace("\b", "")  # by which a help text keeps its lines from being joined on a terminal
    lines = "\n".join(_with_code(text[text.index("**Usage**") :].splitlines()))
    return _HEAD + re.sub(r"\n{3,}", "\n\n", lines).strip() + "\n"


def _with_code(lines: list[str]) -> Iterator[str]:
    """Yield the lines, with examples, which commands print indented, as code."""
    is_example = False
    for line in lines:
        if bool(_INDENTED.match(line)) != is_example:
            is_example = not is_example
            yield from ["", "```sh"] if is_example else ["```", ""]
        yield line.removeprefix("  ") if is_example else line


def main() -> None:
    """Write the page."""
    PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
