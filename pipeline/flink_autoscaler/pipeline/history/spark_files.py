"""The files of a history on any file system that Hadoop knows, through a Spark session."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final
from urllib.parse import urlsplit

import pyarrow as pa
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql.functions import row_number
from pyspark.sql.types import StructType

from flink_autoscaler.pipeline.history.files import (
    GONE,
    STAGING,
    FileEntry,
    Files,
    GoneError,
    HistoryError,
    new_id,
)
from flink_autoscaler.pipeline.history.schema import HistoryTable
from flink_autoscaler.pipeline.spark.supply import reason_of

_CONFIGURATION: Final = "HADOOP_CONF_DIR"

_HADOOP_MODULES: Final = {
    "s3a": "hadoop-aws",
    "abfs": "hadoop-azure",
    "abfss": "hadoop-azure",
    "wasb": "hadoop-azure",
    "wasbs": "hadoop-azure",
    "oss": "hadoop-aliyun",
    "cosn": "hadoop-cos",
    "obs": "hadoop-huaweicloud",
}
"""Modules of Hadoop that are not in Spark's distribution, by scheme; each has the version of Hadoop itself."""

_OTHER_PACKAGES: Final = {"gs": "com.google.cloud.bigdataoss:gcs-connector (a version for Hadoop 3)"}
_OLD_SCHEMES: Final = frozenset({"s3", "s3n"})
_NO_CLASS: Final = ("ClassNotFoundException", "NoClassDefFoundError", "No FileSystem for scheme")
_NO_HOST: Final = "UnknownHostException"
_WHERE: Final = " in autoscaler.engine.spark-config (Spark Connect: of the server)"

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


def advice(path: str, problem: str, *, hadoop: str | None = None) -> str | None:
    """Return what to do about a path that Spark cannot reach; None where the problem is another one.

    Args:
        path: With its scheme.
        problem: What Hadoop said.
        hadoop: Version of the Hadoop that said it; None where that is not known.
    """
    scheme = urlsplit(path).scheme.lower()
    if any(text in problem for text in _NO_CLASS):
        return _package(scheme, hadoop or "<version of Hadoop there>")
    if _NO_HOST in problem and scheme == "hdfs" and not os.environ.get(_CONFIGURATION):
        return f"if that is a name service, set {_CONFIGURATION} to the folder with the hdfs-site.xml that knows it"
    return None


def _package(scheme: str, hadoop: str) -> str | None:
    if scheme in _OLD_SCHEMES:
        return f"Hadoop has no {scheme}:// any more, write s3a://"
    module = _HADOOP_MODULES.get(scheme)
    package = f"org.apache.hadoop:{module}:{hadoop}" if module else _OTHER_PACKAGES.get(scheme)
    if package is None:
        return f"Spark has no file system for {scheme}://; add the jar that brings one to spark.jars{_WHERE}"
    return f"Spark has no file system for {scheme}://; add the package {package} to spark.jars.packages{_WHERE}"


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
        with self._reached(root):
            self._base = self._java.org.apache.hadoop.fs.Path(self.root or "/")
            self._system = self._base.getFileSystem(spark._jsc.hadoopConfiguration())
            self._prefix = self._system.makeQualified(self._base).toString().rstrip("/") + "/"

    def exists(self) -> bool:
        """Tell whether the root is there."""
        with self._reached(self.root):
            return bool(self._system.exists(self._base))

    def list(self, folder: str = "") -> Sequence[FileEntry]:
        """Return all files below a folder, in no order; none where there is no such folder."""
        entries: list[FileEntry] = []
        with _told(self._prefix + folder):
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
        with _told(self._prefix + path):
            self._system.delete(self._path(path), True)

    def read(self, path: str, last: int | None = None) -> bytes:
        """Return the content of a file, or its last bytes."""
        with _told(self._prefix + path):
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
        with _told(self._prefix + path):
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
    def _reached(self, path: str) -> Iterator[None]:
        """Turn what the JVM says into an error that names the path, and what to do about it."""
        try:
            with _told(path):
                yield
        except HistoryError as error:
            if (todo := advice(path, str(error), hadoop=self._version())) is None:
                raise
            raise HistoryError(f"{error}; {todo}") from error

    def _version(self) -> str | None:
        try:
            return str(self._java.org.apache.hadoop.util.VersionInfo.getVersion())
        except FAILURES:  # the JVM is gone
            return None

    def _path(self, relative: str) -> Any:
        return self._java.org.apache.hadoop.fs.Path(self._prefix + relative)


@contextmanager
def _told(path: str) -> Iterator[None]:
    """Turn what the JVM says, or that it is gone, into an error that names the path."""
    try:
        yield
    except FAILURES as error:
        cause = _cause(error)
        if _MISSING in cause:
            raise GoneError(f"{path}: {GONE}") from error
        raise HistoryError(f"{path}: {cause}") from error


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


def latest(frame: DataFrame, table: HistoryTable) -> DataFrame:
    """Return of the rows with equal keys the latest one.

    Args:
        frame: Rows of the table.
        table: For its key.
    """
    newest_first = row_number().over(Window.partitionBy(*table.key).orderBy(frame.ts.desc()))
    return frame.withColumn(_PLACE, newest_first).where(f"{_PLACE} = 1").drop(_PLACE)


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
