"""Copies a part of a history to one file that other programs read."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from enum import StrEnum
from typing import IO, Any

import pyarrow as pa
import pyarrow.parquet as pq

from flink_autoscaler.pipeline.tables.files import Files
from flink_autoscaler.pipeline.tables.schema import HistoryTable
from flink_autoscaler.pipeline.tables.store import (
    COMPRESSION,
    HistoryFilter,
    Progress,
    distinct_rows,
    ignore_progress,
    scan,
)


class Format(StrEnum):
    """Format of an export."""

    CSV = "csv"
    JSON = "json"
    PARQUET = "parquet"


def write_export(
    files: Files,
    table: HistoryTable,
    selection: HistoryFilter,
    stream: IO[bytes],
    form: Format,
    damaged: list[str],
    progress: Progress = ignore_progress,
) -> int:
    """Write rows to a stream, file by file, by day; return how many.

    Args:
        files: The history.
        table: Which table.
        selection: Which rows of it.
        stream: Takes bytes; CSV and JSON are UTF-8, JSON is one object per line.
        form: How they are written.
        damaged: Takes what is wrong with files that are left out.
        progress: Told about files.

    Raises:
        MissingHistoryError: There is no such history.
        HistoryError: It cannot be listed, or was compacted meanwhile; try again.
        OSError: The stream takes no more.
    """
    pieces = scan(files, table, selection, damaged, progress=progress)
    if table.is_revised:
        # What replaces a row may be in a file of another day. Such tables are small.
        pieces = iter([distinct_rows(table, pa.concat_tables([table.schema.empty_table(), *pieces]))])
    count = 0
    with _sink(stream, form, table) as sink:
        for rows in pieces:
            sink(rows)
            count += len(rows)
    return count


@contextmanager
def _sink(stream: IO[bytes], form: Format, table: HistoryTable) -> Iterator[Callable[[pa.Table], None]]:
    """Give what takes rows; in CSV lists are JSON inside their cell, and what is not known is an empty cell."""
    if form is Format.PARQUET:
        with pq.ParquetWriter(stream, table.schema, compression=COMPRESSION) as writer:
            yield writer.write_table
        return
    text = io.TextIOWrapper(stream, "utf-8", newline="", write_through=True)
    cells = csv.writer(text, lineterminator="\n")
    if form is Format.CSV:
        cells.writerow(table.schema.names)

    def write(rows: pa.Table) -> None:
        for row in map(_plain, rows.to_pylist()):
            if form is Format.CSV:
                cells.writerow(map(_cell, row.values()))
            else:
                text.write(json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n")

    try:
        yield write
    finally:
        text.detach()  # the stream stays open


def _plain(value: Any) -> Any:
    """Return a value with null for numbers that are none: this program writes no such, but others may have."""
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if isinstance(value, datetime):
        return value.isoformat()  # in UTC
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _cell(value: Any) -> Any:
    if isinstance(value, list):
        return json.dumps(value, ensure_ascii=False)
    return str(value).lower() if isinstance(value, bool) else value
