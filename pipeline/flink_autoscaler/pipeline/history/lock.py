"""Lets one process at a time compact a history."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from flink_autoscaler.pipeline.history.files import Files, HistoryError
from flink_autoscaler.pipeline.history.layout import LOCK

STALE_MS: Final = 6 * 3_600_000
"""A lock that old was left behind; no compaction takes so long."""


class LockedError(HistoryError):
    """Another process is at work."""


@contextmanager
def maintenance(files: Files, now_ms: int) -> Iterator[None]:
    """Keep others from compacting and removing meanwhile.

    Raises:
        LockedError: Another process does so right now.
        HistoryError: The history cannot be written.
    """
    content = {"host": socket.gethostname(), "pid": os.getpid(), "at_ms": now_ms}
    written = json.dumps(content).encode()
    if not files.create(LOCK, written):
        holder = _holder(files)
        if holder is not None and not _is_stale(holder, now_ms):
            raise LockedError(_busy(files, holder))
        files.remove(LOCK)
        if not files.create(LOCK, written):
            raise LockedError(f"{files.root}: another process has just begun to compact it")
    try:
        yield
    finally:
        files.remove(LOCK)


def _holder(files: Files) -> dict[str, Any] | None:
    """Return who holds the lock; None where that is not to be read, or it was given back meanwhile."""
    try:
        holder = json.loads(files.read(LOCK))
        return {"host": str(holder["host"]), "pid": int(holder["pid"]), "at_ms": int(holder["at_ms"])}
    except (HistoryError, ValueError, TypeError, LookupError):
        return None


def _is_stale(holder: dict[str, Any], now_ms: int) -> bool:
    is_here = holder["host"] == socket.gethostname()
    is_gone = is_here and not Path(f"/proc/{holder['pid']}").exists() and Path("/proc/self").exists()
    return is_gone or now_ms - holder["at_ms"] > STALE_MS


def _busy(files: Files, holder: dict[str, Any]) -> str:
    since = datetime.fromtimestamp(holder["at_ms"] / 1000, UTC).isoformat(timespec="seconds")
    return (
        f"{files.root}: process {holder['pid']} on {holder['host']} has been compacting it since {since}; "
        f"if it is gone, remove {files.root}/{LOCK}"
    )
