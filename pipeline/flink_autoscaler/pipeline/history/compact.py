"""Keeps a history in good order: small files become large ones, and what is too old is removed.

A compaction may be interrupted at any instant. First a note says which files the compacted one stands for; the latter,
which appears whole beside it, counts from then on, and the others do not. Removing the others and the note comes last,
and is made up for by the next compaction.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from flink_autoscaler.pipeline.history.catalog import (
    FolderListing,
    Progress,
    examine,
    find_all,
    note_of,
    require,
    unheard,
)
from flink_autoscaler.pipeline.history.files import STAGING, Files, HistoryError, made_ms, new_id
from flink_autoscaler.pipeline.history.layout import EVERYTHING, LOCK, SUFFIX, Folder, Selection, day_of
from flink_autoscaler.pipeline.history.schema import TABLES
from flink_autoscaler.pipeline.history.storage import distinct_rows, read_rows, write_rows

STALE_MS: Final = 6 * 3_600_000
"""A lock that old was left behind; no compaction takes so long."""

LARGE_ROWS: Final = 100_000
"""Rows of a compacted file at most. They are in memory at once, about 1 kB each."""
LEFT_BEHIND_MS: Final = 86_400_000
"""Files in the staging folder that are so old belong to a process that has ended."""


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


@dataclass
class Maintained:
    """What was done.

    Attributes:
        before: Small files that were replaced.
        after: Files that replaced them.
        duplicates: Rows that had been written twice.
        expired: Days of a table that were removed.
        leftovers: Files that interrupted processes had left behind.
        damaged: Files that could not be read, and why; they stay as they are.
    """

    before: int = 0
    after: int = 0
    duplicates: int = 0
    expired: int = 0
    leftovers: int = 0
    damaged: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Upkeep:
    """What is to be done.

    Attributes:
        now_ms: Days that have not ended by then are not compacted: more is to come.
        keep_seconds: Days that ended longer ago are removed; None removes none.
        selection: What is to be compacted.
        is_dry_run: Whether to only count.
        large_rows: Rows of a compacted file at most.
    """

    now_ms: int
    keep_seconds: float | None = None
    selection: Selection = EVERYTHING
    is_dry_run: bool = False
    large_rows: int = LARGE_ROWS


def maintain(files: Files, upkeep: Upkeep, progress: Progress = unheard) -> Maintained:
    """Remove what is too old or was left behind, and compact the rest.

    Raises:
        MissingHistoryError: There is no such history.
        LockedError: Another process does the same right now.
        HistoryError: It cannot be written; what was done until then counts.
    """
    done = Maintained()
    if upkeep.is_dry_run:
        _maintain(files, upkeep, done, progress)
        return done
    require(files)  # the lock must not make a history of a mistyped path
    with maintenance(files, upkeep.now_ms):
        _maintain(files, upkeep, done, progress)
    return done


def _maintain(files: Files, upkeep: Upkeep, done: Maintained, progress: Progress) -> None:
    _expire(files, upkeep, done)
    _sweep(files, upkeep, done)
    found = [each for folders in find_all(files, upkeep.selection).values() for each in folders]
    for number, each in enumerate(found, start=1):
        _settle(files, each, upkeep, done)
        if each.folder.day < day_of(upkeep.now_ms) and len(each.entries) > 1:
            _compact(files, each, upkeep, done)
        progress(number, len(found))


def _expire(files: Files, upkeep: Upkeep, done: Maintained) -> None:
    """Remove whole days: their folders go one by one, so that an interruption leaves days that are whole or gone."""
    if upkeep.keep_seconds is None:
        return
    first = day_of(max(0, upkeep.now_ms - round(upkeep.keep_seconds * 1000)))
    for folders in find_all(files).values():
        days = {Folder(f.folder.table, f.folder.day, None, f.folder.version) for f in folders if f.folder.day < first}
        for day in sorted(days):
            if not upkeep.is_dry_run:
                files.remove(day.path)
            done.expired += 1


def _sweep(files: Files, upkeep: Upkeep, done: Maintained) -> None:
    """Remove what interrupted processes left in the staging folder."""
    entries = files.list(STAGING)
    names = {entry.path.split("/")[1] for entry in entries}
    old = {name for name in names if upkeep.now_ms - (made_ms(name) or 0) > LEFT_BEHIND_MS}
    done.leftovers += sum(entry.path.split("/")[1] in old for entry in entries)
    if not upkeep.is_dry_run:
        for name in sorted(old):
            files.remove(f"{STAGING}/{name}")


def _settle(files: Files, found: FolderListing, upkeep: Upkeep, done: Maintained) -> None:
    """Finish what an interrupted compaction has begun: first the files it replaced, then the notes that say so."""
    leftovers = (*found.replaced, *found.notes)
    done.leftovers += len(leftovers)
    if not upkeep.is_dry_run:
        for entry in leftovers:
            files.remove(entry.path)


def _compact(files: Files, found: FolderListing, upkeep: Upkeep, done: Maintained) -> None:
    for names in _bins(files, found, upkeep.large_rows, done):
        if upkeep.is_dry_run:
            done.before, done.after = done.before + len(names), done.after + 1
        else:
            _merge(files, found.folder, names, upkeep, done)


def _bins(files: Files, found: FolderListing, large_rows: int, done: Maintained) -> Iterator[Sequence[str]]:
    """Yield names of small files that together are a large one."""
    names: list[str] = []
    rows = 0
    for health in examine(files, [found]):
        if health.rows is None:
            done.damaged.append(health.problem or health.entry.path)
            continue
        if health.rows * 2 > large_rows:
            continue
        if rows + health.rows > large_rows:
            yield from [names] if len(names) > 1 else []
            names, rows = [], 0
        names.append(health.entry.name)
        rows += health.rows
    yield from [names] if len(names) > 1 else []


def _merge(files: Files, folder: Folder, names: Sequence[str], upkeep: Upkeep, done: Maintained) -> None:
    """Replace files by one; those that cannot be read stay."""
    table = TABLES[folder.table]
    pieces: dict[str, pa.Table] = {}
    for name in names:
        try:
            pieces[name] = read_rows(files, f"{folder.path}/{name}", table)
        except HistoryError as error:
            done.damaged.append(str(error))
    if len(pieces) < 2:  # noqa: PLR2004 - one file alone stays as it is
        return
    rows = distinct_rows(table, pa.concat_tables(pieces.values()))
    done.duplicates += sum(map(len, pieces.values())) - len(rows)
    compacted = f"{new_id(upkeep.now_ms)}-compacted{SUFFIX}"
    note = f"{folder.path}/{note_of(compacted)}"
    files.create(note, json.dumps(sorted(pieces)).encode())
    write_rows(files, f"{folder.path}/{compacted}", rows)
    for name in pieces:
        files.remove(f"{folder.path}/{name}")
    files.remove(note)
    done.before += len(pieces)
    done.after += 1
