"""Runs commands of the command line within the process of the tests."""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

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


def run_in_process(app: typer.Typer, capsys: pytest.CaptureFixture[str], arguments: Sequence[str]) -> Said:
    """Run a command, and return what it printed."""
    capsys.readouterr()
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, ())
    try:
        code = app([*arguments], standalone_mode=False)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)  # run holds SIGHUP, whose process ends with it
    said = capsys.readouterr()
    return Said(int(code or 0), said.out, said.err)


@contextmanager
def commands(app: typer.Typer, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Call]:
    """Give what runs a command, apart from the environment; what it does to logging is undone."""

    for name in os.environ:
        if name.startswith(("AUTOSCALER", "FLINK")):
            monkeypatch.delenv(name)
    with restored_logging():
        yield lambda *arguments: run_in_process(app, capsys, [*map(str, arguments)])


def command_fixture(app: typer.Typer) -> Callable[..., object]:
    """Return a fixture that gives a test what runs a command within its process; a file gives it a name."""

    @pytest.fixture
    def call(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Call]:
        with commands(app, capsys, monkeypatch) as call:
            yield call

    return call
