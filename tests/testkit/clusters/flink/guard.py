"""Stops the JVMs of a process that died without stopping them.

The guard is a process of its own that holds the reading end of a pipe. When the
starting process ends, in whatever way, the pipe closes and the guard kills what is
still registered. ``PR_SET_PDEATHSIG`` would be shorter, but is Linux only and fires
when the starting *thread* ends.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

_END_TIMEOUT = 300.0
"""It ends as soon as it is scheduled and has deleted the directory: long only on a machine with far more to do."""


class Guard:
    """Kills the registered processes when the current process is gone."""

    def __init__(self, remove: Path | None = None) -> None:
        """Start the guard.

        Args:
            remove: Directory that the guard deletes too, after the processes.
        """
        command = [sys.executable, "-I", __file__, *([str(remove)] if remove else [])]
        # A session of its own: Ctrl-C is for the parent, which stops in order.
        self._guard = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)

    def add(self, pid: int) -> None:
        """Register a process that the current process has started."""
        self._tell("add", pid)

    def forget(self, pid: int) -> None:
        """Drop a process that has ended, since its id may be used again."""
        with contextlib.suppress(BrokenPipeError):  # no guard, nothing to forget
            self._tell("forget", pid)

    def close(self) -> None:
        """End the guard, after everything registered has been stopped."""
        if self._guard.stdin:
            self._guard.stdin.close()
        self._guard.wait(timeout=_END_TIMEOUT)

    def _tell(self, verb: str, pid: int) -> None:
        if self._guard.stdin:
            self._guard.stdin.write(f"{verb} {pid}\n".encode())
            self._guard.stdin.flush()


def watch(lines: Iterable[str]) -> set[int]:
    """Follow registrations until the pipe closes; return the processes left over."""
    registered: set[int] = set()
    for line in lines:
        verb, pid = line.split()
        if verb == "add":
            registered.add(int(pid))
        else:
            registered.discard(int(pid))
    return registered


def main(arguments: list[str]) -> None:
    """Wait for the end of the parent, then clean up after it."""
    for pid in watch(sys.stdin):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    for directory in arguments:
        shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    main(sys.argv[1:])
