"""A history: its files, and how they are written and read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from flink_autoscaler.pipeline.history.choices import Writer
from flink_autoscaler.pipeline.history.files import Files, HistoryError, LocalFiles, is_local
from flink_autoscaler.pipeline.history.parts import ArrowParts, ParquetFiles

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from flink_autoscaler.pipeline.spark.settings import SparkSettings


@dataclass(frozen=True, slots=True)
class HistoryStorage:
    """Where a history is, and by what it is written and read."""

    files: Files
    parts: ParquetFiles


def needs_spark(path: str, writer: Writer = Writer.AUTO) -> bool:
    """Tell whether Spark is needed: for paths that are not local, or where it is asked for."""
    return writer is Writer.SPARK or not is_local(path)


Sessions = Callable[[], AbstractContextManager["SparkSession"]]
"""Lends a Spark session; may raise anything when there is none."""


@contextmanager
def opened(path: str, sessions: Sessions | None = None, writer: Writer = Writer.AUTO) -> Iterator[HistoryStorage]:
    """Give access to a history; nothing is made or looked at on a local path.

    Args:
        path: With or without a scheme, such as ``/var/lib/history`` or ``hdfs://nameservice1/history``.
        sessions: Asked only where Spark is needed.
        writer: Arrow writes local paths only.

    Raises:
        HistoryError: The path needs Spark, and there is none, or its file system does not answer.
    """
    if not needs_spark(path, writer):
        local = LocalFiles(path)
        yield HistoryStorage(local, ArrowParts(local))
        return
    if writer is Writer.ARROW:
        raise HistoryError(f"{path}: Arrow writes only to local paths; set the writer to auto or spark")
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
    from flink_autoscaler.pipeline.history.hadoop import HadoopFiles  # noqa: PLC0415
    from flink_autoscaler.pipeline.history.spark_parts import SparkParts  # noqa: PLC0415

    files: Files = LocalFiles(path) if is_local(path) else HadoopFiles(path, spark)
    return HistoryStorage(files, SparkParts(spark, files))


@contextmanager
def own_session(settings: SparkSettings) -> Iterator[SparkSession]:
    """Lend a Spark session that ends afterwards, with its JVM.

    Raises:
        ConfigError: Java is missing or too old.
        SparkLostError: Spark did not start, or this process has a session already.
    """
    # Imported here, as above.
    from flink_autoscaler.pipeline.spark.driver import DriverSession  # noqa: PLC0415

    with closing(DriverSession(settings)) as session:
        yield session.spark
