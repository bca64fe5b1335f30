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
import structlog

from flink_autoscaler.pipeline.history.layout import made_ms
from flink_autoscaler.pipeline.history.schema import TABLES
from flink_autoscaler.pipeline.history.writer import Batch

log = structlog.get_logger(__name__)

_LOCK: Final = "lock"
_SUFFIX: Final = ".arrows"
_ASIDE: Final = "damaged-"
_SHORTEST: Final = 4096
"""Bytes within which the description of the columns ends; a file that is shorter may have been interrupted there."""


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
        that live are left alone. A folder with a file of which nothing can be read is set aside under another name,
        and one that cannot be used is left alone; both are told.
    """
    with contextlib.suppress(OSError):
        for folder in sorted(root.iterdir()):
            if made_ms(folder.name) is None or not folder.is_dir():
                continue
            try:
                yield from _taken(folder)
            except (OSError, ValueError) as error:
                log.warning("history_spill_unreadable", folder=str(folder), error=str(error))


def _taken(folder: Path) -> Iterator[tuple[Batch, Spill]]:
    """Yield the batch of a folder; nothing where its process lives. Raises what the system or Arrow raises."""
    lock = _locked(folder)
    if lock is None:
        return
    spill = Spill(folder, lock)
    tables: dict[str, pa.Table] = {}
    damaged: list[str] = []
    for name, table in TABLES.items():
        try:
            rows = table.conform(_rows(folder, name))
        except (OSError, pa.ArrowException) as error:
            damaged.append(f"{folder / name}{_SUFFIX}: {error}")
        else:
            if len(rows):
                tables[name] = rows
    if damaged:
        # Kept for people, and not found again by the next process.
        aside = folder.with_name(f"{_ASIDE}{folder.name}")
        shutil.copytree(folder, aside, dirs_exist_ok=True)
        log.warning("history_spill_damaged", problems=damaged, kept_in=str(aside))
    yield Batch(folder.name, tables), spill


def size_of(root: Path) -> int:
    """Return the bytes of the rows below a spill folder, whoever they belong to. Never raises."""
    total = 0
    for parent, _, names in os.walk(root):
        for name in names:
            if name.endswith(_SUFFIX):
                with contextlib.suppress(OSError):
                    total += os.stat(os.path.join(parent, name)).st_size
    return total


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
    """Read the rows of one table up to where writing was interrupted.

    Raises:
        OSError, pyarrow.ArrowException: It has content, and not even its beginning can be read.
    """
    file = folder / f"{name}{_SUFFIX}"
    if not file.exists() or not file.stat().st_size:
        return TABLES[name].schema.empty_table()
    batches: list[pa.RecordBatch] = []
    with pa.OSFile(str(file)) as stream:
        reader = _opened(stream, file.stat().st_size)
        if reader is None:
            return TABLES[name].schema.empty_table()
        with contextlib.suppress(OSError, pa.ArrowException):
            # Not a list at once: what was read before the end broke off counts.
            for batch in reader:
                batches.append(batch)  # noqa: PERF402
        return pa.Table.from_batches(batches, reader.schema)


def _opened(stream: pa.OSFile, size: int) -> pa.RecordBatchStreamReader | None:
    """Open a stream of rows; None where it was interrupted while it began."""
    try:
        return pa.ipc.open_stream(stream)
    except (OSError, pa.ArrowException):
        if size < _SHORTEST:
            return None
        raise
