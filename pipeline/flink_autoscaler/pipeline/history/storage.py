"""Writes and reads the Parquet files of a history with Arrow, wherever they are: here, or where Spark reaches them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from flink_autoscaler.pipeline.history import Partition
from flink_autoscaler.pipeline.history.files import Files, HistoryError, LocalFiles, is_local
from flink_autoscaler.pipeline.history.layout import NO_CLUSTER, SUFFIX, Folder
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


def read_rows(files: Files, path: str, table: HistoryTable) -> pa.Table:
    """Return the rows of one file of any version, with the columns of this one.

    Raises:
        HistoryError: It cannot be read, or is no whole Parquet file of that table.
    """
    content = pa.BufferReader(files.read(path))
    try:
        with pq.ParquetFile(content) as file:
            known = [name for name in file.schema_arrow.names if name in table.schema.names]
            return table.conform(file.read(columns=known))
    except (OSError, pa.ArrowException) as error:
        raise HistoryError(f"{files.root}/{path}: {' '.join(str(error).split())}") from error


def write_rows(files: Files, path: str, rows: pa.Table) -> bool:
    """Make a file of rows, in their order; False, and nothing done, where it is there. May raise HistoryError."""
    content = pa.BufferOutputStream()
    pq.write_table(rows, content, compression=COMPRESSION)
    return files.create(path, content.getvalue().to_pybytes())


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


@contextmanager
def opened(path: str, sessions: Sessions | None = None) -> Iterator[Files]:
    """Give access to a history: the system reaches local paths, which are not looked at yet, and Spark all others.

    Args:
        path: With or without a scheme, such as ``/var/lib/history`` or ``hdfs://nameservice1/history``.
        sessions: Asked only where Spark is needed.

    Raises:
        HistoryError: The path needs Spark, and there is none, or its file system does not answer.
    """
    if is_local(path):
        yield LocalFiles(path)
        return
    if sessions is None:
        raise HistoryError(f"{path}: only Spark reaches this path")
    with sessions() as spark:
        yield files_at(path, spark)


def files_at(path: str, spark: SparkSession) -> Files:
    """Return the files of a history on any path.

    Raises:
        HistoryError: The file system does not answer.
    """
    # Imported here: a history on a local path must not pay for pyspark.
    from flink_autoscaler.pipeline.history.spark_files import HadoopFiles  # noqa: PLC0415

    return LocalFiles(path) if is_local(path) else HadoopFiles(path, spark)


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


def append(files: Files, batch: Batch, partition: Partition = Partition.CLUSTER) -> int:
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
        if len(rows)
        for folder, piece in divided(TABLES[name], rows, partition)
    )


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
