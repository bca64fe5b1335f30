"""Says the same thing once in a while instead of in every pass."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock

from flink_autoscaler.core.model.job import JobAutoScalerContext, JobKey
from flink_autoscaler.realizers.remembered import BoundedMemory


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
