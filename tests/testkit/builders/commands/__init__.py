"""Runs commands of the command line within the process of the tests."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import structlog
import typer


@dataclass
class Said:
    """What a command printed, and its exit code."""

    returncode: int
    stdout: str
    stderr: str


Call = Callable[..., Said]


@contextmanager
def restored_logging() -> Iterator[None]:
    """Undo what commands do to the logging of this process."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers = handlers
    root.setLevel(level)
    logging.captureWarnings(capture=False)
    structlog.reset_defaults()


@contextmanager
def commands(app: typer.Typer, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Call]:
    """Give what runs a command, apart from the environment; what it does to logging is undone."""

    def run(*arguments: str | Path) -> Said:
        capsys.readouterr()
        code = app([*map(str, arguments)], standalone_mode=False)
        said = capsys.readouterr()
        return Said(int(code or 0), said.out, said.err)

    for name in os.environ:
        if name.startswith(("AUTOSCALER", "FLINK")):
            monkeypatch.delenv(name)
    with restored_logging():
        yield run
