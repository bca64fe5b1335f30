"""Keeps a history in good order: small files become large ones, and what is too old is removed.

A compaction may be interrupted at any instant. First a note says which files the compacted one stands for; the latter,
which appears whole beside it, counts from then on, and the others do not. Removing the others and the note comes last,
and is made up for by the next compaction.
"""

from __future__ import annotations

import json
import os
import socket
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import pyarrow as pa

from flink_autoscaler.pipeline.tables.files import STAGING, Files, HistoryError, creation_ms, new_id
from flink_autoscaler.pipeline.tables.schema import TABLES
from flink_autoscaler.pipeline.tables.store import (
    EVERYTHING,
    LOCK,
    SUFFIX,
    Folder,
    FolderListing,
    HistoryFilter,
    Progress,
    day_of,
    distinct_rows,
    examine,
    ignore_progress,
    list_all_folders,
    manifest_name,
    read_rows,
    require,
    write_rows,
)

STALE_MS: Final = 6 * 3_600_000
"""A lock that old was left behind; no compaction takes so long."""

LARGE_ROWS: Final = 100_000
"""Rows of a compacted file at most. They are in memory at once, about 1 kB each."""
LEFT_BEHIND_MS: Final = 86_400_000
"""Files in the staging folder that are so old belong to a process that has ended."""


class LockedError(HistoryError):
    """Another process is at work."""


@contextmanager
def maintenance_lock(files: Files, now_ms: int) -> Iterator[None]:
    """Keep others from compacting and removing meanwhile.

    Raises:
        LockedError: Another process does so right now.
        HistoryError: The history cannot be written.
    """
    written = json.dumps({"host": socket.gethostname(), "pid": os.getpid(), "at_ms": now_ms}).encode()
    if not files.create(LOCK, written):
        if holder := _holder(files, now_ms):
            raise LockedError(f"{files.root}: {holder}; if it is gone, remove {files.root}/{LOCK}")
        files.remove(LOCK)
        if not files.create(LOCK, written):
            raise LockedError(f"{files.root}: another process has just begun to compact it")
    try:
        yield
    finally:
        files.remove(LOCK)


def _holder(files: Files, now_ms: int) -> str | None:
    """Say who holds the lock; None where it was left behind, cannot be read, or was given back meanwhile."""
    try:
        lock = json.loads(files.read(LOCK))
        host, pid, at_ms = str(lock["host"]), int(lock["pid"]), int(lock["at_ms"])
        since = datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="seconds")
    except (HistoryError, ValueError, TypeError, LookupError, OverflowError, OSError):
        return None
    is_gone = host == socket.gethostname() and not Path(f"/proc/{pid}").exists() and Path("/proc/self").exists()
    if is_gone or now_ms - at_ms > STALE_MS:
        return None
    return f"process {pid} on {host} has been compacting it since {since}"


@dataclass
class MaintenanceResult:
    """Counts of a finished maintenance.

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
class MaintenanceTask:
    """Maintenance to do.

    Attributes:
        now_ms: Days that have not ended by then are not compacted: more is to come.
        keep_seconds: Days that ended longer ago are removed; None removes none.
        selection: What is to be compacted.
        is_dry_run: Whether to only count.
        large_rows: Rows of a compacted file at most.
    """

    now_ms: int
    keep_seconds: float | None = None
    selection: HistoryFilter = EVERYTHING
    is_dry_run: bool = False
    large_rows: int = LARGE_ROWS


def run_maintenance(files: Files, upkeep: MaintenanceTask, progress: Progress = ignore_progress) -> MaintenanceResult:
    """Remove what is too old or was left behind, and compact the rest.

    Raises:
        MissingHistoryError: There is no such history.
        LockedError: Another process does the same right now.
        HistoryError: It cannot be written; what was done until then counts.
    """
    require(files)  # the lock must not make a history of a mistyped path
    with nullcontext() if upkeep.is_dry_run else maintenance_lock(files, upkeep.now_ms):
        work = _Maintenance(files, upkeep)
        work.expire()
        work.sweep()
        found = [each for folders in list_all_folders(files, upkeep.selection).values() for each in folders]
        for number, each in enumerate(found, start=1):
            work.compact_folder(each)
            progress(number, len(found))
    return work.done


class _Maintenance:
    """The steps of it; a dry run only counts."""

    def __init__(self, files: Files, upkeep: MaintenanceTask) -> None:
        self._files = files
        self._upkeep = upkeep
        self.done = MaintenanceResult()

    def expire(self) -> None:
        """Remove whole days: folders go one by one, so that an interruption leaves days that are whole or gone."""
        if self._upkeep.keep_seconds is None:
            return
        first = day_of(max(0, self._upkeep.now_ms - round(self._upkeep.keep_seconds * 1000)))
        folders = (each.folder for listed in list_all_folders(self._files).values() for each in listed)
        days = {replace(folder, cluster=None) for folder in folders if folder.day < first}
        for day in sorted(days):
            self._remove(day.path)
        self.done.expired += len(days)

    def sweep(self) -> None:
        """Remove what interrupted processes left in the staging folder."""
        staged = Counter("/".join(entry.path.split("/")[:2]) for entry in self._files.list(STAGING))
        for path, count in sorted(staged.items()):
            if self._upkeep.now_ms - (creation_ms(path.split("/")[1]) or 0) > LEFT_BEHIND_MS:
                self._remove(path)
                self.done.leftovers += count

    def compact_folder(self, found: FolderListing) -> None:
        """Finish what an interrupted compaction of a folder has begun, and compact it if its day has ended."""
        for entry in (*found.replaced, *found.notes):  # the notes, which say so, come last
            self._remove(entry.path)
            self.done.leftovers += 1
        if found.folder.day >= day_of(self._upkeep.now_ms) or len(found.entries) < 2:  # noqa: PLR2004 - one is enough
            return
        for names in self._bins(found):
            if self._upkeep.is_dry_run:
                self.done.before += len(names)
                self.done.after += 1
            else:
                self._merge(found.folder, names)

    def _bins(self, found: FolderListing) -> Iterator[Sequence[str]]:
        """Yield names of small files that together are a large one."""
        names: list[str] = []
        rows = 0
        for health in examine(self._files, [found]):
            if health.rows is None:
                self.done.damaged.append(health.problem or health.entry.path)
            elif health.rows * 2 <= self._upkeep.large_rows:
                if rows + health.rows > self._upkeep.large_rows:
                    yield from [names] if len(names) > 1 else []
                    names, rows = [], 0
                names.append(health.entry.name)
                rows += health.rows
        yield from [names] if len(names) > 1 else []

    def _merge(self, folder: Folder, names: Sequence[str]) -> None:
        """Replace files by one; those that cannot be read stay."""
        table = TABLES[folder.table]
        pieces: dict[str, pa.Table] = {}
        for name in names:
            try:
                pieces[name] = read_rows(self._files, f"{folder.path}/{name}", table)
            except HistoryError as error:
                self.done.damaged.append(str(error))
        if len(pieces) < 2:  # noqa: PLR2004 - one file alone stays as it is
            return
        rows = distinct_rows(table, pa.concat_tables(pieces.values()))
        compacted = f"{new_id(self._upkeep.now_ms)}-compacted{SUFFIX}"
        note = f"{folder.path}/{manifest_name(compacted)}"
        # The note is there before the file that makes it count, and outlives the files that it hides.
        self._files.create(note, json.dumps(sorted(pieces)).encode())
        write_rows(self._files, f"{folder.path}/{compacted}", rows)
        for name in pieces:
            self._files.remove(f"{folder.path}/{name}")
        self._files.remove(note)
        self.done.duplicates += sum(map(len, pieces.values())) - len(rows)
        self.done.before += len(pieces)
        self.done.after += 1

    def _remove(self, path: str) -> None:
        if not self._upkeep.is_dry_run:
            self._files.remove(path)
