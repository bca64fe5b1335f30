"""A history on any file system that Hadoop knows, through a Spark session: its files, and its tables as data frames."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

import pyarrow as pa
import structlog
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql.functions import col, lit, row_number, timestamp_millis

from flink_autoscaler.pipeline.spark.supply import reason_of
from flink_autoscaler.pipeline.tables.files import (
    GONE,
    STAGING,
    FileEntry,
    Files,
    FileVanishedError,
    HistoryError,
    new_id,
)
from flink_autoscaler.pipeline.tables.schema import HistoryTable
from flink_autoscaler.pipeline.tables.store import (
    EVERYTHING,
    HistoryFilter,
    examine,
    list_folders,
    require,
    retry_until_consistent,
)

_PACKAGES: Final = {
    "s3a": "org.apache.hadoop:hadoop-aws:{hadoop}",
    "abfs": "org.apache.hadoop:hadoop-azure:{hadoop}",
    "abfss": "org.apache.hadoop:hadoop-azure:{hadoop}",
    "gs": "com.google.cloud.bigdataoss:gcs-connector (a version for Hadoop 3)",
}
"""What brings file systems that are not in Spark's distribution, by scheme; Hadoop's own have its version."""

_NO_CLASS: Final = ("ClassNotFoundException", "NoClassDefFoundError", "No FileSystem for scheme")
_NO_HOST: Final = "UnknownHostException"

FAILURES: Final = (Py4JError, PySparkException, OSError, pa.ArrowException)
"""What Spark raises, also when its JVM is gone."""
_MISSING: Final = "java.io.FileNotFoundException"
_IS_THERE: Final = "FileAlreadyExistsException"
_WAS_CHANGED: Final = "RemoteFileChangedException"
_CREATES_ONCE: Final = "fs.option.create.conditional.overwrite"
"""What Hadoop calls an object store that makes an object only where there is none."""

BLOCK_BYTES: Final = 8 << 20
"""Of a file: so much of it is in the memory of the JVM at once."""

_PLACE: Final = "place"

_log = structlog.get_logger(__name__)


def advice(path: str, problem: str, *, hadoop: str | None = None) -> str | None:
    """Return what to do about a path that Spark cannot reach; None where the problem is another one.

    Args:
        path: With its scheme.
        problem: What Hadoop said.
        hadoop: Version of the Hadoop that said it; None where that is not known.
    """
    scheme = urlsplit(path).scheme.lower()
    if any(text in problem for text in _NO_CLASS):
        if scheme in ("s3", "s3n"):
            return f"Hadoop has no {scheme}:// any more, write s3a://"
        package = _PACKAGES.get(scheme, "").format(hadoop=hadoop or "<version of Hadoop there>")
        todo = f"the package {package} to spark.jars.packages" if package else "the jar that brings one to spark.jars"
        where = "in autoscaler.engine.spark-config (Spark Connect: of the server)"
        return f"Spark has no file system for {scheme}://; add {todo} {where}"
    if _NO_HOST in problem and scheme == "hdfs" and not os.environ.get("HADOOP_CONF_DIR"):
        return "if that is a name service, set HADOOP_CONF_DIR to the folder with the hdfs-site.xml that knows it"
    return None


class HadoopFiles:
    """Files on HDFS, an object store or whatever else the session is configured for (``Files``)."""

    def __init__(self, root: str, spark: SparkSession) -> None:
        """Find the file system of a path.

        Raises:
            HistoryError: There is none for it, or it does not answer.
        """
        self.root = root.rstrip("/")
        java: Any = spark._jvm
        self._java = java
        with self._errors(root):
            self._base = self._java.org.apache.hadoop.fs.Path(self.root or "/")
            self._system = self._base.getFileSystem(spark._jsc.hadoopConfiguration())
            self._prefix = self._system.makeQualified(self._base).toString().rstrip("/") + "/"

    def exists(self) -> bool:
        """Tell whether the root is there."""
        with self._errors(self.root):
            return bool(self._system.exists(self._base))

    def list(self, folder: str = "") -> Sequence[FileEntry]:
        """Return all files below a folder, in no order; none where there is no such folder."""
        entries: list[FileEntry] = []
        with self._errors(self._prefix + folder):
            if not self._system.exists(self._path(folder)):
                return entries
            found = self._system.listFiles(self._path(folder), True)
            while found.hasNext():
                status = found.next()
                relative = str(status.getPath().toString()).removeprefix(self._prefix)
                entries.append(FileEntry(relative, int(status.getLen())))
        return entries

    def remove(self, path: str) -> None:
        """Remove a file, or a folder with everything in it; nothing where it is not there."""
        with self._errors(self._prefix + path):
            self._system.delete(self._path(path), True)

    def read(self, path: str, last: int | None = None) -> bytes:
        """Return the content of a file, or its last bytes."""
        with self._errors(self._prefix + path):
            size = int(self._system.getFileStatus(self._path(path)).getLen())
            count = size if last is None else min(size, last)
            stream = self._system.open(self._path(path))
            try:
                stream.seek(size - count)
                blocks = (min(BLOCK_BYTES, count - begin) for begin in range(0, count, BLOCK_BYTES))
                return b"".join(
                    bytes(self._java.org.apache.commons.io.IOUtils.toByteArray(stream, block)) for block in blocks
                )
            finally:
                stream.close()

    def create(self, path: str, content: bytes) -> bool:
        """Make a file; False, and nothing done, where it is there.

        It appears whole: on HDFS others would see a file without content, or with a part of it, until it is closed.
        Object stores, which show files when they are whole, cannot move one unless another is there, but create it so.
        """
        with self._errors(self._prefix + path):
            if self._system.exists(self._path(path)):
                return False
            if self._system.hasPathCapability(self._path(path), _CREATES_ONCE):
                return self._created_once(path, content)
            draft = f"{STAGING}/{new_id()}"
            self._write(self._system.create(self._path(draft), False), content)
            self._system.mkdirs(self._path(path).getParent())
            is_made = self._renamed(draft, path)
            if not is_made:
                self.remove(draft)
                if not self._system.exists(self._path(path)):  # nobody else was first
                    raise HistoryError(f"{self._prefix}{path}: the file system refused to move {draft} there")
            return is_made

    def _created_once(self, path: str, content: bytes) -> bool:
        """Make a file unless it is there when it is closed."""
        stream = self._system.createFile(self._path(path)).recursive().must(_CREATES_ONCE, True).build()
        try:
            self._write(stream, content)
        except Py4JError as error:
            if _WAS_CHANGED in str(error):
                return False
            raise
        return True

    @staticmethod
    def _write(stream: Any, content: bytes) -> None:
        try:
            for begin in range(0, len(content), BLOCK_BYTES):
                stream.write(content[begin : begin + BLOCK_BYTES])
        finally:
            stream.close()

    def _renamed(self, source: str, target: str) -> bool:
        try:
            return bool(self._system.rename(self._path(source), self._path(target)))
        except Py4JError as error:
            if _IS_THERE in str(error):
                return False
            raise

    @contextmanager
    def _errors(self, path: str) -> Iterator[None]:
        """Turn what the JVM says, or that it is gone, into an error that names the path, and what to do about it."""
        try:
            yield
        except FAILURES as error:
            cause = _cause(error)
            if _MISSING in cause:
                raise FileVanishedError(f"{path}: {GONE}") from error
            todo = advice(path, cause, hadoop=self._version())
            raise HistoryError("; ".join(filter(None, (f"{path}: {cause}", todo)))) from error

    def _version(self) -> str | None:
        try:
            return str(self._java.org.apache.hadoop.util.VersionInfo.getVersion())
        except FAILURES:  # the JVM is gone
            return None

    def _path(self, relative: str) -> Any:
        return self._java.org.apache.hadoop.fs.Path(self._prefix + relative)


def _cause(error: BaseException) -> str:
    """Return what the innermost exception of Java says, without its stack trace."""
    exception = getattr(error, "java_exception", None)
    try:
        while exception is not None and exception.getCause() is not None:
            exception = exception.getCause()
        if exception is not None:
            return str(exception.toString()).splitlines()[0]
    except FAILURES:  # the JVM is gone
        pass
    return reason_of(error)


@dataclass(frozen=True, slots=True)
class TableRead:
    """A table.

    Attributes:
        frame: Its rows, with the columns of the declaration, whatever version wrote them.
        files: Files that it is read from.
        damaged: What is wrong with files that were left out.
    """

    frame: DataFrame
    files: int
    damaged: tuple[str, ...] = ()


def read(spark: SparkSession, files: Files, table: HistoryTable, selection: HistoryFilter = EVERYTHING) -> TableRead:
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
        HistoryError: It cannot be listed, or is compacted again and again meanwhile.
    """
    require(files)
    health = retry_until_consistent(lambda: list(examine(files, list_folders(files, table, selection))))
    damaged = tuple(each.problem for each in health if each.problem is not None)
    if damaged:
        _log.warning("history_files_damaged", table=table.name, files=len(damaged), problems=damaged[:3])
    root = f"file:{files.root}" if files.root.startswith("/") else files.root
    paths = [f"{root}/{each.entry.path}" for each in health if each.rows]
    frame = spark.createDataFrame(table.schema.empty_table())
    if paths:
        # Folders do not count: every column is in the files, whatever folders a version divides a table into.
        options = {"ignoreCorruptFiles": "true", "recursiveFileLookup": "true"}
        frame = spark.read.schema(frame.schema).options(**options).parquet(*paths)
    frame = select_rows(frame, selection)
    if table.is_revised:
        newest_first = row_number().over(Window.partitionBy(*table.key).orderBy(frame.ts.desc()))
        frame = frame.withColumn(_PLACE, newest_first).where(f"{_PLACE} = 1").drop(_PLACE)
    return TableRead(frame, len(paths), damaged)


def select_rows(frame: DataFrame, selection: HistoryFilter) -> DataFrame:
    """Return the rows of a selection.

    Args:
        frame: Any table of the history.
        selection: Which rows.
    """
    if selection.since_ms is not None:
        frame = frame.where(col("ts") >= timestamp_millis(lit(selection.since_ms)))
    if selection.until_ms is not None:
        frame = frame.where(col("ts") < timestamp_millis(lit(selection.until_ms)))
    if selection.clusters is not None:
        frame = frame.where(col("cluster").isin(sorted(selection.clusters)))
    if selection.jobs is not None:
        frame = frame.where(col("job_key").rlike(selection.jobs))
    return frame
