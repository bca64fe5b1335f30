"""The processes that were started: a file by which the next daemon finds them, and what Linux says about them."""

from __future__ import annotations

import fcntl
import json
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Final

from flink_autoscaler.core.errors import RealizeError

ID_VARIABLE: Final = "FLINK_AUTOSCALER_TASKMANAGER_ID"
"""Environment variable by which a started process is found whose pid could not be written down any more."""

_VERSION: Final = 1
_MODE: Final = 0o700

_PROC: Final = Path("/proc")
_STATE, _START_TICKS = 0, 19
"""Fields of ``/proc/<pid>/stat`` behind the name of the program."""


@dataclass(frozen=True, slots=True)
class Started:
    """One process.

    Attributes:
        taskmanager_id: Of the TaskManager; also in the environment of the process.
        pid: None between the intention and the start.
        start_ticks: When it began, by the clock of the kernel; with the boot it tells it from a later one of this pid.
        boot: Id of the boot of this machine.
        began: When it was to be started, UTC epoch seconds.
        stopping: Since when it is being stopped; None while it is to stay.
    """

    taskmanager_id: str
    pid: int | None = None
    start_ticks: int = 0
    boot: str = ""
    began: float = 0.0
    stopping: float | None = None

    @property
    def is_alive(self) -> bool:
        """Whether the process is alive and the very one that began then, not a later one with its pid."""
        return self.pid is not None and self.boot == boot_id() and start_ticks(self.pid) == self.start_ticks

    def running_as(self, pid: int) -> Started:
        """Return the entry with its process; one that has ended already counts as begun at 0."""
        return replace(self, pid=pid, start_ticks=start_ticks(pid) or 0, boot=boot_id())


@dataclass(frozen=True, slots=True)
class Ended:
    """A process that is gone: Flink may list its TaskManager for a while.

    Attributes:
        at: When that was noticed, UTC epoch seconds.
    """

    taskmanager_id: str
    at: float


@dataclass(frozen=True)
class ProcessTable:
    """All processes of a provider.

    Attributes:
        desired: How many there are to be; None before the first request.
        started: In the order of their start.
        ended: Lately, oldest first.
    """

    desired: int | None = None
    started: tuple[Started, ...] = ()
    ended: tuple[Ended, ...] = ()

    @property
    def staying(self) -> tuple[Started, ...]:
        """Those that are to stay."""
        return tuple(each for each in self.started if each.stopping is None)

    @property
    def leaving(self) -> tuple[Started, ...]:
        """Those that are being stopped."""
        return tuple(each for each in self.started if each.stopping is not None)

    def with_changed(self, changed: Started) -> ProcessTable:
        """Return the table with another entry for one TaskManager."""
        same = changed.taskmanager_id
        return replace(self, started=tuple(changed if e.taskmanager_id == same else e for e in self.started))


class TableFile:
    """The table on disk; a lock lets one process at a time change it.

    Args:
        directory: For the table and its lock; made when missing, for this user only.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._file = directory / "taskmanagers.json"

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep others out.

        Raises:
            RealizeError: The directory cannot be used.
        """
        try:
            self._directory.mkdir(mode=_MODE, parents=True, exist_ok=True)
            lock = os.open(self._directory / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise RealizeError(f"{self._directory}: {error.strerror or error}") from error
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)

    def read(self) -> ProcessTable:
        """Return what was written last, an empty table before.

        Raises:
            RealizeError: It cannot be read. It is never taken for empty: processes would be forgotten.
        """
        try:
            value = json.loads(self._file.read_text())
        except FileNotFoundError:
            return ProcessTable()
        except (OSError, ValueError) as error:
            raise RealizeError(f"{self._file}: {error}; it tells which processes were started") from error
        try:
            return _table(value)
        except (TypeError, KeyError, ValueError) as error:
            raise RealizeError(f"{self._file} is not a list of started processes: {error!r}") from error

    def write(self, table: ProcessTable) -> None:
        """Replace the table, all of it or nothing, also when the machine stops.

        Raises:
            RealizeError: It could not be written.
        """
        text = json.dumps({"version": _VERSION, **asdict(table)}, indent=1)
        beside = self._file.with_suffix(".new")
        try:
            with beside.open("w") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            beside.replace(self._file)
            _sync_directory(self._directory)
        except OSError as error:
            raise RealizeError(f"{self._file}: {error.strerror or error}") from error


def _table(value: dict[str, object]) -> ProcessTable:
    if value["version"] != _VERSION:
        raise ValueError(f"version {value['version']!r}")
    desired, started, ended = value["desired"], value["started"], value["ended"]
    if (
        not (desired is None or isinstance(desired, int))
        or not isinstance(started, list)
        or not isinstance(ended, list)
    ):
        raise TypeError("unexpected types")
    return ProcessTable(desired, tuple(Started(**entry) for entry in started), tuple(Ended(**entry) for entry in ended))


def _sync_directory(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


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


def find_by_id(taskmanager_id: str) -> int | None:
    """Return the pid of the first process that was started with an id in its environment; None without any."""
    needle = f"{ID_VARIABLE}={taskmanager_id}".encode()
    pids = [int(entry.name) for entry in _PROC.iterdir() if entry.name.isdecimal()]
    found = [pid for pid in pids if needle in _environment(pid)]
    alive = [(ticks, pid) for pid in found if (ticks := start_ticks(pid)) is not None]
    return min(alive)[1] if alive else None


def send_to_group(pid: int, number: signal.Signals) -> None:
    """Send a signal to a process that leads a group, and to what it has started; nothing when it is gone."""
    with suppress(ProcessLookupError):
        if os.getpgid(pid) == pid:
            os.killpg(pid, number)
        else:
            os.kill(pid, number)


def _environment(pid: int) -> list[bytes]:
    try:
        return (_PROC / str(pid) / "environ").read_bytes().split(b"\0")
    except OSError:  # it has ended, or belongs to somebody else
        return []
