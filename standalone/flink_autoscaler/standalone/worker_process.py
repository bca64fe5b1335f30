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
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import IO, Any, Final, cast

from flink_autoscaler.core.errors import AutoscalerError

NICENESS: Final = 10
"""Passes go first where processors are short."""

STOP_SECONDS: Final = 5.0
"""For a process to end in order, before it is killed."""

_TROUBLE: Final = (OSError, EOFError, pickle.UnpicklingError, ValueError)


class WorkerProcessError(AutoscalerError):
    """The process could not be started, or has ended before its work."""


class WorkerProcess:
    """A process that runs a module of ours. It is begun at once.

    Args:
        module: Its name; its main function begins with :func:`init_worker`.
        given: What it is to do; is pickled.

    Raises:
        WorkerProcessError: It could not be started.
    """

    def __init__(self, module: str, given: object) -> None:
        # Not multiprocessing: its children import the main module of the daemon, and a tracker process stays behind.
        command = [sys.executable, "-P", "-m", module]
        try:
            self._process = subprocess.Popen(  # noqa: S603
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE
            )
            self._input = cast("IO[bytes]", self._process.stdin)
            pickle.dump(given, self._input)
            self._input.flush()
        except OSError as error:
            raise WorkerProcessError(f"the process could not be started: {error}") from error

    def message(self) -> Any:
        """Wait for the next message and return it; None is the last one.

        Raises:
            WorkerProcessError: The process has ended without one.
            AutoscalerError: The message is one; it is the last.
        """
        try:
            message = pickle.load(cast("IO[bytes]", self._process.stdout))  # noqa: S301 - ours
        except _TROUBLE as error:
            raise WorkerProcessError(f"its process ended with code {self._process.wait()}") from error
        if isinstance(message, AutoscalerError):
            raise message
        return message

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


def init_worker() -> tuple[Any, Callable[[object], None]]:
    """Make this process one that works for a daemon; return what it is to do, and what sends a message at once."""
    target = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever else somebody prints must not come between the messages
    # What the daemon holds back is not held back here, where SIGTERM alone has a meaning: end in order.
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    given = pickle.load(sys.stdin.buffer)  # noqa: S301 - from the daemon that started this process
    with suppress(OSError):  # a sandbox may refuse it
        os.nice(NICENESS)
    threading.Thread(target=_exit_with_daemon, daemon=True).start()

    def send(message: object) -> None:
        pickle.dump(message, target)
        target.flush()

    return given, send


def _exit_with_daemon() -> None:
    """Wait until the daemon has closed its end of standard input, as the system does when it dies."""
    # Not through sys.stdin, whose lock this thread would still hold when the interpreter ends.
    os.read(0, 1)
    os.kill(os.getpid(), signal.SIGTERM)
