"""Keeps a second daemon from working with the same SQLite file: without a lease both would act on the same jobs."""

from __future__ import annotations

import fcntl
import os
import socket
from pathlib import Path
from typing import Final

import structlog

from flink_autoscaler.core.errors import ConfigError

log = structlog.get_logger(__name__)

_MODE: Final = 0o600
_HOLDER_LENGTH: Final = 200


class FileLock:
    """The right of one process to work with a file, kept in another one beside it.

    The system gives it back when the process ends, however it ends; the file beside stays and means nothing by itself.
    Never the database's own file: closing it once would take SQLite's locks from this process.

    Args:
        path: Of the database.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._beside = path.with_name(f"{path.name}.lock")
        self._descriptor: int | None = None

    def acquire(self) -> None:
        """Take it. Where the folder or the file system allows no such lock, go on without.

        Raises:
            ConfigError: Another process has it.
        """
        try:
            self._descriptor = os.open(self._beside, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _MODE)
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = self._holder()
            self.release()
            raise ConfigError(
                f"another daemon works with {self._path} already ({holder}), and without a lease both would act: stop"
                " it; or give this one a file of its own (STATE_DIRECTORY, or autoscaler.standalone.jdbc.url); or set"
                " autoscaler.ha.enabled for both, so that one leads and the other stands by"
            ) from None
        except OSError as error:
            self.release()
            log.debug("file_not_locked", path=str(self._beside), error=error.strerror)
        else:
            os.ftruncate(self._descriptor, 0)
            os.pwrite(self._descriptor, f"process {os.getpid()} on {socket.gethostname()}".encode(), 0)

    def release(self) -> None:
        """Give it back."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _holder(self) -> str:
        if self._descriptor is None:
            return "unknown"
        told = os.pread(self._descriptor, _HOLDER_LENGTH, 0).decode(errors="replace")
        return told if told.isprintable() and told else "unknown"
