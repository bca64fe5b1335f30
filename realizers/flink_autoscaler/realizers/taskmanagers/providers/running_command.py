"""A command that runs in the background: bounded in time, its output bounded, nothing of it waited for."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

from flink_autoscaler.core.errors import RealizeError
from flink_autoscaler.core.ports.task_managers import DONE, PENDING, OperationState, Progress

_SHOWN: Final = 500
"""Characters of the output in a message."""


class RunningCommand:
    """One run of a command, begun at once. Nothing of its output is kept in memory.

    Args:
        command: Program and arguments; no shell.
        timeout: Seconds after which it is killed, with what it has started.
        clock: Seconds that never run backward.

    Raises:
        RealizeError: It could not be started.
    """

    def __init__(self, command: Sequence[str], *, timeout: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._name = command[0]
        self._timeout = timeout
        self._clock = clock
        self._began = clock()
        self._state: OperationState | None = None
        self._output = tempfile.TemporaryFile()  # noqa: SIM115 - read when the command has ended
        try:
            self._process = subprocess.Popen(  # noqa: S603 - the operator's own command, without a shell
                list(command),
                stdin=subprocess.DEVNULL,
                stdout=self._output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            self._output.close()
            raise RealizeError(f"{self._name} could not be started: {error.strerror or error}") from error

    def state(self) -> OperationState:
        """Tell how far it came; it is killed here when its time is over."""
        if self._state is None:
            code = self._process.poll()
            if code is not None:
                self._end(DONE if code == 0 else self._failure(f"ended with code {code}"))
            elif self._clock() - self._began >= self._timeout:
                self._kill()
                self._end(self._failure(f"did not end within {self._timeout:g} s"))
        return self._state or PENDING

    def wait(self) -> OperationState:
        """Wait for the end, at most for what is left of its time."""
        left = self._timeout - (self._clock() - self._began)
        try:
            self._process.wait(max(0.0, left))
        except subprocess.TimeoutExpired:
            self._kill()
            self._end(self._failure(f"did not end within {self._timeout:g} s"))
        return self.state()

    def output(self, limit: int) -> str:
        """Return the beginning of what it wrote, at most so many bytes; only before it is closed."""
        self._output.seek(0)
        return self._output.read(limit).decode(errors="replace")

    def close(self) -> None:
        """Give up the output. The command goes on by itself."""
        self._output.close()

    def _failure(self, how: str) -> OperationState:
        self._output.seek(0, os.SEEK_END)
        self._output.seek(max(0, self._output.tell() - 4 * _SHOWN))
        text = " ".join(self._output.read(4 * _SHOWN).decode(errors="replace").split())[-_SHOWN:]
        return OperationState(Progress.FAILED, f"{self._name} {how}{': ' if text else ''}{text}")

    def _end(self, state: OperationState) -> None:
        self._state = state

    def _kill(self) -> None:
        with suppress(ProcessLookupError):  # it may have ended just now
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
