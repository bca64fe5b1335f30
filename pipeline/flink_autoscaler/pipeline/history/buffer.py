"""Gathers rows until they are worth a file, within bounds."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pyarrow as pa
import structlog

from flink_autoscaler.pipeline.history.layout import new_id
from flink_autoscaler.pipeline.history.rows import NamedRow, Row
from flink_autoscaler.pipeline.history.schema import TABLES
from flink_autoscaler.pipeline.history.spill import Spill, leftovers
from flink_autoscaler.pipeline.history.writer import Batch

BATCHES_KEPT: Final = 4
"""Batches of the greatest size that wait for a path that is away; then the oldest ones are given up."""

_log = structlog.get_logger(__name__)


class Buffer:
    """Rows that wait to be written, in memory and in the spill folder. Belongs to one thread.

    Args:
        flush_seconds: A batch is due when its oldest rows are that old.
        flush_rows: A batch is due when it has so many rows.
        spill: Folder in which rows survive the end of the process; None keeps them in memory alone.
    """

    def __init__(self, *, flush_seconds: float, flush_rows: int, spill: Path | None) -> None:
        self._flush_ms = round(flush_seconds * 1000)
        self._flush_rows = flush_rows
        self._spill_root = spill
        self._pieces: dict[str, list[pa.Table]] = defaultdict(list)
        self._rows = 0
        self._identity = ""
        self._since_ms: int | None = None
        self._spill: Spill | None = None
        self._is_spill_broken = False
        self._waiting: deque[tuple[Batch, Spill | None]] = deque()
        self.given_up = 0
        """Rows that were given up since the start."""

    @property
    def rows(self) -> int:
        """Rows that are not written yet."""
        return self._rows + sum(batch.rows for batch, _ in self._waiting)

    @property
    def waiting(self) -> int:
        """Batches that are closed and not written yet."""
        return len(self._waiting)

    def recover(self) -> int:
        """Take over what an earlier process left in the spill folder; return its rows."""
        found = [] if self._spill_root is None else list(leftovers(self._spill_root))
        self._waiting.extend(found)
        return sum(batch.rows for batch, _ in found)

    def add(self, named: Iterable[NamedRow], now_ms: int) -> None:
        """Add rows; the batch begins with the first of them."""
        by_table: dict[str, list[Row]] = defaultdict(list)
        for name, row in named:
            by_table[name].append(row)
        if by_table and self._since_ms is None:
            self._begin(now_ms)
        pieces = {name: pa.Table.from_pylist(rows, schema=TABLES[name].schema) for name, rows in by_table.items()}
        for name, piece in pieces.items():
            self._pieces[name].append(piece)
            self._rows += len(piece)
        if self._spill is not None:
            with self._spilling():
                for name, piece in pieces.items():
                    self._spill.add(name, piece)
                self._is_spill_broken = False

    def is_due(self, now_ms: int) -> bool:
        """Tell whether something is to be written now; a clock that was set back does not keep rows waiting."""
        if self._waiting or self._rows >= self._flush_rows:
            return True
        return self._since_ms is not None and not 0 <= now_ms - self._since_ms < self._flush_ms

    def close_batch(self) -> None:
        """Let the rows so far be a batch, to which nothing is added any more."""
        if self._since_ms is None:
            return
        tables = {name: pa.concat_tables(pieces) for name, pieces in self._pieces.items()}
        self._waiting.append((Batch(self._identity, tables), self._spill))
        self._pieces.clear()
        self._rows, self._since_ms, self._spill = 0, None, None
        self._limit()

    def batches(self) -> Iterator[Batch]:
        """Yield the batches that wait, oldest first; each one has to be :meth:`done` before the next is asked for."""
        while self._waiting:
            yield self._waiting[0][0]

    def done(self) -> None:
        """Forget the oldest batch: it is written."""
        _, spill = self._waiting.popleft()
        if spill is not None:
            spill.remove()

    def close(self) -> None:
        """Leave what is not written in the spill folder to the next process."""
        self.close_batch()
        for _, spill in self._waiting:
            if spill is not None:
                spill.close()

    def _begin(self, now_ms: int) -> None:
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

    def _limit(self) -> None:
        """Give the oldest batches up where too many rows wait."""
        while len(self._waiting) > 1 and self.rows > BATCHES_KEPT * self._flush_rows:
            batch = self._waiting[0][0]
            self.given_up += batch.rows
            _log.warning("history_rows_lost", rows=batch.rows, lost=self.given_up)
            self.done()
