"""The examples that the help shows are commands that the command line understands."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from typing import Any

import pytest
import typer.main

from flink_autoscaler.standalone.cli.main import app

ROOT: Any = typer.main.get_command(app)


def commands(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield every command and group below one, with the words that lead to it."""
    for name, child in getattr(command, "commands", {}).items():
        yield (*path, name), child
        yield from commands(child, (*path, name))


def examples(command: Any) -> list[list[str]]:
    """Return the words of every example of a command, without variables before it and what it is piped into."""
    text = re.sub(r"\\\n\s*", "", command.epilog or "")
    found = re.findall(r"^ *(?:[A-Z_]+=\S+ )?flink-autoscaler (.+)$", text, re.MULTILINE)
    return [shlex.split(line.partition(" | ")[0].partition(" > ")[0]) for line in found]


@pytest.mark.parametrize(("path", "command"), [pytest.param(*each, id=" ".join(each[0])) for each in commands(ROOT)])
def test_every_command_has_examples_that_are_understood(path: tuple[str, ...], command: Any) -> None:
    shown = examples(command)

    assert shown
    for words in shown:
        assert tuple(words[: len(path)]) == path
        understood(ROOT, words)


def understood(command: Any, words: list[str]) -> None:
    """Parse words as the command line does, down to the last command; raises what a mistyped option raises."""
    if not hasattr(command, "commands"):
        command.make_context(command.name, list(words))
        return
    assert words[0] in command.commands, words
    understood(command.commands[words[0]], words[1:])
