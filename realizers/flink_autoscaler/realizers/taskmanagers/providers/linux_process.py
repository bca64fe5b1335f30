"""Processes of this machine as Linux shows them: whether one still is the one that was started."""

from __future__ import annotations

import os
import signal
from functools import cache
from pathlib import Path
from typing import Final

ID_VARIABLE: Final = "FLINK_AUTOSCALER_TASKMANAGER_ID"
"""Environment variable by which a started process is found whose pid could not be written down any more."""

_PROC: Final = Path("/proc")
_STATE, _START_TICKS = 0, 19
"""Fields of ``/proc/<pid>/stat`` behind the name of the program."""


@cache
def boot_id() -> str:
    """Return the id of this boot: pids and start times begin anew with the next."""
    return (_PROC / "sys/kernel/random/boot_id").read_text().strip()


def start_ticks(pid: int) -> int | None:
    """Return when a process began, in ticks since the boot; None when there is none, or it waits to be reaped."""
    try:
        stat = (_PROC / str(pid) / "stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The name of the program stands in parentheses and may hold any characters.
    fields = stat.rpartition(")")[2].split()
    return None if fields[_STATE] in ("Z", "X") else int(fields[_START_TICKS])


def is_same(pid: int, ticks: int, boot: str) -> bool:
    """Tell whether a process is alive and the very one that began then, not a later one with its pid."""
    return boot == boot_id() and start_ticks(pid) == ticks


def find_by_id(taskmanager_id: str) -> int | None:
    """Return the pid of the first process that was started with an id in its environment; None without any."""
    needle = f"{ID_VARIABLE}={taskmanager_id}".encode()
    found = [pid for pid in _pids() if needle in _environment(pid)]
    alive = [(ticks, pid) for pid in found if (ticks := start_ticks(pid)) is not None]
    return min(alive)[1] if alive else None


def send_to_group(pid: int, number: signal.Signals) -> None:
    """Send a signal to a process that leads a group, and to what it has started; nothing when it is gone."""
    try:
        if os.getpgid(pid) == pid:
            os.killpg(pid, number)
        else:
            os.kill(pid, number)
    except ProcessLookupError:
        return


def _pids() -> list[int]:
    return [int(entry.name) for entry in _PROC.iterdir() if entry.name.isdecimal()]


def _environment(pid: int) -> list[bytes]:
    try:
        return (_PROC / str(pid) / "environ").read_bytes().split(b"\0")
    except OSError:  # it has ended, or belongs to somebody else
        return []
