"""What is in a history: its files, which of them count, which are damaged, and what they hold."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date
from typing import Final, TypeVar

from flink_autoscaler.pipeline.history.files import (
    STAGING,
    FileEntry,
    Files,
    GoneError,
    HistoryError,
    MissingHistoryError,
)
from flink_autoscaler.pipeline.history.layout import EVERYTHING, REPLACES, SUFFIX, Folder, Selection
from flink_autoscaler.pipeline.history.schema import TABLES, HistoryTable
from flink_autoscaler.pipeline.history.storage import footer

_T = TypeVar("_T")
_LOOKS: Final = 5
"""After so many changes while it was looked at, a history is taken as it is."""
Progress = Callable[[int, int], None]
"""Told how many files of how many are done."""


@dataclass(frozen=True, slots=True)
class FolderListing:
    """The files of one folder.

    Attributes:
        entries: Those that count, oldest first.
        replaced: Those that a compacted file stands for, and which are still there.
        notes: The files that say so.
    """

    folder: Folder
    entries: tuple[FileEntry, ...]
    replaced: tuple[FileEntry, ...] = ()
    notes: tuple[FileEntry, ...] = ()


@dataclass(frozen=True, slots=True)
class FileHealth:
    """One file that was looked at.

    Attributes:
        rows: None where it is damaged.
        problem: What is wrong with it; None when nothing is.
        is_gone: Whether it was there when the history was listed, and is not any more.
    """

    folder: Folder
    entry: FileEntry
    rows: int | None
    problem: str | None = None
    is_gone: bool = False


def unheard(_done: int, _of: int) -> None:
    """Take progress that nobody wants to see."""


def require(files: Files) -> None:
    """Make sure that there is a history.

    Raises:
        MissingHistoryError: There is no such folder.
        HistoryError: It cannot be looked at.
    """
    if not files.exists():
        raise MissingHistoryError(f"{files.root}: there is no such folder")


def find(files: Files, table: HistoryTable, selection: Selection = EVERYTHING) -> Sequence[FolderListing]:
    """Return the folders of a table that hold what is selected, by day and cluster; none where nothing was written.

    Raises:
        HistoryError: The history cannot be listed.
    """
    return settled(lambda: _listed(files, table, selection))


def _listed(files: Files, table: HistoryTable, selection: Selection) -> Sequence[FolderListing]:
    by_folder: dict[str, list[FileEntry]] = defaultdict(list)
    for entry in files.list(table.name):
        by_folder[entry.folder].append(entry)
    folders = {path: folder for path in by_folder if (folder := Folder.of(path)) is not None}
    chosen = [path for path, folder in folders.items() if selection.covers(folder)]
    found = [_found(files, folders[path], by_folder[path]) for path in chosen]
    return sorted(found, key=lambda each: (each.folder.day, each.folder.cluster or "", each.folder.version))


def _found(files: Files, folder: Folder, entries: Sequence[FileEntry]) -> FolderListing:
    data = [entry for entry in entries if is_data(entry)]
    notes = tuple(entry for entry in entries if entry.name.startswith(REPLACES))
    names = {entry.name for entry in data}
    hidden = {name for note in notes for name in _replaced_by(files, note, names)}
    return FolderListing(
        folder,
        tuple(sorted((e for e in data if e.name not in hidden), key=lambda entry: entry.name)),
        tuple(entry for entry in data if entry.name in hidden),
        notes,
    )


def is_data(entry: FileEntry) -> bool:
    """Tell whether a file holds rows."""
    return entry.name.endswith(SUFFIX) and not entry.name.startswith(("_", "."))


def note_of(compacted: str) -> str:
    """Return the name of the file that says what a compacted file stands for."""
    return f"{REPLACES}{compacted}.json"


def _replaced_by(files: Files, note: FileEntry, names: set[str]) -> frozenset[str]:
    """Return the files that a compacted file stands for, once that is there."""
    compacted = note.name.removeprefix(REPLACES).removesuffix(".json")
    if compacted not in names:
        return frozenset()
    try:
        listed = json.loads(files.read(note.path))
        return frozenset(str(name) for name in listed) - {compacted}
    except ValueError as error:
        # It is complete before the compacted file appears, so somebody else has damaged it.
        raise HistoryError(f"{files.root}/{note.path}: not a list of files ({error})") from error


def examine(files: Files, found: Sequence[FolderListing], progress: Progress = unheard) -> Iterator[FileHealth]:
    """Look at the end of every file that counts, and yield what it says."""
    total = sum(len(each.entries) for each in found)
    done = 0
    for each in found:
        for entry in each.entries:
            yield _health(files, each.folder, entry)
            done += 1
            progress(done, total)


def _health(files: Files, folder: Folder, entry: FileEntry) -> FileHealth:
    try:
        return FileHealth(folder, entry, footer(files, entry.path).num_rows)
    except HistoryError as error:
        return FileHealth(folder, entry, None, str(error), isinstance(error, GoneError))


def settled(look: Callable[[], _T], is_torn: Callable[[_T], bool] = lambda _: False) -> _T:
    """Look at a history until nothing that was listed went away meanwhile: a compaction may be under way.

    Args:
        look: Lists files and looks at them; asked again where it says so.
        is_torn: Tells whether files had gone when they were looked at.

    Raises:
        HistoryError: What ``look`` raises; files that went away are one when they do so again and again.
    """
    for _ in range(_LOOKS - 1):
        with suppress(GoneError):
            found = look()
            if not is_torn(found):
                return found
    return look()


def find_all(files: Files, selection: Selection = EVERYTHING) -> Mapping[str, Sequence[FolderListing]]:
    """Return the folders of every table, by its name.

    Raises:
        MissingHistoryError: There is no such history.
        HistoryError: It cannot be listed.
    """
    require(files)
    return {name: find(files, table, selection) for name, table in TABLES.items()}


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
