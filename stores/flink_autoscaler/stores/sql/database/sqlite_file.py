"""The file of a SQLite database: whether it is still the one that is open, and how a deleted one is written anew."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Final, NamedTuple

import structlog

from flink_autoscaler.stores.sql.database.failures import FileLostError

log = structlog.get_logger(__name__)

_SHARED: Final = ("-wal", "-shm")
"""What is there as long as anybody has the file open: the journal holds what is not in the file yet, and its index."""

_COMPANIONS: Final = (*_SHARED, "-journal")
"""What SQLite keeps beside a file; left there, it would be taken for that of the next file of the same name."""


class _Identity(NamedTuple):
    """What tells a file from another one with the same path."""

    device: int
    inode: int


class SqliteFile:
    """Notices that the file of a database is not the one any more that is open. Thread-safe.

    A process goes on with a file that was deleted or replaced as if nothing had happened; what it writes is gone with
    its end. Shared by all pools of connections to one file; checked before every transaction and every new connection,
    which would make an empty file where there is none.

    Args:
        path: Where it is.
        grace: Seconds for which a deleted file is waited for until it is written anew; 0 waits for ever.
        clock: Seconds of a clock that never goes back.

    Attributes:
        generation: How often it was written anew: connections of an earlier generation are to a file that is gone.
    """

    def __init__(self, path: Path, *, grace: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.path = path
        self._grace = grace
        self._clock = clock
        self._lock = threading.Lock()
        self._identity: _Identity | None = None
        self._beside: dict[str, _Identity] = {}
        self._connections = 0
        self._missing_since: float | None = None
        self.generation = 0

    def opened(self) -> None:
        """Take note that somebody has connected: from now on it has to be this file."""
        with self._lock:
            self._connections += 1
        if self._identity is None:
            self._identity = self._find()
        self._learn_beside()

    def closed(self) -> None:
        """Take note that somebody disconnects. The last one has SQLite remove the journal."""
        with self._lock:
            self._connections -= 1
            if not self._connections:
                self._beside.clear()

    def check(self) -> None:
        """Make sure that the file and its journal are the ones that are open.

        Raises:
            FileLostError: One of them was deleted or replaced.
        """
        found = self._find()
        if self._identity in (None, found):
            self._missing_since = None
        elif found is None:
            raise FileLostError(self._deleted())
        else:
            raise FileLostError(
                f"SQLite {self.path}: its file was replaced by another one while it was in use, so nothing is written:"
                " restart the daemon to go on with the file that is there now, or put the one before back"
            )
        if lost := self._lost_beside():
            raise FileLostError(
                f"SQLite {self.path}: {' and '.join(lost)} beside its file was deleted or replaced while it was in use,"
                " so nothing is written: restart the daemon, which has saved what it could into the file itself"
            )
        self._learn_beside()

    def is_journal_lost(self) -> bool:
        """Tell whether the file is the one that is open, and its journal is gone and no other one is there yet."""
        is_same = self._identity is not None and self._find() == self._identity
        return is_same and bool(self._lost_beside()) and self._find(_SHARED[0]) is None

    def _lost_beside(self) -> list[str]:
        with self._lock:
            known = list(self._beside.items())
        return [f"{self.path.name}{suffix}" for suffix, identity in known if self._find(suffix) != identity]

    def _learn_beside(self) -> None:
        with self._lock:
            for suffix in _SHARED:
                # Only while somebody has it open is it sure to stay.
                if suffix not in self._beside and self._connections and (found := self._find(suffix)):
                    self._beside[suffix] = found

    def is_due(self) -> bool:
        """Tell whether the file has been missing for so long that it is to be written anew."""
        with self._lock:
            if self._identity is None or self._find() is not None:
                self._missing_since = None
                return False
            now = self._clock()
            if self._missing_since is None:
                self._missing_since = now
            return self._grace > 0 and now - self._missing_since >= self._grace

    def write_anew(self, source: sqlite3.Connection) -> None:
        """Copy everything from a connection to the deleted file into a new one; never over a file that is there.

        Raises:
            FileLostError: It could not be written, or somebody else has put a file there.
        """
        new = self.path.with_name(f"{self.path.name}.{os.getpid()}.new")
        try:
            with closing(sqlite3.connect(new)) as target:
                source.backup(target)
            for companion in _COMPANIONS:
                Path(f"{self.path}{companion}").unlink(missing_ok=True)
            os.link(new, self.path)
        except (OSError, sqlite3.Error) as error:
            raise FileLostError(
                f"SQLite {self.path}: its file was deleted and could not be written anew: {error}"
            ) from error
        finally:
            for name in ("", *_COMPANIONS):
                Path(f"{new}{name}").unlink(missing_ok=True)
        self._identity, self._missing_since = self._find(), None
        with self._lock:
            self._beside.clear()
        self.generation += 1
        log.warning("database_file_written_anew", path=str(self.path), effect="what was in the deleted file is in it")

    def _deleted(self) -> str:
        after = f"; else everything in it is written into a new one {self._grace:g} s after" if self._grace > 0 else ""
        return (
            f"SQLite {self.path}: its file was deleted or moved while it was in use, so nothing is written: put it back"
            f"{after}"
        )

    def _find(self, suffix: str = "") -> _Identity | None:
        try:
            found = os.stat(f"{self.path}{suffix}")
        except OSError:
            return None
        return _Identity(found.st_dev, found.st_ino)
