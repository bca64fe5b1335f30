"""Gathers rows until they are worth a file, within bounds; a folder of this machine keeps them if the process dies."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Self

import pyarrow as pa
import structlog

from flink_autoscaler.pipeline.history.files import made_ms, new_id
from flink_autoscaler.pipeline.history.rows import NamedRow, Row
from flink_autoscaler.pipeline.history.schema import TABLES
from flink_autoscaler.pipeline.history.storage import Batch

_LOCK: Final = "lock"
_SUFFIX: Final = ".arrows"
_ASIDE: Final = "damaged-"
_SHORTEST: Final = 4096
"""Bytes within which the description of the columns ends; a file that is shorter may have been interrupted there."""

_log = structlog.get_logger(__name__)


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
                _log.warning("history_spill_unreadable", folder=str(folder), error=str(error))


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
        _log.warning("history_spill_damaged", problems=damaged, kept_in=str(aside))
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


SpilledBatch = tuple[Batch, Spill | None]
"""Rows that nothing is added to any more, and where they are until they are written; nowhere where that failed."""


class Buffer:
    """Gathers rows, in memory and in the spill folder, until they are a batch. Called from any thread.

    Args:
        flush_seconds: A batch is due when its oldest rows are that old.
        flush_rows: A batch is due when it has so many rows.
        spill: Folder in which rows survive the end of the process; None keeps them in memory alone.
        hand_over: Takes batches as they become due, and those of an earlier process.
    """

    def __init__(
        self, *, flush_seconds: float, flush_rows: int, spill: Path | None, hand_over: Callable[[SpilledBatch], None]
    ) -> None:
        self._flush_ms = round(flush_seconds * 1000)
        self._flush_rows = flush_rows
        self._spill_root = spill
        self._hand_over = hand_over
        self._pieces: dict[str, list[pa.Table]] = defaultdict(list)
        self._identity = ""
        self._since_ms: int | None = None
        self._spill: Spill | None = None
        self._is_spill_broken = False
        self._lock = threading.RLock()
        self.rows = 0
        """Rows that are not handed over yet."""

    def recover(self) -> int:
        """Take over what an earlier process left in the spill folder; return its rows."""
        found = [] if self._spill_root is None else list(leftovers(self._spill_root))
        for each in found:
            self._hand_over(each)
        return sum(batch.rows for batch, _ in found)

    def add(self, named: Iterable[NamedRow], now_ms: int) -> None:
        """Add rows; the batch begins with the first of them, and ends when it is due."""
        by_table: dict[str, list[Row]] = defaultdict(list)
        for name, row in named:
            by_table[name].append(row)
        pieces = {name: pa.Table.from_pylist(rows, schema=TABLES[name].schema) for name, rows in by_table.items()}
        if not pieces:
            return
        with self._lock:
            self._begin(now_ms)
            for name, piece in pieces.items():
                self._pieces[name].append(piece)
                self.rows += len(piece)
            if self._spill is not None:
                with self._spilling():
                    for name, piece in pieces.items():
                        self._spill.add(name, piece)
                    self._is_spill_broken = False
            self.close_due(now_ms)

    def close_due(self, now_ms: int) -> None:
        """Hand the rows over where they are due; a clock that was set back keeps none waiting."""
        with self._lock:
            is_young = self._since_ms is not None and 0 <= now_ms - self._since_ms < self._flush_ms
            if not is_young or self.rows >= self._flush_rows:
                self.close_batch()

    def close_batch(self) -> None:
        """Hand the rows over as they are; nothing where there are none."""
        with self._lock:
            if self._since_ms is None:
                return
            tables = {name: pa.concat_tables(pieces) for name, pieces in self._pieces.items()}
            batch = Batch(self._identity, tables), self._spill
            self._pieces.clear()
            self.rows, self._since_ms, self._spill = 0, None, None
            self._hand_over(batch)

    def _begin(self, now_ms: int) -> None:
        if self._since_ms is not None:
            return
        self._since_ms = now_ms
        self._identity = new_id(now_ms)
        if self._spill_root is not None:
            with self._spilling():
                self._spill = Spill.create(self._spill_root, self._identity)

    @contextmanager
    def _spilling(self) -> Iterator[None]:
        """Spill something; where that is not possible, go on in memory and say so once."""
        try:
            yield
        except (OSError, pa.ArrowException) as error:
            if not self._is_spill_broken:
                _log.warning("history_not_spilled", folder=str(self._spill_root), error=str(error))
            self._is_spill_broken = True
