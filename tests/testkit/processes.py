"""Processes of this machine, as the kernel tells of them; one that ends meanwhile has no children and no words."""

from __future__ import annotations

import contextlib
from pathlib import Path


def children_of(pid: int) -> list[int]:
    """Return the processes that a process has started and that live, whichever of its threads did."""
    found: list[int] = []
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            with contextlib.suppress(OSError):  # a thread that ended
                found += map(int, (task / "children").read_text().split())
    return found


def descendants_of(pid: int) -> list[int]:
    """Return the processes below a process, each after the one that started it."""
    return [found for child in children_of(pid) for found in (child, *descendants_of(child))]


def command_of(pid: int) -> bytes:
    """Return the words of a process, separated by NUL."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    return b""


def name_of(pid: int) -> str:
    """Return the name of its program, such as ``java``."""
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text().strip()
    return ""
