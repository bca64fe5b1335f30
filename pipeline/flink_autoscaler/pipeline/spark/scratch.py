"""Folders of this process among temporary files; what processes left that were killed is removed."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Final, Self

PREFIX: Final = "flink-autoscaler-scratch-"
"""Of the names of folders whose owner holds a lock on them. Those of 0.1.0 have another one, and no lock."""

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Scratch:
    """A new folder for this user alone; a context manager that removes it.

    This process holds a lock on it that ends with the process, however that ends. By that the next one, also in another
    container with the same temporary files, knows which folders nobody needs any more.

    Attributes:
        path: Where it is.
    """

    def __init__(self, parent: Path | None = None) -> None:
        """Make it, after removing what was left.

        Args:
            parent: The folder that it is in; else the one for temporary files.
        """
        parent = parent or Path(tempfile.gettempdir())
        remove_orphans(parent)
        self.path, self._lock = _make_folder(parent)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Remove the folder. Never raises, and may be called again."""
        shutil.rmtree(self.path, ignore_errors=True)
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


def remove_orphans(parent: Path) -> None:
    """Remove the folders of this user whose owner has ended. Never raises.

    Whoever else may write to ``parent`` gets nothing removed by names or links: what counts is a folder itself that
    belongs to this user and is closed to all others. What cannot be removed is left.
    """
    with contextlib.suppress(OSError), os.scandir(parent) as entries:
        for entry in entries:
            if entry.name.startswith(PREFIX):
                with contextlib.suppress(OSError), _locked_folder(Path(entry.path)):
                    shutil.rmtree(entry.path)


@contextlib.contextmanager
def _locked_folder(path: Path) -> Iterator[None]:
    """Hold the lock of a folder of ours; raises :class:`OSError` where it is not ours, or its owner lives."""
    folder = os.open(path, _FOLDER)
    try:
        found = os.fstat(folder)
        if found.st_uid != os.geteuid() or stat.S_IMODE(found.st_mode) & 0o077:
            raise PermissionError(path)
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(folder)


def _make_folder(parent: Path) -> tuple[Path, int]:
    """Return a new folder and what holds its lock."""
    while True:
        path = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))
        if (lock := _lock_of(path)) is not None:
            return path, lock


def _lock_of(path: Path) -> int | None:
    """Take the lock of a new folder; None where somebody took it for one that was left before there was a lock."""
    try:
        folder = os.open(path, _FOLDER)
    except FileNotFoundError:
        return None
    with contextlib.suppress(OSError):  # a file system without locks: nobody else gets one, and nothing is removed
        fcntl.flock(folder, fcntl.LOCK_EX)
    if os.path.lexists(path):
        return folder
    os.close(folder)
    return None
