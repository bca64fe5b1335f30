"""What benchmarks measure of processes: processor time and memory of this one and all that it started."""

from __future__ import annotations

import logging
import os
import threading
from dataclasses import dataclass
from pathlib import Path

import structlog

TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True)
class Usage:
    """Of one process: processor time so far, seconds; resident memory, MB; command line."""

    cpu: float
    resident: float
    command: str


def processes() -> dict[int, Usage]:
    """Return this process and its descendants, without nginx."""
    family: dict[int, Usage] = {}
    parents = {os.getpid()}
    found = sorted(int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit())
    for pid in found:
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            command = Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")
        except OSError:
            continue
        if (pid in parents or int(fields[1]) in parents) and not command.startswith("nginx"):
            parents.add(pid)
            pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
            cpu = (int(fields[11]) + int(fields[12])) / TICKS
            family[pid] = Usage(cpu, pages * os.sysconf("SC_PAGE_SIZE") / 2**20, command)
    return family


def cpu() -> float:
    """Return the processor time of all of them so far, seconds."""
    return sum(usage.cpu for usage in processes().values())


class Peak:
    """The most memory that this process and its children had, MB; looked at every half second until the block ends."""

    def __init__(self) -> None:
        self.resident = 0.0
        self.cpu = 0.0
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Peak:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._done.wait(0.5):
            usages = processes().values()
            self.resident = max(self.resident, sum(usage.resident for usage in usages))
            self.cpu = max(self.cpu, sum(usage.cpu for usage in usages))


def quiet_logs() -> None:
    """Write warnings and errors alone."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.WARNING))
