"""Copies a part of a history to one file that other programs read."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import IO, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from flink_autoscaler.pipeline.history.catalog import FolderListing, Progress, find, require, unheard
from flink_autoscaler.pipeline.history.files import Files, GoneError, HistoryError
from flink_autoscaler.pipeline.history.layout import EVERYTHING, Selection
from flink_autoscaler.pipeline.history.schema import HistoryTable, instant
from flink_autoscaler.pipeline.history.storage import COMPRESSION, distinct_rows, read_rows


class Format(StrEnum):
    """What an export looks like."""

    CSV = "csv"
    JSON = "json"
    PARQUET = "parquet"


@dataclass(frozen=True, slots=True)
class ExportSelection:
    """What is to be exported.

    Attributes:
        job: Pattern for keys of jobs; None takes all.
    """

    table: HistoryTable
    selection: Selection = EVERYTHING
    job: str | None = None


@dataclass(frozen=True, slots=True)
class Exported:
    """What was exported.

    Attributes:
        damaged: What is wrong with files that were left out.
    """

    rows: int
    files: int
    damaged: tuple[str, ...]


def export(
    files: Files, wanted: ExportSelection, stream: IO[bytes], form: Format, progress: Progress = unheard
) -> Exported:
    """Write rows to a stream, file by file, by day.

    Args:
        files: The history.
        wanted: Which rows.
        stream: Takes bytes; CSV and JSON are UTF-8, JSON is one object per line.
        form: How they are written.
        progress: Told about files.

    Raises:
        MissingHistoryError: There is no such history.
        HistoryError: It cannot be listed, or was compacted meanwhile; try again.
        OSError: The stream takes no more.
    """
    require(files)
    found = find(files, wanted.table, wanted.selection)
    damaged: list[str] = []
    count = 0
    pieces = _pieces(files, wanted, found, damaged, progress)
    if wanted.table.is_revised:
        # What replaces a row may be in a file of another day. Such tables are small.
        pieces = iter([distinct_rows(wanted.table, pa.concat_tables([wanted.table.schema.empty_table(), *pieces]))])
    with _sink(stream, form, wanted.table) as sink:
        for rows in pieces:
            sink(rows)
            count += len(rows)
    return Exported(count, sum(len(each.entries) for each in found), tuple(damaged))


def _pieces(
    files: Files,
    wanted: ExportSelection,
    found: Sequence[FolderListing],
    damaged: list[str],
    progress: Progress,
) -> Iterator[pa.Table]:
    paths = [entry.path for each in found for entry in each.entries]
    for number, path in enumerate(paths, start=1):
        try:
            yield chosen(read_rows(files, path, wanted.table), wanted)
        except GoneError as error:
            # Its rows are in another file now, and some of that file have been exported already.
            raise HistoryError(f"{error}: try again") from error
        except HistoryError as error:
            damaged.append(str(error))
        progress(number, len(paths))


def chosen(rows: pa.Table, wanted: ExportSelection) -> pa.Table:
    """Return the rows that are wanted."""
    since, until, clusters = wanted.selection.since_ms, wanted.selection.until_ms, wanted.selection.clusters
    if since is not None:
        rows = rows.filter(pc.greater_equal(rows.column("ts"), instant(since)))
    if until is not None:
        rows = rows.filter(pc.less(rows.column("ts"), instant(until)))
    if clusters is not None:
        rows = rows.filter(pc.is_in(rows.column("cluster"), pa.array(sorted(clusters), pa.string())))
    if wanted.job is not None:
        keys = [key for key in pc.unique(rows.column("job_key")).to_pylist() if fnmatchcase(key or "", wanted.job)]
        rows = rows.filter(pc.is_in(rows.column("job_key"), pa.array(keys, pa.string())))
    return rows


Sink = Callable[[pa.Table], None]
"""Takes rows."""


@contextmanager
def _sink(stream: IO[bytes], form: Format, table: HistoryTable) -> Iterator[Sink]:
    if form is Format.PARQUET:
        with pq.ParquetWriter(stream, table.schema, compression=COMPRESSION) as writer:
            yield writer.write_table
        return
    text = io.TextIOWrapper(stream, "utf-8", newline="", write_through=True)
    try:
        yield _json_sink(text) if form is Format.JSON else _csv_sink(text, table.schema.names)
    finally:
        text.detach()  # the stream stays open


def _json_sink(stream: IO[str]) -> Sink:
    def write(rows: pa.Table) -> None:
        for row in rows.to_pylist():
            stream.write(json.dumps(_plain(row), default=_written, ensure_ascii=False, allow_nan=False) + "\n")

    return write


def _csv_sink(stream: IO[str], names: Sequence[str]) -> Sink:
    """Lists are JSON inside their cell; what is not known is an empty cell."""
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(names)

    def write(rows: pa.Table) -> None:
        writer.writerows([_cell(_plain(row[name])) for name in names] for row in rows.to_pylist())

    return write


def _plain(value: Any) -> Any:
    """Return a value with null for numbers that are none: this program writes no such, but others may have."""
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _cell(value: Any) -> Any:
    if isinstance(value, list):
        return json.dumps(value, ensure_ascii=False, default=_written)
    if isinstance(value, bool):
        return str(value).lower()
    return _written(value) if isinstance(value, datetime) else value


def _written(value: Any) -> str:
    """Write an instant for people and programs: ISO 8601 in UTC."""
    return value.isoformat() if isinstance(value, datetime) else str(value)
