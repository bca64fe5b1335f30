"""Writes and reads single Parquet files: in this process with Arrow, or with Spark."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Final, Protocol

import pyarrow as pa
import pyarrow.parquet as pq

from flink_autoscaler.pipeline.history.files import GONE, Files, GoneError, HistoryError, LocalFiles
from flink_autoscaler.pipeline.history.layout import SUFFIX
from flink_autoscaler.pipeline.history.schema import HistoryTable

COMPRESSION: Final = "zstd"

_MAGIC: Final = b"PAR1"
_FOOTER_GUESS: Final = 1 << 16
_LONGEST_FOOTER: Final = 1 << 26


class ParquetFiles(Protocol):
    """Parquet files below the root of a history. Every method raises :class:`HistoryError` and nothing else."""

    def write(self, tables: Sequence[pa.Table], folder: str) -> Sequence[str]:
        """Write each table to a file of its own and return their paths, in the order of the tables.

        Args:
            tables: Not empty, all of one schema; the order of their rows is kept.
            folder: Relative to the root; nothing is there yet.
        """
        ...

    def read(self, path: str, table: HistoryTable) -> pa.Table:
        """Return the rows of one file of any version, with the columns of this one."""
        ...


class ArrowParts:
    """Files of this machine, written and read in this process: no JVM, and a tenth of the time."""

    def __init__(self, files: LocalFiles) -> None:
        self._files = files

    def write(self, tables: Sequence[pa.Table], folder: str) -> Sequence[str]:
        """Write each table to a file of its own and return their paths, in the order of the tables."""
        paths = [f"{folder}/{index}{SUFFIX}" for index in range(len(tables))]
        try:
            os.makedirs(self._files.path(folder), exist_ok=True)
            for rows, path in zip(tables, paths, strict=True):
                _write_durably(rows, self._files.path(path))
        except (OSError, pa.ArrowException) as error:
            raise HistoryError(f"{self._files.path(folder)}: {error}") from error
        return paths

    def read(self, path: str, table: HistoryTable) -> pa.Table:
        """Return the rows of one file of any version, with the columns of this one."""
        try:
            with pq.ParquetFile(self._files.path(path)) as file:
                wanted = [name for name in file.schema_arrow.names if name in table.schema.names]
                return table.conform(file.read(columns=wanted))
        except FileNotFoundError as error:
            raise GoneError(f"{self._files.path(path)}: {GONE}") from error
        except (OSError, pa.ArrowException) as error:
            raise HistoryError(f"{self._files.path(path)}: {' '.join(str(error).split())}") from error


def _write_durably(rows: pa.Table, path: str) -> None:
    """Write a file and wait until it is on the disk, since it is going to replace what it was made from."""
    with open(path, "xb") as stream:
        pq.write_table(rows, stream, compression=COMPRESSION)
        stream.flush()
        os.fsync(stream.fileno())


def footer(files: Files, path: str) -> pq.FileMetaData:
    """Return what the end of a Parquet file says about it, without reading the rest.

    Raises:
        HistoryError: It cannot be read, or is no whole Parquet file.
    """
    end = files.read(path, _FOOTER_GUESS)
    needed = int.from_bytes(end[-8:-4], "little") + 8
    if end[-4:] == _MAGIC and len(end) < needed <= _LONGEST_FOOTER:
        end = files.read(path, needed)
    try:
        return pq.read_metadata(pa.BufferReader(end))
    except (OSError, pa.ArrowException) as error:
        raise HistoryError(f"{files.root}/{path}: not a whole Parquet file") from error
