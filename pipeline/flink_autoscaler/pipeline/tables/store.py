"""A history as Parquet files: where they are, which of them count, and how rows are added and read.

``<root>/<table>/version=<n>/date=<UTC day>/cluster=<name>/<batch>.parquet``; without the last folder where days are not
divided. What begins with an underscore is not data: ``_staging`` holds files that are being written, ``_pending`` rows
that wait for it, ``_replaces-*.json`` beside a compacted file names the files it stands for.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import reduce
from operator import and_
from typing import Final, TypeVar
from urllib.parse import quote, unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from flink_autoscaler.pipeline.tables import Partition
from flink_autoscaler.pipeline.tables.files import (
    FileEntry,
    Files,
    FileVanishedError,
    HistoryError,
    MissingHistoryError,
)
from flink_autoscaler.pipeline.tables.schema import TABLES, VERSION, HistoryTable, timestamp_scalar

COMPRESSION: Final = "zstd"
LOCK: Final = "_maintenance.json"
PENDING: Final = "_pending"
SUFFIX: Final = ".parquet"
_REPLACES: Final = "_replaces-"

_FOLDER: Final = re.compile(
    r"(?P<table>[a-z]+)/version=(?P<version>\d+)/date=(?P<date>\d{4}-\d\d-\d\d)(/cluster=(?P<cluster>[^/]+))?"
)
_NO_CLUSTER: Final = "__HIVE_DEFAULT_PARTITION__"
"""What Spark and Hive call the folder of rows without a value."""

_MAGIC: Final = b"PAR1"
_FOOTER_GUESS: Final = 1 << 16
_MAX_FOOTER_BYTES: Final = 1 << 26
_MAX_ATTEMPTS: Final = 5
"""Times that a history is looked at which is compacted each time; then that is an error."""

_T = TypeVar("_T")

Progress = Callable[[int, int], None]
"""Told how many files of how many are done."""


def ignore_progress(_done: int, _of: int) -> None:
    """Take progress that nobody wants to see."""


@dataclass(frozen=True, slots=True, order=True)
class Folder:
    """One folder of files.

    Attributes:
        day: UTC.
        cluster: None where it holds all clusters.
    """

    table: str
    day: date
    cluster: str | None = None
    version: int = VERSION

    @property
    def path(self) -> str:
        """Relative to the history."""
        cluster = "" if self.cluster is None else f"/cluster={quote(self.cluster, safe='')}"
        return f"{self.table}/version={self.version}/date={self.day.isoformat()}{cluster}"

    @classmethod
    def of(cls, path: str) -> Folder | None:
        """Read a path relative to the history; None for one that is not a folder of files."""
        match = _FOLDER.fullmatch(path)
        if match is None or match["table"] not in TABLES:
            return None
        try:
            day = date.fromisoformat(match["date"])
        except ValueError:
            return None
        cluster = match["cluster"]
        return cls(match["table"], day, None if cluster is None else unquote(cluster), int(match["version"]))


@dataclass(frozen=True, slots=True)
class HistoryFilter:
    """Selection of a part of the history. Instants are epoch milliseconds; None is without a limit.

    Attributes:
        since_ms: First instant.
        until_ms: The instant after the last.
        clusters: Names; None takes all.
        jobs: Regular expression for their keys, for Arrow and for Spark; None takes all.
    """

    since_ms: int | None = None
    until_ms: int | None = None
    clusters: frozenset[str] | None = None
    jobs: str | None = None

    def covers(self, folder: Folder) -> bool:
        """Tell whether a folder may hold rows that are meant."""
        if self.since_ms is not None and folder.day < day_of(self.since_ms):
            return False
        if self.until_ms is not None and folder.day > day_of(self.until_ms - 1):
            return False
        return self.clusters is None or folder.cluster is None or folder.cluster in self.clusters

    @property
    def rows(self) -> pc.Expression | None:
        """Condition on the selected rows; None selects all."""
        terms = []
        if self.since_ms is not None:
            terms.append(pc.field("ts") >= timestamp_scalar(self.since_ms))
        if self.until_ms is not None:
            terms.append(pc.field("ts") < timestamp_scalar(self.until_ms))
        if self.clusters is not None:
            terms.append(pc.field("cluster").isin(pa.array(sorted(self.clusters), pa.string())))
        if self.jobs is not None:
            terms.append(pc.match_substring_regex(pc.field("job_key"), self.jobs))
        return reduce(and_, terms) if terms else None


EVERYTHING: Final = HistoryFilter()


def jobs_like(pattern: str) -> str:
    """Return the regular expression for keys of jobs, or for what follows their cluster, of a pattern with * and ?."""
    parts = {"*": ".*", "?": "."}
    return "^([^/]*/)?" + "".join(parts.get(c) or re.escape(c) for c in pattern) + "$"


def day_of(at_ms: int) -> date:
    """Return the UTC day of an instant."""
    return datetime.fromtimestamp(at_ms / 1000, UTC).date()


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
    """

    folder: Folder
    entry: FileEntry
    rows: int | None
    problem: str | None = None


def require(files: Files) -> None:
    """Make sure that there is a history.

    Raises:
        MissingHistoryError: There is no such folder.
        HistoryError: It cannot be looked at.
    """
    if not files.exists():
        raise MissingHistoryError(f"{files.root}: there is no such folder")


def retry_until_consistent(look: Callable[[], _T]) -> _T:
    """Look at a history until nothing that was listed went away meanwhile: a compaction may be under way.

    Args:
        look: Lists files and looks at them.

    Raises:
        HistoryError: What ``look`` raises; that files went away is one when they do so again and again.
    """
    for _ in range(_MAX_ATTEMPTS - 1):
        with suppress(FileVanishedError):
            return look()
    return look()


def list_folders(files: Files, table: HistoryTable, selection: HistoryFilter = EVERYTHING) -> Sequence[FolderListing]:
    """Return the folders of a table that hold what is selected, by day and cluster; none where nothing was written.

    Raises:
        HistoryError: The history cannot be listed.
    """
    return retry_until_consistent(lambda: _list_folders(files, table, selection))


def list_all_folders(files: Files, selection: HistoryFilter = EVERYTHING) -> Mapping[str, Sequence[FolderListing]]:
    """Return the folders of every table, by its name.

    Raises:
        MissingHistoryError: There is no such history.
        HistoryError: It cannot be listed.
    """
    require(files)
    return {name: list_folders(files, table, selection) for name, table in TABLES.items()}


def _list_folders(files: Files, table: HistoryTable, selection: HistoryFilter) -> Sequence[FolderListing]:
    by_folder: dict[Folder, list[FileEntry]] = defaultdict(list)
    for entry in files.list(table.name):
        folder = Folder.of(entry.folder)
        if folder is not None and selection.covers(folder):
            by_folder[folder].append(entry)
    found = [_without_superseded(files, folder, entries) for folder, entries in by_folder.items()]
    return sorted(found, key=lambda each: (each.folder.day, each.folder.cluster or "", each.folder.version))


def _without_superseded(files: Files, folder: Folder, entries: Sequence[FileEntry]) -> FolderListing:
    """Tell the files that count from those that a compacted one stands for."""
    ordered = sorted(entries, key=lambda entry: entry.name)
    data = [e for e in ordered if e.name.endswith(SUFFIX) and not e.name.startswith(("_", "."))]
    notes = tuple(entry for entry in ordered if entry.name.startswith(_REPLACES))
    names = {entry.name for entry in data}
    hidden: set[str] = set()
    for note in notes:
        compacted = note.name.removeprefix(_REPLACES).removesuffix(".json")
        if compacted in names:  # before it appears whole, what it stands for counts
            hidden |= _read_manifest(files, note) - {compacted}
    return FolderListing(
        folder,
        tuple(entry for entry in data if entry.name not in hidden),
        tuple(entry for entry in data if entry.name in hidden),
        notes,
    )


def manifest_name(compacted: str) -> str:
    """Return the name of the file that says what a compacted file stands for: a JSON list of names."""
    return f"{_REPLACES}{compacted}.json"


def _read_manifest(files: Files, note: FileEntry) -> set[str]:
    try:
        return set(map(str, json.loads(files.read(note.path))))
    except ValueError as error:
        # It is complete before the compacted file appears, so somebody else has damaged it.
        raise HistoryError(f"{files.root}/{note.path}: not a list of files ({error})") from error


def examine(files: Files, found: Sequence[FolderListing], progress: Progress = ignore_progress) -> Iterator[FileHealth]:
    """Look at the end of every file that counts, and yield what it says.

    Raises:
        FileVanishedError: A file is not there any more.
    """
    entries = [(each.folder, entry) for each in found for entry in each.entries]
    for number, (folder, entry) in enumerate(entries, start=1):
        try:
            yield FileHealth(folder, entry, _row_count(files, entry.path))
        except FileVanishedError:
            raise
        except HistoryError as error:
            yield FileHealth(folder, entry, None, str(error))
        progress(number, len(entries))


def _row_count(files: Files, path: str) -> int:
    """Read the end of a Parquet file; raises HistoryError where it is not to be read, or not that of a whole one."""
    end = files.read(path, _FOOTER_GUESS)
    needed = int.from_bytes(end[-8:-4], "little") + 8
    if end[-4:] == _MAGIC and len(end) < needed <= _MAX_FOOTER_BYTES:
        end = files.read(path, needed)
    try:
        return int(pq.read_metadata(pa.BufferReader(end)).num_rows)
    except (OSError, pa.ArrowException) as error:
        raise HistoryError(f"{files.root}/{path}: not a whole Parquet file") from error


def read_rows(
    files: Files,
    path: str,
    table: HistoryTable,
    selection: HistoryFilter = EVERYTHING,
    columns: Sequence[str] | None = None,
) -> pa.Table:
    """Return the selected rows of one file of any version, with the columns of this one: missing ones are null.

    Args:
        files: The history.
        path: Of the file.
        table: What it holds.
        selection: Which rows.
        columns: Which columns, in this order; None takes all.

    Raises:
        HistoryError: It cannot be read, or is no whole Parquet file of that table.
    """
    content = pa.BufferReader(files.read(path))
    try:
        return pq.read_table(
            content, schema=table.schema, columns=list(columns or table.schema.names), filters=selection.rows
        )
    except (OSError, pa.ArrowException) as error:
        raise HistoryError(f"{files.root}/{path}: {' '.join(str(error).split())}") from error


def scan(
    files: Files,
    table: HistoryTable,
    selection: HistoryFilter,
    damaged: list[str],
    columns: Sequence[str] | None = None,
    progress: Progress = ignore_progress,
) -> Iterator[pa.Table]:
    """Yield the selected rows of a table file by file, by day and cluster.

    Args:
        files: The history.
        table: Which table.
        selection: Which part of it.
        damaged: Takes what is wrong with files that are left out.
        columns: Which columns; None takes all.
        progress: Told about files.

    Raises:
        MissingHistoryError: There is no such history.
        FileVanishedError: It was compacted meanwhile: the rows of a file are in another one now, some of which were
            read.
        HistoryError: It cannot be listed.
    """
    require(files)
    paths = [entry.path for each in list_folders(files, table, selection) for entry in each.entries]
    for number, path in enumerate(paths, start=1):
        try:
            yield read_rows(files, path, table, selection, columns)
        except FileVanishedError as error:
            raise FileVanishedError(f"{error}: try again") from error
        except HistoryError as error:
            damaged.append(str(error))
        progress(number, len(paths))


def write_rows(files: Files, path: str, rows: pa.Table) -> bool:
    """Make a file of rows, in their order; False, and nothing done, where it is there. May raise HistoryError."""
    content = pa.BufferOutputStream()
    pq.write_table(rows, content, compression=COMPRESSION)
    return files.create(path, content.getvalue().to_pybytes())


@dataclass(frozen=True, slots=True)
class WriteBatch:
    """Rows that are written together.

    Attributes:
        identity: Made by ``new_id``: writing a batch again that was written in part completes it.
        tables: Rows by the name of their table; may be empty.
    """

    identity: str
    tables: Mapping[str, pa.Table]

    @property
    def rows(self) -> int:
        """Rows of all tables."""
        return sum(len(rows) for rows in self.tables.values())


def append(files: Files, batch: WriteBatch, partition: Partition = Partition.CLUSTER) -> int:
    """Append a batch: one file per folder, each of which appears whole or not at all.

    Files are named after the batch, so that a batch that was interrupted at any instant can be appended again: what is
    there already stays as it is.

    Returns:
        Files that were added.

    Raises:
        HistoryError: Some files may have been added; append the batch again.
    """
    return sum(
        write_rows(files, f"{folder.path}/{batch.identity}{SUFFIX}", piece)
        for name, rows in batch.tables.items()
        for folder, piece in _split_by_folder(TABLES[name], rows, partition)
    )


def _split_by_folder(table: HistoryTable, rows: pa.Table, partition: Partition) -> Iterator[tuple[Folder, pa.Table]]:
    """Divide rows into the folders that they belong to, sorted so that equal texts are next to each other."""
    rows = rows.sort_by([(name, "ascending") for name in table.key])
    days = pc.floor_temporal(rows.column("ts"), unit="day").cast(pa.date32())
    for day in sorted(pc.unique(days).to_pylist()):
        of_day = rows.filter(pc.equal(days, pa.scalar(day, pa.date32())))
        if partition is Partition.DATE:
            yield Folder(table.name, day), of_day
            continue
        names = pc.fill_null(of_day.column("cluster"), "")
        for cluster in sorted(pc.unique(names).to_pylist()):
            yield Folder(table.name, day, cluster or _NO_CLUSTER), of_day.filter(pc.equal(names, cluster))


def distinct_rows(table: HistoryTable, rows: pa.Table) -> pa.Table:
    """Return rows sorted by their key, of those with equal keys the latest one."""
    # Only the key is sorted and compared; the other columns are copied once, at the end.
    order = dict.fromkeys((*table.key, "ts"))
    places = pc.sort_indices(rows.select(list(order)), [(name, "ascending") for name in order])
    keys = rows.select(table.key).take(places).append_column("place", pa.array(range(len(rows)), pa.int64()))
    last = keys.group_by(table.key).aggregate([("place", "max")]).column("place_max")
    return rows.take(places.take(last.sort()))


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


def describe(
    files: Files, selection: HistoryFilter = EVERYTHING, progress: Progress = ignore_progress
) -> list[TableInfo]:
    """Look at every file of a selection, and tell of every table, also of those without files.

    Raises:
        MissingHistoryError: There is no such history.
        HistoryError: It cannot be listed, or is compacted again and again meanwhile.
    """

    def look() -> list[TableInfo]:
        tables = list_all_folders(files, selection)
        health: dict[str, list[FileHealth]] = defaultdict(list)
        for each in examine(files, [each for folders in tables.values() for each in folders], progress):
            health[each.folder.table].append(each)
        return [_table_info(name, folders, health[name]) for name, folders in tables.items()]

    return retry_until_consistent(look)


def _table_info(name: str, found: Sequence[FolderListing], health: Sequence[FileHealth]) -> TableInfo:
    days = [each.folder.day for each in health]
    return TableInfo(
        name=name,
        files=len(health),
        rows=sum(each.rows or 0 for each in health),
        bytes=sum(each.entry.size for each in health),
        first=min(days, default=None),
        last=max(days, default=None),
        clusters=tuple(sorted({each.folder.cluster for each in health if each.folder.cluster is not None})),
        versions=dict(sorted(Counter(each.folder.version for each in health).items())),
        replaced=sum(len(each.replaced) for each in found),
        damaged=tuple(each.problem for each in health if each.problem is not None),
    )
