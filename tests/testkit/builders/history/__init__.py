"""Histories for tests: rows of a made-up fleet, and folders that hold them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa

from flink_autoscaler.pipeline.tables.files import FileEntry, Files, HistoryError, LocalFiles, new_id
from flink_autoscaler.pipeline.tables.rows import NamedRow
from flink_autoscaler.pipeline.tables.schema import SAMPLES, TABLES, HistoryTable
from flink_autoscaler.pipeline.tables.store import WriteBatch, append, list_folders, read_rows

DAY_MS = 86_400_000
NOON_MS = 1_769_860_800_000
"""2026-01-31 12:00 UTC."""


def a_storage(root: Path | str) -> Files:
    """Make a history on this machine."""
    return LocalFiles(str(root))


def sample_rows(count: int, *, at_ms: int = NOON_MS, cluster: str = "main", source: str = "s1") -> list[NamedRow]:
    """Make rows of one source, a minute apart; the rate of row ``n`` is ``n``."""
    return [
        (
            SAMPLES.name,
            {
                "cluster": cluster,
                "job_key": f"{cluster}/orders",
                "job_id": "a" * 32,
                "ts": (at_ms + minute * 60_000) * 1000,
                "source_id": source,
                "arrival_rate": float(minute),
            },
        )
        for minute in range(count)
    ]


def a_batch(rows: list[NamedRow], identity: str | None = None) -> WriteBatch:
    """Make a batch."""
    names = dict.fromkeys(name for name, _ in rows)
    tables = {
        name: pa.Table.from_pylist([row for table, row in rows if table == name], schema=TABLES[name].schema)
        for name in names
    }
    return WriteBatch(identity or new_id(NOON_MS), tables)


def conformed(table: HistoryTable, rows: pa.Table) -> pa.Table:
    """Give rows the columns of a table."""
    return pa.Table.from_pylist(rows.to_pylist(), schema=table.schema)


def write(storage: Files, *batches: list[NamedRow]) -> None:
    """Append some batches, made a millisecond apart: their files sort in this order."""
    for number, rows in enumerate(batches):
        append(storage, a_batch(rows, new_id(NOON_MS + number)))


def rates(storage: Files, table: HistoryTable = SAMPLES) -> list[float]:
    """Return the arrival rates of all files that count, sorted."""
    paths = [entry.path for each in list_folders(storage, table) for entry in each.entries]
    return sorted(rate for path in paths for rate in read_rows(storage, path, table).column("arrival_rate").to_pylist())


def files_of(root: Path) -> Mapping[str, int]:
    """Return the number of files by folder, relative to the history; check sums that Hadoop leaves do not count."""
    counts: dict[str, int] = {}
    for parent, _, names in sorted(os.walk(root)):  # folders may go away meanwhile
        if found := sum(not name.startswith(".") for name in names):
            counts[Path(parent).relative_to(root).as_posix()] = found
    return counts


def part_files(root: Path) -> list[Path]:
    """Return the files with rows, oldest first."""
    found = (Path(parent, name) for parent, _, names in os.walk(root) for name in names if name.endswith(".parquet"))
    return sorted(path for path in found if "_staging" not in path.parts)


class CrashError(HistoryError):
    """The process ended here."""


class CrashingFiles:
    """Files of a process that ends before one of its changes (``Files``).

    Args:
        files: What is really there.
        changes: Changes that are still made.
    """

    def __init__(self, files: Files, changes: int) -> None:
        self._files = files
        self._left = changes
        self.root = files.root

    def _change(self) -> None:
        if self._left == 0:
            raise CrashError("killed")
        self._left -= 1

    def exists(self) -> bool:
        return self._files.exists()

    def list(self, folder: str = "") -> Sequence[FileEntry]:
        return self._files.list(folder)

    def remove(self, path: str) -> None:
        self._change()
        self._files.remove(path)

    def read(self, path: str, last: int | None = None) -> bytes:
        return self._files.read(path, last)

    def create(self, path: str, content: bytes) -> bool:
        self._change()
        return self._files.create(path, content)


def crashing(root: Path, changes: int) -> Files:
    """Make a history whose process ends after so many changes of files."""
    return CrashingFiles(LocalFiles(str(root)), changes)
