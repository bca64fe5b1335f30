"""How much memory this process may take, and whether a driver fits into that."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from flink_autoscaler.core.errors import ConfigError

BESIDE_THE_HEAP: Final = 128 << 20
"""Least that this process and a Python worker take where the heap is not full."""

_GROUPS: Final = Path("/proc/self/cgroup")
_ROOT: Final = Path("/sys/fs/cgroup")
_SIZE: Final = re.compile(r"(\d+)([kmgt]?)b?", re.IGNORECASE)
_SHIFTS: Final = {"": 0, "k": 10, "m": 20, "g": 30, "t": 40}


def require_memory(heap: str, *, groups: Path = _GROUPS, root: Path = _ROOT) -> None:
    """Check that a driver fits into what the container or unit of this process may take.

    Without the check the system would end the JVM, or this process, in the middle of a pass, again and again.

    Args:
        heap: Of the driver, as Spark writes sizes: ``480m``.
        groups: Control groups of this process, as in ``/proc``.
        root: Where the control groups are mounted.

    Raises:
        ConfigError: It does not fit; the message says what to do.
    """
    size, limit = _bytes(heap), memory_limit(groups=groups, root=root)
    if size is None or limit is None or limit >= size + BESIDE_THE_HEAP:
        return
    raise ConfigError(
        f"this process may take {limit >> 20} MB of memory, as its container or unit says, and Spark with a heap of "
        f"{size >> 20} MB needs {(size + BESIDE_THE_HEAP) >> 20} MB at least, better 1500: give it more, or set "
        "autoscaler.engine.kind: inline, which needs 256"
    )


def memory_limit(*, groups: Path = _GROUPS, root: Path = _ROOT) -> int | None:
    """Return the bytes that this process and its children may take; None where nothing limits them."""
    found = []
    for file in _files(groups, root):
        with contextlib.suppress(OSError, ValueError):  # not there, or "max"
            found.append(int(file.read_text()))
    return min(found, default=None)


def _files(groups: Path, root: Path) -> Iterator[Path]:
    """Yield where limits may stand; a container sees its own group as the root."""
    yield root / "memory.max"
    yield root / "memory" / "memory.limit_in_bytes"
    with contextlib.suppress(OSError):
        for line in groups.read_text().splitlines():
            _, _, rest = line.partition(":")
            controllers, _, path = rest.partition(":")
            own = path.lstrip("/")
            if not controllers:
                yield root / own / "memory.max"
            elif "memory" in controllers.split(","):
                yield root / "memory" / own / "memory.limit_in_bytes"


def _bytes(text: str) -> int | None:
    found = _SIZE.fullmatch(text.strip())
    return None if found is None else int(found[1]) << _SHIFTS[found[2].lower()]
