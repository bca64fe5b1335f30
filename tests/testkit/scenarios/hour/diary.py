"""What was typed and what came back, as text that the guide can show."""

from __future__ import annotations

import shlex
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

_LONGEST_COMMAND = 180.0


@dataclass(frozen=True)
class Ran:
    """A command that has ended; ``out`` is its standard output, ``err`` its standard error, ``took`` seconds."""

    code: int
    out: str
    err: str
    took: float


class Diary:
    """Runs commands of ``flink-autoscaler`` as a person would, and writes down what happened when.

    Args:
        file: What is written to, from its beginning.
        config: The configuration that the commands are given.
        environ: Variables of the commands.
    """

    def __init__(self, file: Path, config: Path, environ: dict[str, str]) -> None:
        self.file = file
        self._config = config
        self._environ = environ
        self._begun = time.monotonic()
        file.write_text("", encoding="utf-8")

    @property
    def text(self) -> str:
        """All of it so far."""
        return self.file.read_text(encoding="utf-8")

    def say(self, text: str) -> None:
        """Write a line with the minutes since the beginning, here and on the screen."""
        seconds = int(time.monotonic() - self._begun)
        line = f"[{seconds // 60:02d}:{seconds % 60:02d}] {text}"
        print(line, flush=True)
        self.write(f"\n{line}\n")

    def run(self, *arguments: str, is_shown: bool = True) -> Ran:
        """Run a command with the configuration of the site and wait until it has ended.

        Args:
            arguments: Those after ``flink-autoscaler``.
            is_shown: Whether the diary is to have it.
        """
        command = [str(Path(sys.executable).with_name("flink-autoscaler")), *arguments, "--config", str(self._config)]
        begun = time.monotonic()
        done = subprocess.run(
            command, capture_output=True, text=True, env=self._environ, timeout=_LONGEST_COMMAND, check=False
        )
        if is_shown:
            self._show(arguments, done)
        return Ran(done.returncode, done.stdout, done.stderr, time.monotonic() - begun)

    def _show(self, arguments: Sequence[str], done: subprocess.CompletedProcess[str]) -> None:
        code = f"(exit code {done.returncode})\n" if done.returncode else ""
        self.write(f"$ flink-autoscaler {shlex.join(arguments)}\n{done.stdout}{done.stderr}{code}")

    def write(self, text: str) -> None:
        """Write text as it is."""
        with self.file.open("a", encoding="utf-8") as file:
            file.write(text)
