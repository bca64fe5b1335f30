"""The files of a history on any file system that Hadoop knows, through the JVM of a Spark session."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

import pyarrow as pa
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from flink_autoscaler.pipeline.history.files import GONE, FileEntry, GoneError, HistoryError
from flink_autoscaler.pipeline.history.layout import STAGING, new_id
from flink_autoscaler.pipeline.history.schemes import advice
from flink_autoscaler.pipeline.spark.supply import reason_of

FAILURES: Final = (Py4JError, PySparkException, OSError, pa.ArrowException)
"""What Spark raises, also when its JVM is gone."""

_MISSING: Final = "java.io.FileNotFoundException"


class HadoopFiles:
    """Files on HDFS, an object store or whatever else the session is configured for (``Files``).

    Moving a file is one step on HDFS; on object stores it is a copy that appears when it is whole, which is as good.
    """

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
        with _told(folder or self.root):
            if not self._system.exists(self._path(folder)):
                return entries
            found = self._system.listFiles(self._path(folder), True)
            while found.hasNext():
                status = found.next()
                relative = str(status.getPath().toString()).removeprefix(self._prefix)
                entries.append(FileEntry(relative, int(status.getLen())))
        return entries

    def move(self, source: str, target: str) -> bool:
        """Move one file in one step, folders made as needed; False, and nothing done, where the target is there."""
        with _told(target):
            if self._system.exists(self._path(target)):
                return False
            self._system.mkdirs(self._path(target).getParent())
            if not self._system.rename(self._path(source), self._path(target)):
                if self._system.exists(self._path(target)):  # somebody else was first
                    return False
                raise HistoryError(f"{self._prefix}{target}: the file system refused to move {source} there")
            return True

    def remove(self, path: str) -> None:
        """Remove a file, or a folder with everything in it; nothing where it is not there."""
        with _told(path):
            self._system.delete(self._path(path), True)

    def read(self, path: str, last: int | None = None) -> bytes:
        """Return the content of a file, or its last bytes."""
        with _told(path):
            size = int(self._system.getFileStatus(self._path(path)).getLen())
            count = size if last is None else min(size, last)
            stream = self._system.open(self._path(path))
            try:
                stream.seek(size - count)
                return bytes(self._java.org.apache.commons.io.IOUtils.toByteArray(stream, count))
            finally:
                stream.close()

    def create(self, path: str, content: bytes) -> bool:
        """Make a file; False, and nothing done, where it is there.

        It appears whole: on HDFS others would see a file without content, or with a part of it, until it is closed.
        """
        draft = f"{STAGING}/{new_id(round(time.time() * 1000))}"
        with _told(path):
            if self._system.exists(self._path(path)):
                return False
            stream = self._system.create(self._path(draft), False)
            try:
                stream.write(content)
            finally:
                stream.close()
            is_made = self.move(draft, path)
            if not is_made:
                self.remove(draft)
            return is_made

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
