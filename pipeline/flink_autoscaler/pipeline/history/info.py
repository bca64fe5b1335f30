"""Tells what is in a history."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date

from flink_autoscaler.pipeline.history.catalog import (
    FileHealth,
    FolderListing,
    Progress,
    examine,
    find_all,
    settled,
    unheard,
)
from flink_autoscaler.pipeline.history.files import Files
from flink_autoscaler.pipeline.history.layout import EVERYTHING, STAGING, Selection


@dataclass(frozen=True, slots=True)
class TableInfo:
    """One table.

    Attributes:
        rows: In files that are not damaged; rows that were written twice count twice until they are compacted.
        bytes: Of all files that count.
        first: Oldest day; None without files.
        last: Newest day.
        clusters: Names in the folders.
        versions: Files by the version that wrote them.
        replaced: Files that a compaction has replaced and not removed yet.
        damaged: What is wrong with files that cannot be read.
    """

    name: str
    files: int
    rows: int
    bytes: int
    first: date | None
    last: date | None
    clusters: tuple[str, ...]
    versions: dict[int, int]
    replaced: int
    damaged: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class HistoryInfo:
    """A whole history.

    Attributes:
        staged: Files that are being written, or were when a process ended.
    """

    root: str
    tables: tuple[TableInfo, ...]
    staged: int

    @property
    def is_empty(self) -> bool:
        """Whether nothing was written yet."""
        return all(table.files == 0 for table in self.tables)

    @property
    def damaged(self) -> tuple[str, ...]:
        """What is wrong with files of any table."""
        return tuple(problem for table in self.tables for problem in table.damaged)


def describe(files: Files, selection: Selection = EVERYTHING, progress: Progress = unheard) -> HistoryInfo:
    """Look at every file of a selection.

    Raises:
        MissingHistoryError: There is no such history.
        HistoryError: It cannot be listed.
    """
    tables, health = settled(
        lambda: _looked_at(files, selection, progress), lambda found: any(each.is_gone for each in found[1])
    )
    return HistoryInfo(
        files.root,
        tuple(
            _table(name, folders, [each for each in health if each.folder.table == name])
            for name, folders in tables.items()
        ),
        len(files.list(STAGING)),
    )


def _looked_at(
    files: Files, selection: Selection, progress: Progress
) -> tuple[Mapping[str, Sequence[FolderListing]], Sequence[FileHealth]]:
    tables = find_all(files, selection)
    return tables, list(examine(files, [each for folders in tables.values() for each in folders], progress))


def _table(name: str, found: Sequence[FolderListing], health: Sequence[FileHealth]) -> TableInfo:
    days = [each.folder.day for each in health]
    clusters = {each.folder.cluster for each in health}
    return TableInfo(
        name=name,
        files=len(health),
        rows=sum(each.rows or 0 for each in health),
        bytes=sum(each.entry.size for each in health),
        first=min(days, default=None),
        last=max(days, default=None),
        clusters=tuple(sorted(cluster for cluster in clusters if cluster is not None)),
        versions=dict(sorted(Counter(each.folder.version for each in health).items())),
        replaced=sum(len(each.replaced) for each in found),
        damaged=tuple(each.problem for each in health if each.problem is not None),
    )
