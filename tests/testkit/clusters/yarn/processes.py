"""The processes of a YARN cluster, found by what only they have: its folder in their command line.

The NodeManager starts containers in sessions of their own, which outlive it. Each of
them, and the shells around it, names the cluster's folder on its command line (log
file, launch script), and the folder's name is unique.

Run as a program, this is the guard: it waits until the process that holds the other
end of its standard input is gone, then ends the cluster's processes and removes the folder.
"""

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

_PROGRAMS = {"java", "bash"}
_DEADLINE = 20.0
_PAUSE = 0.05


def processes_of(directory: Path) -> dict[int, list[str]]:
    """Return the command lines of the JVMs and shells that name a folder, by process id."""
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            command = _command(entry)
            if command and Path(command[0]).name in _PROGRAMS and any(str(directory) in word for word in command):
                found[int(entry.name)] = command
    return found


def end_processes_of(directory: Path) -> None:
    """End every process of a cluster, also those that start meanwhile; return when none is left."""
    deadline = time.monotonic() + _DEADLINE
    while left := processes_of(directory):
        if time.monotonic() > deadline:
            raise RuntimeError(f"processes of {directory} do not end: {sorted(left)}")
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(_PAUSE)


class ContainerGuard:
    """Ends a cluster's processes when the current process is gone."""

    def __init__(self, directory: Path) -> None:
        """Start the guard of the cluster in a folder, which it deletes too."""
        command = [sys.executable, "-I", __file__, str(directory)]
        self._guard = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)

    def close(self) -> None:
        """Let the guard do its work now; return when it has."""
        if self._guard.stdin:
            self._guard.stdin.close()
        self._guard.wait(timeout=2 * _DEADLINE)


def _command(process: Path) -> list[str]:
    try:
        return (process / "cmdline").read_bytes().decode(errors="replace").rstrip("\0").split("\0")
    except OSError:  # it has ended, or is another user's
        return []


def main(directory: Path) -> None:
    """Wait for the end of the parent, then clean up after it."""
    sys.stdin.read()
    end_processes_of(directory)
    shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
