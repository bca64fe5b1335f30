"""Parquet files by Spark, on any path that it reaches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from flink_autoscaler.pipeline.history.files import GONE, Files, GoneError, HistoryError
from flink_autoscaler.pipeline.history.hadoop import FAILURES
from flink_autoscaler.pipeline.history.layout import SUFFIX
from flink_autoscaler.pipeline.history.parts import COMPRESSION
from flink_autoscaler.pipeline.history.schema import HistoryTable
from flink_autoscaler.pipeline.spark.supply import reason_of

_INDEX: Final = "part"
_PLACE: Final = "place"
_GONE: Final = ("PATH_NOT_FOUND", "FILE_NOT_EXIST", "FileNotFoundException")
"""What Spark calls a file that is not there when it plans to read it, or comes to it."""


class SparkParts:
    """Files written and read by Spark jobs (``Parts``)."""

    def __init__(self, spark: SparkSession, files: Files) -> None:
        # A session of its own within the same Spark, so that its settings are not those of others.
        self._spark = spark.newSession()
        self._spark.conf.set("spark.sql.parquet.outputTimestampType", "TIMESTAMP_MICROS")
        self._files = files

    def write(self, tables: Sequence[pa.Table], folder: str) -> Sequence[str]:
        """Write each table to a file of its own in one Spark job; return their paths, in the order of the tables."""
        numbered = pa.concat_tables([_numbered(rows, index) for index, rows in enumerate(tables)])
        try:
            frame = self._spark.createDataFrame(numbered).coalesce(1).sortWithinPartitions(_INDEX, _PLACE)
            writer = frame.drop(_PLACE).write.partitionBy(_INDEX).option("compression", COMPRESSION)
            writer.parquet(uri(self._files, folder))
        except FAILURES as error:
            raise HistoryError(f"{uri(self._files, folder)}: {reason_of(error)}") from error
        return [self._written(f"{folder}/{_INDEX}={index}") for index in range(len(tables))]

    def read(self, path: str, table: HistoryTable) -> pa.Table:
        """Return the rows of one file of any version, with the columns of this one."""
        try:
            reader = self._spark.read.schema(spark_schema(self._spark, table))
            return table.conform(reader.parquet(uri(self._files, path)).toArrow())
        except FAILURES as error:
            if any(text in str(error) for text in _GONE):
                raise GoneError(f"{uri(self._files, path)}: {GONE}") from error
            raise HistoryError(f"{uri(self._files, path)}: {reason_of(error)}") from error

    def _written(self, folder: str) -> str:
        found = [entry.path for entry in self._files.list(folder) if entry.path.endswith(SUFFIX)]
        if len(found) != 1:
            raise HistoryError(f"{uri(self._files, folder)}: Spark left {len(found)} files instead of one")
        return found[0]


def uri(files: Files, path: str) -> str:
    """Return what Spark calls a file, or a folder, of a history."""
    root = f"file:{files.root}" if files.root.startswith("/") else files.root
    return f"{root}/{path}"


def spark_schema(spark: SparkSession, table: HistoryTable) -> StructType:
    """Return the columns of a table, as Spark sees them."""
    return empty(spark, table).schema


def empty(spark: SparkSession, table: HistoryTable) -> DataFrame:
    """Return a table without rows."""
    return spark.createDataFrame(table.schema.empty_table())


def _numbered(rows: pa.Table, index: int) -> pa.Table:
    count = len(rows)
    numbers = pa.array([index] * count, pa.int32())
    return rows.append_column(_INDEX, numbers).append_column(_PLACE, pa.array(range(count), pa.int32()))
