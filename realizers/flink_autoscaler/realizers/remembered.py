"""A bounded memory, so that jobs that come and go for months do not fill the process."""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")

CAPACITY = 10_000
"""Ten times the jobs of a large fleet."""


class BoundedMemory(Generic[K, V]):
    """A map for several threads that forgets what was put first once it is full."""

    def __init__(self, capacity: int = CAPACITY) -> None:
        self._capacity = capacity
        self._values: OrderedDict[K, V] = OrderedDict()
        self._lock = Lock()

    def get(self, key: K) -> V | None:
        """Return what was put last; None when there is nothing."""
        with self._lock:
            return self._values.get(key)

    def put(self, key: K, value: V) -> V | None:
        """Replace a value and return what was there before."""
        with self._lock:
            before = self._values.pop(key, None)
            self._values[key] = value
            if len(self._values) > self._capacity:
                self._values.popitem(last=False)
            return before
