"""Work that passes hand over and do not wait for: written in order by a thread of its own, within bounds."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Sequence
from typing import Generic, TypeVar

from flink_autoscaler.core.error_boundary import ErrorBoundary
from flink_autoscaler.core.errors import AutoscalerError, StoreError

T = TypeVar("T")


class BackgroundWriter(ABC, Generic[T]):
    """Takes items from any thread and has them written by another, oldest first. Begins when it is started.

    While nothing can be written, items wait; of more than may wait the oldest are dropped. Whoever writes something
    says how in a class of its own, whose methods beginning with ``_`` are called by one thread at a time.

    Args:
        name: Of the thread.
        limit: Size of all items that wait.
        batch: Items that are written at once, at most.
        retry: Seconds until items that could not be written are tried again.
        tell_after: Seconds that an outage has to last before it is told.
    """

    def __init__(self, name: str, *, limit: int, batch: int = 1, retry: float = 1.0, tell_after: float = 0.0) -> None:
        self._limit, self._batch, self._retry, self._tell_after = limit, batch, retry, tell_after
        self._changed = threading.Condition()
        self._waiting: deque[T] = deque()
        self._in_hand: list[T] = []
        self._total = 0  # size of both; adding it up anew would cost a pass over many jobs
        self._is_closed = self._is_told = False
        self._flushes = self._flushed = 0
        self._failing_since: float | None = None
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    @abstractmethod
    def _write(self, items: list[T]) -> None:
        """Write items. Where it raises, those that are still in the list are tried again."""

    def _size(self, _item: T) -> int:
        """Return what an item counts."""
        return 1

    def _on_dropped(self, item: T) -> None:
        """Take an item that is given up, in the thread that hands over another one."""

    def _report_outage(self, error: AutoscalerError | None) -> None:
        """Tell that nothing can be written, or, where there is no error, that something was again."""

    def _run_maintenance(self) -> None:
        """Do what is due after every write, and now and then without one."""

    def _max_idle_seconds(self) -> float:
        """Return the seconds without items after which there is upkeep all the same."""
        return 3600.0

    def start(self) -> None:
        """Begin to write, also what was handed over before."""
        self._thread.start()

    def _put(self, item: T) -> None:
        """Hand an item over; returns at once."""
        with self._changed:
            self._total += self._size(item)
            while self._waiting and self._total > self._limit:
                oldest = self._waiting.popleft()
                self._total -= self._size(oldest)
                self._on_dropped(oldest)
            self._waiting.append(item)
            self._changed.notify_all()

    def _pending_items(self) -> Sequence[T]:
        """Return what waits or is being written, oldest first."""
        with self._changed:
            return (*self._in_hand, *self._waiting)

    def flush(self, timeout: float) -> bool:
        """Have everything written, now if that failed before; tell whether it is within so many seconds."""
        with self._changed:
            self._flushes += 1
            wanted = self._flushes
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._flushed >= wanted, timeout)
            return not self._waiting and not self._in_hand

    def _close_within(self, timeout: float) -> bool:
        """Write what waits and end, for so many seconds at most each; tell whether everything was written."""
        is_written = self.flush(timeout)
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        self._thread.join(timeout)
        return is_written

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._is_called(), self._max_idle_seconds())
                if self._is_closed:
                    return
                flushes = self._flushes
                self._in_hand = [self._waiting.popleft() for _ in range(min(self._batch, len(self._waiting)))]
            is_well = not self._in_hand or self._try_write()
            with self._changed:
                if not is_well or not self._waiting:
                    self._flushed = flushes
                self._changed.notify_all()
            self._run_maintenance()  # may take long: who waits for a flush does not wait for it
            if not is_well:
                with self._changed:
                    self._changed.wait_for(self._is_called, self._retry)

    def _is_called(self) -> bool:
        return self._is_closed or self._flushes > self._flushed

    def _try_write(self) -> bool:
        """Write what is in hand; tell whether that worked."""
        size = sum(map(self._size, self._in_hand))
        with ErrorBoundary(StoreError) as boundary:
            self._write(self._in_hand)
            self._in_hand.clear()
        with self._changed:
            self._total -= size - sum(map(self._size, self._in_hand))
            self._waiting.extendleft(reversed(self._in_hand))  # before what came meanwhile: order is kept
            self._in_hand.clear()
        self._track_outage(boundary.error)
        return boundary.error is None

    def _track_outage(self, error: AutoscalerError | None) -> None:
        """Tell an outage once, unless it is over soon, and once that it is over."""
        if error is None:
            self._failing_since = None
            if self._is_told:
                self._is_told = False
                self._report_outage(None)
            return
        now = time.monotonic()
        self._failing_since = now if self._failing_since is None else self._failing_since
        if not self._is_told and now - self._failing_since >= self._tell_after:
            self._is_told = True
            self._report_outage(error)
