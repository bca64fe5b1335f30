"""Reads a history as Spark data frames."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import structlog
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from flink_autoscaler.pipeline.history.catalog import FileHealth, examine, find, require, settled
from flink_autoscaler.pipeline.history.files import Files
from flink_autoscaler.pipeline.history.layout import EVERYTHING, Selection
from flink_autoscaler.pipeline.history.schema import HistoryTable
from flink_autoscaler.pipeline.history.spark_files import empty, latest, spark_schema, uri

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Read:
    """A table.

    Attributes:
        frame: Its rows, with the columns of the declaration, whatever version wrote them.
        files: Files that it is read from.
        damaged: Files that were left out, with what is wrong.
    """

    frame: DataFrame
    files: int
    damaged: tuple[FileHealth, ...] = ()


def read(spark: SparkSession, files: Files, table: HistoryTable, selection: Selection = EVERYTHING) -> Read:
    """Read a table of the history.

    Only the folders of the days and clusters in question are looked at, and damaged files are left out with a warning.

    Args:
        spark: Reaches the path of the history.
        files: The history.
        table: Which table.
        selection: Which part of it.

    Returns:
        The rows; none where nothing was written yet.

    Raises:
        MissingHistoryError: There is no such history.
        HistoryError: It cannot be listed.
    """
    require(files)
    health = settled(
        lambda: list(examine(files, find(files, table, selection))),
        lambda found: any(each.is_gone for each in found),
    )
    damaged = tuple(each for each in health if each.problem is not None)
    if damaged:
        problems = [each.problem for each in damaged[:3]]
        _log.warning("history_files_damaged", table=table.name, files=len(damaged), problems=problems)
    paths = [uri(files, each.entry.path) for each in health if each.rows]
    frame = selected(_frame(spark, table, paths), selection)
    return Read(latest(frame, table) if table.is_revised else frame, len(paths), damaged)


def _frame(spark: SparkSession, table: HistoryTable, paths: Sequence[str]) -> DataFrame:
    if not paths:
        return empty(spark, table)
    reader = spark.read.schema(spark_schema(spark, table)).option("ignoreCorruptFiles", "true")
    # Folders do not count: every column is in the files, whatever folders a version divides a table into.
    return reader.option("recursiveFileLookup", "true").parquet(*paths)


def selected(frame: DataFrame, selection: Selection) -> DataFrame:
    """Return the rows of a selection.

    Args:
        frame: Any table of the history.
        selection: Which rows.
    """
    if selection.since_ms is not None:
        frame = frame.where(f.col("ts") >= f.timestamp_millis(f.lit(selection.since_ms)))
    if selection.until_ms is not None:
        frame = frame.where(f.col("ts") < f.timestamp_millis(f.lit(selection.until_ms)))
    if selection.clusters is not None:
        frame = frame.where(f.col("cluster").isin(sorted(selection.clusters)))
    return frame
