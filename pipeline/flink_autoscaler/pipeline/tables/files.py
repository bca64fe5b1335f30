"""The files of a history, wherever they are: here, or where Spark reaches them. Imports neither Spark nor Arrow."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol
from urllib.parse import unquote, urlsplit

from flink_autoscaler.core.errors import StoreError
from flink_autoscaler.pipeline.spark.environment import require_packages

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from flink_autoscaler.pipeline.spark.settings import SparkSettings

_LOCAL: Final = ("", "file")
GONE: Final = "no such file; the history may have been compacted meanwhile"
STAGING: Final = "_staging"
"""Folder of files that are being written."""
_NO_LINKS: Final = frozenset({errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS})

Sessions = Callable[[], AbstractContextManager["SparkSession"]]
"""Lends a Spark session; may raise anything when there is none."""


class HistoryError(StoreError):
    """The history could not be read or written; the message names the path."""


class MissingHistoryError(HistoryError):
    """There is no such folder."""


class FileVanishedError(HistoryError):
    """A file that was listed is not there any more: the history was compacted, or a day removed, meanwhile."""


@dataclass(frozen=True, slots=True)
class FileEntry:
    """One file.

    Attributes:
        path: Relative to the history.
        size: Bytes.
    """

    path: str
    size: int

    @property
    def folder(self) -> str:
        """The path without the name."""
        return self.path.rpartition("/")[0]

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.rpartition("/")[2]


class Files(Protocol):
    """The files below one folder, the root. All paths are relative to it. Calls come from one thread at a time.

    Every method raises :class:`HistoryError` and nothing else.
    """

    root: str

    def exists(self) -> bool:
        """Tell whether the root is there."""
        ...

    def list(self, folder: str = "") -> Sequence[FileEntry]:
        """Return all files below a folder, in no order; none where there is no such folder."""
        ...

    def remove(self, path: str) -> None:
        """Remove a file, or a folder with everything in it; nothing where it is not there."""
        ...

    def read(self, path: str, last: int | None = None) -> bytes:
        """Return the content of a file, or its last bytes."""
        ...

    def create(self, path: str, content: bytes) -> bool:
        """Make a file, folders as needed; False, and nothing done, where it is there.

        Others see it whole or not at all. What a process that ended meanwhile has begun stays in the staging folder.
        """
        ...


def is_local(path: str) -> bool:
    """Tell whether a path is in the file system of this machine: without a scheme, or with ``file:``."""
    return urlsplit(path).scheme in _LOCAL


def local_path(path: str) -> Path:
    """Return a local path without its scheme."""
    parts = urlsplit(path)
    return Path(unquote(parts.path) if parts.scheme else path).expanduser().absolute()


class LocalFiles:
    """Files of this machine."""

    def __init__(self, root: str) -> None:
        self.root = str(local_path(root))

    def exists(self) -> bool:
        """Tell whether the root is there."""
        with _translate_errors(self.root):
            try:  # Path.is_dir says False to whatever goes wrong, from Python 3.14 on
                return stat.S_ISDIR(os.stat(self.root).st_mode)
            except (FileNotFoundError, NotADirectoryError):
                return False

    def list(self, folder: str = "") -> Sequence[FileEntry]:
        """Return all files below a folder, in no order; none where there is no such folder."""
        entries = []
        with _translate_errors(self.path(folder)):
            for parent, _, names in os.walk(self.path(folder), onerror=_raise_unless_gone):
                for name in names:
                    path = os.path.join(parent, name)
                    with contextlib.suppress(FileNotFoundError):
                        entries.append(FileEntry(os.path.relpath(path, self.root), os.stat(path).st_size))
        return entries

    def remove(self, path: str) -> None:
        """Remove a file, or a folder with everything in it; nothing where it is not there."""
        with _translate_errors(self.path(path)), contextlib.suppress(FileNotFoundError):
            if os.path.isdir(self.path(path)):
                shutil.rmtree(self.path(path))
            else:
                os.remove(self.path(path))

    def read(self, path: str, last: int | None = None) -> bytes:
        """Return the content of a file, or its last bytes."""
        with _translate_errors(self.path(path)), open(self.path(path), "rb") as stream:
            if last is not None:
                stream.seek(max(0, os.fstat(stream.fileno()).st_size - last))
            return stream.read()

    def create(self, path: str, content: bytes) -> bool:
        """Make a file that is on the disk; False, and nothing done, where it is there."""
        target, draft = self.path(path), self.path(f"{STAGING}/{new_id()}")
        with _translate_errors(target):
            if os.path.exists(target):
                return False
            for each in (target, draft):
                os.makedirs(os.path.dirname(each), exist_ok=True)
            try:
                with open(draft, "xb") as stream:
                    stream.write(content)
                    stream.flush()
                    os.fsync(stream.fileno())  # it may be about to replace what it was made from
                return _put_in_place(draft, target)
            finally:
                with contextlib.suppress(FileNotFoundError):
                    os.remove(draft)

    def path(self, relative: str) -> str:
        """Return where a file is."""
        return os.path.join(self.root, relative) if relative else self.root


def new_id(now_ms: int | None = None) -> str:
    """Return a name that no other file or batch has; names sort by time, which is now unless it is given."""
    at_ms = round(time.time() * 1000) if now_ms is None else now_ms
    return f"{at_ms:013d}-{uuid.uuid4().hex[:12]}"


def creation_ms(identity: str) -> int | None:
    """Return the instant in a name made by :func:`new_id`; None for a name of another kind."""
    head = identity.partition("-")[0]
    return int(head) if head.isdecimal() else None


def _put_in_place(draft: str, target: str) -> bool:
    """Give a file its name; False where another process was first."""
    try:
        os.link(draft, target)  # unlike a rename it refuses where something is
    except FileExistsError:
        return False
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        os.rename(draft, target)
    return True


def _raise_unless_gone(error: OSError) -> None:
    if not isinstance(error, FileNotFoundError):
        raise error


@contextmanager
def _translate_errors(path: str) -> Iterator[None]:
    """Turn what the system says into an error that names the path."""
    try:
        yield
    except FileNotFoundError as error:
        raise FileVanishedError(f"{error.filename or path}: {GONE}") from error
    except OSError as error:
        raise HistoryError(f"{error.filename or path}: {error.strerror or error}") from error


@contextmanager
def open_files(path: str, sessions: Sessions | None = None) -> Iterator[Files]:
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
    from flink_autoscaler.pipeline.tables.spark_files import HadoopFiles  # noqa: PLC0415

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
