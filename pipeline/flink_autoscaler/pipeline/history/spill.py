"""Keeps rows that wait to be written in a folder of this machine, so that a killed process loses none of them."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Self

import pyarrow as pa

from flink_autoscaler.pipeline.history.layout import made_ms
from flink_autoscaler.pipeline.history.schema import TABLES
from flink_autoscaler.pipeline.history.writer import Batch

_LOCK: Final = "lock"
_SUFFIX: Final = ".arrows"


class Spill:
    """The rows of one batch on disk; locked as long as the process that holds it lives.

    Rows are handed to the operating system at once and not waited for: they survive the end of the process, not that
    of the machine.
    """

    def __init__(self, folder: Path, lock: int) -> None:
        self._folder = folder
        self._lock = lock
        self._streams: dict[str, pa.OSFile] = {}
        self._writers: dict[str, pa.RecordBatchStreamWriter] = {}

    @classmethod
    def create(cls, root: Path, identity: str) -> Self:
        """Make room for a new batch.

        Raises:
            OSError: That is not possible.
        """
        folder = root / identity
        folder.mkdir(parents=True)
        lock = _locked(folder)
        if lock is None:
            raise FileExistsError(f"{folder} belongs to another process")
        return cls(folder, lock)

    def add(self, name: str, rows: pa.Table) -> None:
        """Append rows of one table.

        Raises:
            OSError, pyarrow.ArrowException: They could not be written.
        """
        if name not in self._writers:
            self._streams[name] = pa.OSFile(str(self._folder / f"{name}{_SUFFIX}"), "wb")
            self._writers[name] = pa.ipc.new_stream(self._streams[name], rows.schema)
        self._writers[name].write_table(rows)

    def remove(self) -> None:
        """Forget the rows. Never raises; what cannot be removed is found again by the next process."""
        self.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def close(self) -> None:
        """Let another process take the rows over. Never raises."""
        with contextlib.suppress(OSError, pa.ArrowException):
            for name, writer in self._writers.items():
                writer.close()
                self._streams[name].close()
        self._writers.clear()
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


def leftovers(root: Path) -> Iterator[tuple[Batch, Spill]]:
    """Take over the batches that a process left behind, oldest first.

    Returns:
        Rows as far as they can be read, and where they are, to be removed once they are written. Those of processes
        that live are left alone.
    """
    with contextlib.suppress(OSError):
        for folder in sorted(root.iterdir()):
            if made_ms(folder.name) is None or not folder.is_dir():
                continue
            lock = _locked(folder)
            if lock is not None:
                found = {name: table.conform(_rows(folder, name)) for name, table in TABLES.items()}
                tables = {name: rows for name, rows in found.items() if len(rows)}
                yield Batch(folder.name, tables), Spill(folder, lock)


def _locked(folder: Path) -> int | None:
    """Lock a folder for this process; None when another one holds it."""
    handle = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        return None
    return handle


def _rows(folder: Path, name: str) -> pa.Table:
    """Read the rows of one table up to where writing was interrupted."""
    batches: list[pa.RecordBatch] = []
    with contextlib.suppress(OSError, pa.ArrowException), pa.OSFile(str(folder / f"{name}{_SUFFIX}")) as stream:
        # Not a list at once: what was read before the end broke off counts.
        for batch in pa.ipc.open_stream(stream):
            batches.append(batch)  # noqa: PERF402
    return pa.Table.from_batches(batches) if batches else TABLES[name].schema.empty_table()
