"""The common ground of all realizers: what they answer, and what they remember of jobs without end."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from threading import Lock
from typing import Final, Generic, TypeVar

from flink_autoscaler.core.errors import RealizeError
from flink_autoscaler.core.model.events import Event, EventType
from flink_autoscaler.core.model.job import JobKey
from flink_autoscaler.core.model.metrics import VertexId
from flink_autoscaler.core.model.state import ConfigChanges
from flink_autoscaler.core.options.context import JobAutoScalerContext
from flink_autoscaler.core.ports.deployment import Realization, RealizeResult

K = TypeVar("K")
V = TypeVar("V")

CONFIG_NOT_APPLIED: Final = "ConfigNotApplied"
UNCHANGED: Final = Realization(RealizeResult.UNCHANGED)
REFUSED: Final = Realization(RealizeResult.REFUSED)

GRACE: Final = 5.0
"""Seconds that the event loop may need on top of the timeouts it keeps itself."""

CAPACITY: Final = 10_000
"""Jobs that are remembered: ten times those of a large fleet."""


def refuse(context: JobAutoScalerContext, reason: str, text: str) -> Realization:
    """Refuse with an event; who takes events tells it once per ``scaling.event.interval``."""
    event = Event(EventType.WARNING, reason, text, reason, context.options.scaling_event_interval)
    return Realization(RealizeResult.REFUSED, events=(event,))


def check_overrides(overrides: Mapping[VertexId, int]) -> None:
    """Refuse a parallelism that no cluster accepts. A plug-in or a hand-written state may hold one.

    Flink stores an upper bound of -1 before it fails on it, so such a number must never be sent.

    Raises:
        RealizeError: A value is not a whole number of at least 1.
    """
    for vertex_id, parallelism in overrides.items():
        if type(parallelism) is not int or parallelism < 1:
            raise RealizeError(
                f"vertex {vertex_id}: the parallelism {parallelism!r} is not a whole number of 1 or more"
            )


def changed_keys(changes: ConfigChanges) -> str:
    """Return the keys that are to be set or removed, for people; empty without any."""
    return ", ".join(sorted({*changes.overrides, *changes.removals}))


def config_fingerprint(context: JobAutoScalerContext) -> int:
    """Return a digest of the job's id and configuration: what was found out about the job holds while it is the same.

    A digest, so that the configurations of all such jobs, with what they may hold, are not kept in memory.
    """
    return hash((context.job_id, frozenset(context.configuration.items())))


class BoundedMemory(Generic[K, V]):
    """A map for several threads that forgets what was put first once it is full.

    Jobs that come and go for months do not fill the process.
    """

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


class Throttle:
    """Lets a message about a job through once per ``scaling.event.interval`` of that job.

    Args:
        clock: Seconds that never run backward.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._last: BoundedMemory[tuple[JobKey, str], float] = BoundedMemory()
        self._lock = Lock()

    def admits(self, context: JobAutoScalerContext, reason: str) -> bool:
        """Tell whether to speak now about ``reason``; when so, the interval starts anew."""
        key = (context.job_key, reason)
        interval = context.options.scaling_event_interval.exact_seconds
        with self._lock:
            now = self._clock()
            last = self._last.get(key)
            if last is not None and now - last < interval:
                return False
            self._last.put(key, now)
            return True
