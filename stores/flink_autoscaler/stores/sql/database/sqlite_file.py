"""The file of a SQLite database: whether it is still the one that is open."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Final, NamedTuple

from flink_autoscaler.stores.sql.database.failures import FileLostError

_SHARED: Final = ("-wal", "-shm")
"""What is there as long as anybody has the file open: the journal holds what is not in the file yet, and its index."""


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
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._identity: _Identity | None = None
        self._beside: dict[str, _Identity] = {}
        self._connections = 0

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
        if found is None and self._identity is not None:
            raise FileLostError(
                f"SQLite {self.path}: its file was deleted or moved while it was in use, so nothing is written: put it"
                " back, or restart the daemon, which begins with an empty one"
            )
        if self._identity not in (None, found):
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

    def _find(self, suffix: str = "") -> _Identity | None:
        try:
            found = os.stat(f"{self.path}{suffix}")
        except OSError:
            return None
        return _Identity(found.st_dev, found.st_ino)
