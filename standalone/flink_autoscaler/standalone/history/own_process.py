"""A process of its own for work that must delay no pass: neither by what it computes nor by the memory that it takes.

The daemon hands one value to the process and reads messages from it. The process ends when the daemon does, however
that ends.
"""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import IO, Any, Final, cast

from flink_autoscaler.core.errors import AutoscalerError

NICENESS: Final = 10
"""Passes go first where processors are short."""

STOP_SECONDS: Final = 5.0
"""For a process to end in order, before it is killed."""

_TROUBLE: Final = (OSError, EOFError, pickle.UnpicklingError, ValueError)


class OwnProcessError(AutoscalerError):
    """The process could not be started, or has ended before its work."""


class OwnProcess:
    """A process that runs a module of ours. It is begun at once.

    Args:
        module: Its name; its main function begins with :func:`begun`.
        given: What it is to do; is pickled.

    Raises:
        OwnProcessError: It could not be started.
    """

    def __init__(self, module: str, given: object) -> None:
        # Not multiprocessing: its children import the main module of the daemon, and a tracker process stays behind.
        command = [sys.executable, "-P", "-m", module]
        try:
            self._process = subprocess.Popen(  # noqa: S603
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE
            )
            pickle.dump(given, self._input)
            self._input.flush()
        except OSError as error:
            raise OwnProcessError(f"the process could not be started: {error}") from error

    @property
    def pid(self) -> int:
        """Its id."""
        return self._process.pid

    def message(self) -> Any:
        """Wait for the next message and return it; None is the last one.

        Raises:
            OwnProcessError: The process has ended without one.
        """
        try:
            return pickle.load(cast("IO[bytes]", self._process.stdout))  # noqa: S301 - ours
        except _TROUBLE as error:
            code = self._process.wait()
            raise OwnProcessError(f"ended with code {code}") from error

    def messages(self) -> Iterator[Any]:
        """Yield messages as they come, up to the last one; raises like :meth:`message`."""
        while (message := self.message()) is not None:
            yield message

    def close(self) -> None:
        """End the process, in order if possible; from any thread, also while another one waits for messages."""
        self._process.terminate()
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        with suppress(OSError):
            self._input.close()

    @property
    def _input(self) -> IO[bytes]:
        return cast("IO[bytes]", self._process.stdin)


class Target:
    """Where messages for the daemon go."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream

    def send(self, message: object) -> None:
        """Send a message at once; None is the last one."""
        pickle.dump(message, self._stream)
        self._stream.flush()


def begun() -> tuple[Any, Target]:
    """Make this process one that works for a daemon; return what it is to do, and where its messages go."""
    target = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever else somebody prints must not come between the messages
    _prepare_signals()
    given = pickle.load(sys.stdin.buffer)  # noqa: S301 - from the daemon that started this process
    with suppress(OSError):  # a sandbox may refuse it
        os.nice(NICENESS)
    threading.Thread(target=_end_with_the_daemon, daemon=True).start()
    return given, Target(target)


def _prepare_signals() -> None:
    """Undo what the daemon holds back, and end in order when it says so."""
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))


def _end_with_the_daemon() -> None:
    """Wait until the daemon has closed its end of standard input, as the system does when it dies."""
    # Not through sys.stdin, whose lock this thread would still hold when the interpreter ends.
    os.read(0, 1)
    os.kill(os.getpid(), signal.SIGTERM)
