"""Gathers rows until they are worth a file, within bounds; a folder of this machine keeps them if the process dies."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import pyarrow as pa
import structlog

from flink_autoscaler.pipeline.tables.files import creation_ms, new_id
from flink_autoscaler.pipeline.tables.rows import NamedRow, Row
from flink_autoscaler.pipeline.tables.schema import TABLES
from flink_autoscaler.pipeline.tables.store import WriteBatch

_SUFFIX: Final = ".jsonl"
_ASIDE: Final = "damaged-"
_UNUSABLE: Final = (OSError, ValueError, TypeError, LookupError, AttributeError, pa.ArrowException)
"""What rows raise that cannot be written as JSON, and lines that hold no rows."""

_log = structlog.get_logger(__name__)

Tables = Mapping[str, pa.Table]
"""Rows by the name of their table."""


def _tables_of(rows: Iterable[NamedRow]) -> Tables:
    by_table: dict[str, list[Row]] = defaultdict(list)
    for name, row in rows:
        by_table[name].append(row)
    return {name: pa.Table.from_pylist(each, schema=TABLES[name].schema) for name, each in by_table.items()}


def _concatenate(pieces: Sequence[Tables]) -> Tables:
    names = dict.fromkeys(name for piece in pieces for name in piece)
    return {name: pa.concat_tables([piece[name] for piece in pieces if name in piece]) for name in names}


class Spill:
    """The rows of one batch in a file of this machine; locked as long as the process that holds it lives.

    What is added together is a line of JSON behind a line break: one that was interrupted spoils no other. It is handed
    to the operating system at once and not waited for: rows survive the end of the process, not that of the machine.
    """

    def __init__(self, path: Path) -> None:
        """Open a file, which is made where it is not there.

        Raises:
            BlockingIOError: It belongs to another process.
            OSError: That is not possible.
        """
        path.parent.mkdir(parents=True, exist_ok=True)
        self._path = path
        self._handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._handle)
            raise

    def add(self, rows: Sequence[NamedRow]) -> None:
        """Append rows.

        Raises:
            OSError, TypeError, ValueError: They could not be written.
        """
        left = memoryview(b"\n" + json.dumps(rows).encode())
        while left:
            left = left[os.write(self._handle, left) :]

    def batch(self) -> WriteBatch:
        """Return the rows as far as they can be read. Where more than the last line cannot, a copy is kept and told.

        Raises:
            OSError: The file cannot be read.
        """
        pieces: list[Tables] = []
        damaged: list[int] = []
        lines = self._path.read_bytes().split(b"\n")[1:]
        for number, line in enumerate(lines, start=1):
            try:
                pieces.append(_tables_of(json.loads(line)))
            except _UNUSABLE:
                damaged.append(number)
        if damaged and damaged != [len(lines)]:
            aside = self._path.with_name(f"{_ASIDE}{self._path.name}")  # for people; the next process does not find it
            shutil.copyfile(self._path, aside)
            _log.warning("history_spill_damaged", lines=damaged, kept_in=str(aside))
        return WriteBatch(self._path.name.removesuffix(_SUFFIX), _concatenate(pieces))

    def remove(self) -> None:
        """Forget the rows. Never raises; what cannot be removed is found again by the next process."""
        with contextlib.suppress(OSError):
            self._path.unlink()
        self.close()

    def close(self) -> None:
        """Let another process take the rows over. Never raises."""
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1


SpilledBatch = tuple[WriteBatch, Spill | None]
"""Rows that nothing is added to any more, and where they are until they are written; nowhere where that failed."""


def recover_batches(root: Path) -> Iterator[SpilledBatch]:
    """Take over the batches that a process left behind, oldest first; those of processes that live are not touched.

    Returns:
        Rows as far as they can be read, and where they are, to be removed once they are written. A file that cannot be
        used is not touched, and told.
    """
    for path in sorted(root.glob(f"*{_SUFFIX}")):
        if creation_ms(path.name) is not None:
            try:
                spill = Spill(path)
                yield spill.batch(), spill
            except BlockingIOError:
                continue
            except OSError as error:
                _log.warning("history_spill_unreadable", file=str(path), error=str(error))


def spilled_bytes(root: Path) -> int:
    """Return the bytes of the rows in a spill folder, whoever they belong to. Never raises."""
    total = 0
    for path in root.glob(f"*{_SUFFIX}"):
        with contextlib.suppress(OSError):
            total += path.stat().st_size
    return total


class RowBuffer:
    """Gathers rows, in memory and in the spill folder, until they are a batch. Called from any thread.

    Args:
        flush_seconds: A batch is due when its oldest rows are that old.
        flush_rows: A batch is due when it has so many rows.
        spill: Folder in which rows survive the end of the process; None keeps them in memory alone.
        reload_marks: Takes batches as they become due, and those of an earlier process.
    """

    def __init__(
        self, *, flush_seconds: float, flush_rows: int, spill: Path | None, hand_over: Callable[[SpilledBatch], None]
    ) -> None:
        self._flush_ms = round(flush_seconds * 1000)
        self._flush_rows = flush_rows
        self._root = spill
        self._hand_over = hand_over
        self._pieces: list[Tables] = []
        self._identity = ""
        self._since_ms = 0
        self._spill: Spill | None = None
        self._is_spill_broken = False
        self._lock = threading.RLock()
        self.rows = 0
        """Rows that are not handed over yet."""

    def recover(self) -> int:
        """Take over what an earlier process left in the spill folder; return its rows."""
        found = [] if self._root is None else list(recover_batches(self._root))
        for each in found:
            self._hand_over(each)
        return sum(batch.rows for batch, _ in found)

    def add(self, rows: Sequence[NamedRow], now_ms: int) -> None:
        """Add rows; the batch begins with the first of them, and ends when it is due.

        Raises:
            ValueError, TypeError, pyarrow.ArrowException: A value does not fit its column; nothing was added.
        """
        tables = _tables_of(rows)
        if not rows:
            return
        with self._lock:
            if not self._pieces:
                self._since_ms, self._identity = now_ms, new_id(now_ms)
            self._keep(rows)
            self._pieces.append(tables)
            self.rows += len(rows)
            self.close_due(now_ms)

    def _keep(self, rows: Sequence[NamedRow]) -> None:
        """Spill rows; where that is not possible, go on in memory and say so once."""
        if self._root is None:
            return
        try:
            if self._spill is None:
                self._spill = Spill(self._root / f"{self._identity}{_SUFFIX}")
            self._spill.add(rows)
            self._is_spill_broken = False
        except _UNUSABLE as error:
            if not self._is_spill_broken:
                _log.warning("history_not_spilled", folder=str(self._root), error=str(error))
            self._is_spill_broken = True

    def close_due(self, now_ms: int) -> None:
        """Hand the rows over where they are due; a clock that was set back keeps none waiting."""
        with self._lock:
            if not 0 <= now_ms - self._since_ms < self._flush_ms or self.rows >= self._flush_rows:
                self.close_batch()

    def close_batch(self) -> None:
        """Hand the rows over as they are; nothing where there are none."""
        with self._lock:
            if not self._pieces:
                return
            batch = WriteBatch(self._identity, _concatenate(self._pieces)), self._spill
            self._pieces, self._spill, self.rows = [], None, 0
            self._hand_over(batch)
