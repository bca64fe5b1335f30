"""A history: where it is, and how its Parquet files are written and read, in this process with Arrow or with Spark."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Final, Protocol

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from flink_autoscaler.pipeline.history import Partition
from flink_autoscaler.pipeline.history.files import GONE, Files, GoneError, HistoryError, LocalFiles, is_local
from flink_autoscaler.pipeline.history.layout import NO_CLUSTER, STAGING, SUFFIX, Folder
from flink_autoscaler.pipeline.history.schema import TABLES, HistoryTable
from flink_autoscaler.pipeline.spark.environment import require_packages

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from flink_autoscaler.pipeline.spark.settings import SparkSettings


COMPRESSION: Final = "zstd"

_MAGIC: Final = b"PAR1"
_FOOTER_GUESS: Final = 1 << 16
_LONGEST_FOOTER: Final = 1 << 26

Sessions = Callable[[], AbstractContextManager["SparkSession"]]
"""Lends a Spark session; may raise anything when there is none."""


@dataclass(frozen=True, slots=True)
class Merged:
    """One file that stands for several.

    Attributes:
        path: Relative to the root.
        duplicates: Rows that are left out, since they were written twice.
    """

    path: str
    duplicates: int


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

    def merge(self, paths: Sequence[str], table: HistoryTable, folder: str) -> Merged:
        """Write the rows of several files, at least two, into one: sorted by their key, of equal ones the latest.

        Args:
            paths: An error may be about any of them.
            table: What they are of, in any version.
            folder: Takes the file; relative to the root, nothing is there yet.
        """
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

    def merge(self, paths: Sequence[str], table: HistoryTable, folder: str) -> Merged:
        """Write the rows of several files into one; they are in memory meanwhile."""
        rows = pa.concat_tables([self.read(path, table) for path in paths])
        before, rows = len(rows), distinct_rows(table, rows)
        [path] = self.write([rows], folder)
        return Merged(path, before - len(rows))


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


@dataclass(frozen=True, slots=True)
class HistoryStorage:
    """Where a history is, and by what it is written and read."""

    files: Files
    parts: ParquetFiles


@contextmanager
def opened(path: str, sessions: Sessions | None = None) -> Iterator[HistoryStorage]:
    """Give access to a history: Arrow reads and writes local paths, without looking at them yet, and Spark all others.

    Args:
        path: With or without a scheme, such as ``/var/lib/history`` or ``hdfs://nameservice1/history``.
        sessions: Asked only where Spark is needed.

    Raises:
        HistoryError: The path needs Spark, and there is none, or its file system does not answer.
    """
    if is_local(path):
        local = LocalFiles(path)
        yield HistoryStorage(local, ArrowParts(local))
        return
    if sessions is None:
        raise HistoryError(f"{path}: only Spark reaches this path")
    with sessions() as spark:
        yield spark_storage(path, spark)


def spark_storage(path: str, spark: SparkSession) -> HistoryStorage:
    """Return a history that Spark writes and reads.

    Raises:
        HistoryError: The file system does not answer.
    """
    # Imported here: a history on a local path must not pay for pyspark.
    from flink_autoscaler.pipeline.history.spark_files import HadoopFiles, SparkParts  # noqa: PLC0415

    files: Files = LocalFiles(path) if is_local(path) else HadoopFiles(path, spark)
    return HistoryStorage(files, SparkParts(spark, files))


@contextmanager
def own_session(settings: SparkSettings) -> Iterator[SparkSession]:
    """Lend a Spark session that ends afterwards, with its JVM.

    Raises:
        ConfigError: PySpark is missing, or Java is missing or too old.
        SparkLostError: Spark did not start, or this process has a session already.
    """
    require_packages()
    # Imported here, as above.
    from flink_autoscaler.pipeline.spark.driver import DriverSession  # noqa: PLC0415
    from flink_autoscaler.pipeline.spark.session import leave_pandas_alone  # noqa: PLC0415

    leave_pandas_alone()
    with closing(DriverSession(settings)) as session:
        yield session.spark


@dataclass(frozen=True, slots=True)
class Batch:
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


def append(storage: HistoryStorage, batch: Batch, partition: Partition = Partition.CLUSTER) -> int:
    """Append a batch: one file per folder, each of which appears whole or not at all.

    Files are written to the staging folder and moved from there. They are named after the batch, so that a batch that
    was interrupted at any instant can be appended again: what is there already stays as it is.

    Returns:
        Files that were added.

    Raises:
        HistoryError: Some files may have been added; append the batch again.
    """
    staging = f"{STAGING}/{batch.identity}"
    storage.files.remove(staging)
    added = 0
    for name, rows in batch.tables.items():
        if len(rows) == 0:
            continue
        pieces = list(divided(TABLES[name], rows, partition))
        staged = storage.parts.write([piece for _, piece in pieces], f"{staging}/{name}")
        for source, (folder, _) in zip(staged, pieces, strict=True):
            added += storage.files.move(source, f"{folder.path}/{batch.identity}{SUFFIX}")
    storage.files.remove(staging)
    return added


def divided(table: HistoryTable, rows: pa.Table, partition: Partition) -> Iterator[tuple[Folder, pa.Table]]:
    """Divide rows into the folders that they belong to, sorted so that equal texts are next to each other.

    Args:
        table: The declaration of the rows.
        rows: At least one row; every row has an instant.
        partition: How to divide.
    """
    days = pc.floor_temporal(rows.column("ts"), unit="day").cast(pa.date32())
    for day in sorted(pc.unique(days).to_pylist()):
        of_day = rows.filter(pc.equal(days, pa.scalar(day, pa.date32())))
        if partition is Partition.DATE:
            yield Folder(table.name, day), arranged(table, of_day)
            continue
        names = pc.fill_null(of_day.column("cluster"), "")
        for cluster in sorted(pc.unique(names).to_pylist()):
            folder = Folder(table.name, day, cluster or NO_CLUSTER)
            yield folder, arranged(table, of_day.filter(pc.equal(names, cluster)))


def distinct_rows(table: HistoryTable, rows: pa.Table) -> pa.Table:
    """Return rows sorted by their key, of those with equal keys the latest one."""
    # Only the key is sorted and compared; the other columns are copied once, at the end.
    order = [*table.key, *({"ts"} - set(table.key))]
    places = pc.sort_indices(rows.select(order), [(name, "ascending") for name in order])
    if len(rows) > 1:
        columns = [rows.column(name).combine_chunks().take(places) for name in table.key]
        differs = reduce(pc.or_, [pc.fill_null(pc.not_equal(column[:-1], column[1:]), True) for column in columns])
        places = places.filter(pa.concat_arrays([differs, pa.array([True])]))
    return rows.take(places)


def arranged(table: HistoryTable, rows: pa.Table) -> pa.Table:
    """Sort rows by what tells them apart."""
    return rows.sort_by([(name, "ascending") for name in table.key])
